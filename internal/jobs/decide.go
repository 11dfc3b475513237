package jobs

import "time"

// Fate is what becomes of a job after an attempt, or instead of one.
type Fate string

// The fates. Succeed, Fail, Cancel and Die are terminal and carry the event of
// that name.
const (
	Succeed Fate = "succeeded"
	Fail    Fate = "failed"
	Cancel  Fate = "cancelled"
	Die     Fate = "dead"    // with a dead letter
	Retry   Fate = "retry"   // another attempt, after Delay
	Wait    Fate = "waiting" // the same attempt, after Delay
)

// Terminal reports whether the job is over.
func (f Fate) Terminal() bool { return f != Retry && f != Wait }

// DefaultMaxAttempts is how often a job is tried when it does not say.
const DefaultMaxAttempts = 3

// Decision is what to do with a job.
type Decision struct {
	Fate  Fate
	Delay time.Duration // how long until the job is looked at again; 0 for terminal fates
	// SpendsAttempt is true when what happened counts against max_attempts.
	SpendsAttempt bool
}

// AtLeast returns d with a delay of no less than wait, for answers that say when
// to come again. Terminal decisions are returned as they are.
func (d Decision) AtLeast(wait time.Duration) Decision {
	if !d.Fate.Terminal() && d.Delay < wait {
		d.Delay = wait
	}
	return d
}

// group is how a class is dealt with; the table below is design in code.
type group int

const (
	succeeds group = iota // ends well
	ends                  // ends as failed; another attempt only if the job asks for it
	cancels               // ends as cancelled
	dies                  // dead at once
	waits                 // comes again, costs nothing
	retries               // comes again, costs an attempt, then dies
)

var groups = map[Class]group{
	ClassOK: succeeds,

	ClassCommandFailed:  ends,
	ClassCommandTimeout: ends,
	ClassSilentTimeout:  ends,
	ClassExpired:        ends,
	ClassDuplicate:      ends,
	ClassCancelled:      cancels,

	ClassInvalid:     dies,
	ClassForbidden:   dies,
	ClassPolicy:      dies,
	ClassAuth:        dies,
	ClassNotFound:    dies,
	ClassQuarantined: dies,
	ClassUndelivered: dies,
	ClassFull:        dies,

	ClassLane:          waits,
	ClassDelay:         waits,
	ClassVersion:       waits,
	ClassQuota:         waits,
	ClassRate:          waits,
	ClassTransitioning: waits,
	ClassUnavailable:   waits,
	ClassInterrupted:   waits,

	ClassSandboxLost: retries,
	ClassTransport:   retries,
	ClassGitConflict: retries,
	ClassGitAuth:     retries,
	ClassInternal:    retries,
}

// waitFor is how long a waiting job waits when nobody says. Waits that somebody
// ends (lane, interrupted) are short or long by what that somebody does.
var waitFor = map[Class]time.Duration{
	ClassLane:          30 * time.Second,
	ClassDelay:         time.Second,
	ClassVersion:       15 * time.Second,
	ClassQuota:         10 * time.Second,
	ClassRate:          time.Second,
	ClassTransitioning: time.Second,
	ClassUnavailable:   5 * time.Second,
	ClassInterrupted:   50 * time.Millisecond,
}

// Decide says what becomes of a job whose attempt (the first is 1) of at most
// maxAttempts (0 means DefaultMaxAttempts) ended with class. retryAsked is true
// when the job itself asks for another attempt after such an end
// (retry_on_exit). It depends on its arguments alone, but for the jitter of
// Delay. A class it does not know counts as ClassInternal.
func Decide(class Class, attempt, maxAttempts int, retryAsked bool) Decision {
	if maxAttempts <= 0 {
		maxAttempts = DefaultMaxAttempts
	}
	again := Decision{Fate: Retry, Delay: Delay(attempt), SpendsAttempt: true}
	more := attempt < maxAttempts
	g, known := groups[class]
	if !known {
		g = retries
	}
	switch g {
	case succeeds:
		return Decision{Fate: Succeed, SpendsAttempt: true}
	case cancels:
		return Decision{Fate: Cancel, SpendsAttempt: true}
	case dies:
		return Decision{Fate: Die}
	case waits:
		return Decision{Fate: Wait, Delay: Jitter(waitFor[class])}
	case ends:
		if retryAsked && more && class.OfCommand() {
			return again
		}
		return Decision{Fate: Fail, SpendsAttempt: ran(class)}
	}
	if more {
		return again
	}
	return Decision{Fate: Die, SpendsAttempt: true}
}

// OfCommand reports whether an attempt failed with the end of its command. Only then
// may retry_on_exit ask for another one.
func (c Class) OfCommand() bool {
	switch c {
	case ClassCommandFailed, ClassCommandTimeout, ClassSilentTimeout:
		return true
	}
	return false
}

// ran reports whether an end of class c used an attempt; a job that expired or
// was a duplicate never began.
func ran(c Class) bool { return c != ClassExpired && c != ClassDuplicate }
