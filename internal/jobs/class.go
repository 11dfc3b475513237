package jobs

// Class names why a job, or an attempt, ended the way it did. It is what
// Decide decides by, and what operators filter by.
type Class string

// The job has ended, and the worker knows how.
const (
	ClassOK             Class = "ok"              // it did what it was asked
	ClassCommandFailed  Class = "command_failed"  // the command's exit status is not 0
	ClassCommandTimeout Class = "command_timeout" // the command ran longer than timeout
	ClassSilentTimeout  Class = "silent_timeout"  // the command said nothing for silent_timeout
	ClassCancelled      Class = "cancelled"       // somebody asked for it
	ClassExpired        Class = "expired"         // it waited longer than expires_in
	ClassDuplicate      Class = "duplicate"       // another live job has its unique key, or another owner's job its id
)

// The job cannot be run as it is.
const (
	ClassInvalid     Class = "invalid"     // the body is not a job
	ClassForbidden   Class = "forbidden"   // E2B refuses the call, or the job lacks an owner
	ClassPolicy      Class = "policy"      // the policy file refuses it
	ClassAuth        Class = "auth"        // E2B does not know the API key
	ClassNotFound    Class = "not_found"   // session, template, object or file is not there
	ClassQuarantined Class = "quarantined" // it took down its worker twice
	ClassUndelivered Class = "undelivered" // the consumer's delivery limit is used up
	ClassFull        Class = "full"        // the object bucket has no room for its file
)

// The job can be run, but not now.
const (
	ClassLane          Class = "lane"          // an earlier exclusive job of the session is not done
	ClassDelay         Class = "delay"         // its run_after or delay is not over
	ClassVersion       Class = "version"       // its body is newer than this worker
	ClassQuota         Class = "quota"         // all slots for running sandboxes are taken
	ClassRate          Class = "rate"          // E2B or our own rate asks to slow down
	ClassTransitioning Class = "transitioning" // the sandbox is between two states
	ClassUnavailable   Class = "unavailable"   // E2B does not answer, or its breaker is open
	ClassInterrupted   Class = "interrupted"   // the worker stops, or lost its claim
)

// The attempt failed; another one may do better.
const (
	ClassSandboxLost Class = "sandbox_lost" // the sandbox is gone, with what ran in it
	ClassTransport   Class = "transport"    // a stream or call broke off
	ClassGitConflict Class = "git_conflict" // the push was refused, the base has moved
	ClassGitAuth     Class = "git_auth"     // the git server refused the credential
	ClassInternal    Class = "internal"     // a fault of ours
)

// Classes lists every class.
func Classes() []Class {
	return []Class{
		ClassOK, ClassCommandFailed, ClassCommandTimeout, ClassSilentTimeout, ClassCancelled, ClassExpired, ClassDuplicate,
		ClassInvalid, ClassForbidden, ClassPolicy, ClassAuth, ClassNotFound, ClassQuarantined, ClassUndelivered, ClassFull,
		ClassLane, ClassDelay, ClassVersion, ClassQuota, ClassRate, ClassTransitioning, ClassUnavailable, ClassInterrupted,
		ClassSandboxLost, ClassTransport, ClassGitConflict, ClassGitAuth, ClassInternal,
	}
}

// Says tells an operator what to do about a dead job of class c. It is empty
// for classes that do not die.
func (c Class) Says() string { return advice[c] }

var advice = map[Class]string{
	ClassInvalid:     "correct the body and publish it again; a replay would be refused the same way",
	ClassForbidden:   "check the publisher's NATS permissions and the rights of the E2B key, then replay",
	ClassPolicy:      "change the job or the policy file, then replay",
	ClassAuth:        "E2B refuses the API key: renew E2B_API_KEY (the worker re-reads E2B_API_KEY_FILE), then replay",
	ClassNotFound:    "check that the session, template, secret, object or path exists and belongs to the job's owner",
	ClassQuarantined: "the job took down its worker twice: look at the worker's last log lines before a replay",
	ClassUndelivered: "the consumer's delivery limit was used up without a worker finishing the job: look at its events, then replay",
	ClassFull:        "delete objects that nobody needs (nats object ls, nats object rm) or raise WORKER_ARTIFACTS_CAP on all workers, then replay",
	ClassSandboxLost: "the sandbox vanished on every attempt: look at E2B's status and the template, then replay",
	ClassTransport:   "the sandbox or a server, or the connection to it, failed on every attempt: look at what the reason names, the network, the sandbox's disk and E2B's status, then replay",
	ClassGitConflict: "the base branch kept moving or conflicts: resolve the branch by hand, or replay",
	ClassGitAuth:     "the git server refuses the credential: renew it and check its repository scope, then replay",
	ClassInternal:    "a fault of the worker: look at its log for this job, then replay",
}
