package events

import (
	"time"

	"github.com/sandjet/sandjet/internal/wire"
)

// Kind names an event; it is the last token of the event's subject.
type Kind string

// The kinds of event. The four terminal ones exclude each other: a job has
// exactly one, and it is the last.
const (
	Stdout          Kind = "stdout" // raw bytes, header Sandjet-Offset
	Stderr          Kind = "stderr" // raw bytes, header Sandjet-Offset
	KindAccepted    Kind = "accepted"
	KindWaiting     Kind = "waiting"
	KindClaimed     Kind = "claimed" // the fence: its stream sequence is the token
	KindStarted     Kind = "started"
	KindStep        Kind = "step"
	KindProgress    Kind = "progress"
	KindReattached  Kind = "reattached"
	KindRetrying    Kind = "retrying"
	KindInterrupted Kind = "interrupted"
	// KindCancelRequested is the durable record of a cancel. It is the one job
	// event that is not fenced: anyone who may cancel writes it, at any time.
	KindCancelRequested Kind = "cancel_requested"

	Succeeded Kind = "succeeded"
	Failed    Kind = "failed"
	Cancelled Kind = "cancelled"
	Dead      Kind = "dead"

	// SessionState is the only session fact; its job token is wire.ReservedJob
	// and its payload a session.Record.
	SessionState Kind = "state"
)

// Terminal reports whether k ends a job.
func (k Kind) Terminal() bool {
	switch k {
	case Succeeded, Failed, Cancelled, Dead:
		return true
	}
	return false
}

// Accepted says that a worker has seen the job and found it well-formed. It is
// written once per job.
type Accepted struct {
	Kind        string            `json:"kind"`
	Owner       string            `json:"owner,omitempty"`
	Subject     string            `json:"subject"`
	StreamSeq   uint64            `json:"stream_seq"`
	Exclusive   bool              `json:"exclusive"`
	Unique      string            `json:"unique,omitempty"`
	MaxAttempts int               `json:"max_attempts"`
	Labels      map[string]string `json:"labels,omitempty"`
	PublishedAt time.Time         `json:"published_at,omitzero"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	RunAfter    time.Time         `json:"run_after,omitzero"`
}

// Why a job waits.
const (
	WaitLane       = "lane"       // an earlier exclusive job of the session, or earlier pushes to its branch
	WaitQuota      = "quota"      // no free slot for a running sandbox
	WaitRate       = "rate"       // E2B or our own create rate asks to slow down
	WaitBreaker    = "breaker"    // E2B does not answer; its breaker is open
	WaitRemote     = "remote"     // the git server, or the one for pull requests, does not answer
	WaitDelay      = "delay"      // run_after or delay
	WaitTransition = "transition" // the sandbox is between two states
	WaitVersion    = "version"    // the body is newer than this worker
	WaitUnique     = "unique"     // never published: the second job of a key is ended, not queued
)

// Waiting says why the job does not run yet. A wait spends no attempt.
type Waiting struct {
	Why    string    `json:"why"`
	Detail string    `json:"detail,omitempty"`
	Ahead  int       `json:"ahead,omitempty"` // jobs before it in the lane, or sessions before its own in line for a slot
	Since  time.Time `json:"since,omitzero"`  // with remote: from when on there has been no answer
	Until  time.Time `json:"until,omitzero"`  // when it is looked at again at the latest
	// Rescheduled is true when the job has left the queue's consumer and comes
	// back through the schedule stream.
	Rescheduled bool `json:"rescheduled,omitempty"`
}

// Claimed is the fence: who may write this job's events from here on.
type Claimed struct {
	Worker    string `json:"worker"`
	Attempt   int    `json:"attempt"`            // from 1; waits and hand-overs do not raise it
	Stream    string `json:"stream,omitempty"`   // the stream of the queue message that the claim stands on
	StreamSeq uint64 `json:"stream_seq"`         // that message's sequence
	Delivery  int    `json:"delivery,omitempty"` // how often the server had delivered that message then
	Origin    uint64 `json:"origin"`             // the queue sequence the job was published with
	Owner     string `json:"owner,omitempty"`    // whom the subject proves that it was published on
	Previous  uint64 `json:"previous,omitempty"`
	Takeover  bool   `json:"takeover,omitempty"` // the previous holder vanished
	Crashes   int    `json:"crashes,omitempty"`  // holders in a row that vanished soon after they claimed
}

// Started says that the attempt's work has begun in the sandbox.
type Started struct {
	Attempt    int      `json:"attempt"`
	SandboxID  string   `json:"sandbox_id,omitempty"`
	Generation int      `json:"generation,omitempty"`
	Argv       []string `json:"argv,omitempty"`
	Cwd        string   `json:"cwd,omitempty"`
	// Where this attempt's output begins: an attempt's output follows what the
	// attempts before it wrote.
	StdoutOffset int64 `json:"stdout_offset"`
	StderrOffset int64 `json:"stderr_offset"`
}

// States of a step.
const (
	StepBegun = "begun"
	StepDone  = "done"
)

// Step is one stage of a job that has several.
type Step struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
	// Repo is what the steps of a repo block have made so far: whoever takes the job
	// up goes on from there.
	Repo *RepoState `json:"repo,omitempty"`
}

// The steps of a repo block, in their order.
const (
	StepClone       = "clone"
	StepBranch      = "branch"
	StepCommand     = "command"
	StepCommit      = "commit"
	StepPush        = "push"
	StepPullRequest = "pull_request"
)

// RepoState is how far a job with a repo block has come.
type RepoState struct {
	Done        string       `json:"done,omitempty"`       // the last step that is done
	Generation  int          `json:"generation,omitempty"` // of the sandbox with the work tree
	Dir         string       `json:"dir,omitempty"`        // the work tree
	Branch      string       `json:"branch,omitempty"`
	Base        string       `json:"base,omitempty"`   // commit at which the job began; empty in an empty repository
	Commit      string       `json:"commit,omitempty"` // tip of what the job has made
	Nothing     bool         `json:"nothing,omitempty"`
	Pushed      string       `json:"pushed,omitempty"` // what the server's branch points to
	Into        string       `json:"into,omitempty"`   // the branch to merge into
	Summary     string       `json:"summary,omitempty"`
	Stat        string       `json:"stat,omitempty"` // the diffstat
	PullRequest *PullRequest `json:"pull_request,omitempty"`
}

// PullRequest is a pull request that a job has opened, or found open.
type PullRequest struct {
	Number int    `json:"number"`
	URL    string `json:"url"`
	State  string `json:"state,omitempty"` // open, closed or merged
	Draft  bool   `json:"draft,omitempty"`
}

// Progress is for people: how far the job is.
type Progress struct {
	Percent float64 `json:"percent,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Reattached says that a worker has joined a command that already ran.
type Reattached struct {
	Attempt      int    `json:"attempt"`
	Worker       string `json:"worker"`
	SandboxID    string `json:"sandbox_id,omitempty"`
	StdoutOffset int64  `json:"stdout_offset"`
	StderrOffset int64  `json:"stderr_offset"`
}

// Retrying says that the attempt failed and another one follows.
type Retrying struct {
	Class   string        `json:"class"`
	Reason  string        `json:"reason"`
	Attempt int           `json:"attempt"` // the one that failed
	Delay   wire.Duration `json:"delay,omitzero"`
}

// Interrupted says that the worker lets go of the job in good order, for
// instance to stop. The next worker takes it up where it is.
type Interrupted struct {
	Worker string `json:"worker"`
	Reason string `json:"reason"`
}

// CancelRequested is the durable wish that a job end.
type CancelRequested struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// Outcome is the payload of the four terminal events.
type Outcome struct {
	Class      string `json:"class"` // "ok" for succeeded; else a class of the error table
	Reason     string `json:"reason,omitempty"`
	Pointer    string `json:"pointer,omitempty"` // JSON pointer into the body, when that is at fault
	ExitCode   *int   `json:"exit_code,omitempty"`
	Signal     string `json:"signal,omitempty"`
	Attempts   int    `json:"attempts"`
	DurationMS int64  `json:"duration_ms"`

	SandboxID     string `json:"sandbox_id,omitempty"`
	StdoutBytes   int64  `json:"stdout_bytes"`
	StdoutSHA256  string `json:"stdout_sha256,omitempty"`
	StdoutDropped int64  `json:"stdout_dropped,omitempty"` // bytes past the spool cap that were not kept
	StderrBytes   int64  `json:"stderr_bytes"`
	StderrSHA256  string `json:"stderr_sha256,omitempty"`
	StderrDropped int64  `json:"stderr_dropped,omitempty"`
	// Masked says that a secret was masked in the outputs or the events, as far as
	// the worker has seen them that ended the job.
	Masked bool `json:"masked,omitempty"`

	Object      string       `json:"object,omitempty"`
	ObjectBytes int64        `json:"object_bytes,omitempty"`
	ObjectSHA   string       `json:"object_sha256,omitempty"`
	Commit      string       `json:"commit,omitempty"`
	Branch      string       `json:"branch,omitempty"`
	PullRequest *PullRequest `json:"pull_request,omitempty"`
}
