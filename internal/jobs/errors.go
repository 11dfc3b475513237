package jobs

import (
	"errors"
	"fmt"
)

var (
	// ErrScheduleFull says that the schedules have reached their byte cap. Give
	// the message back with a delay: the pressure then reaches JOBS and, through
	// its own cap, the publishers.
	ErrScheduleFull = errors.New("schedules are full")

	// ErrTooLarge says that a message does not fit what the server takes once the
	// headers are added that it would need.
	ErrTooLarge = errors.New("message is too large for the server")

	// ErrSettled says that a delivery has been acknowledged or given back
	// before.
	ErrSettled = errors.New("delivery is settled already")

	// ErrStopping says that the consumer takes up no more work.
	ErrStopping = errors.New("consumer is stopping")

	// ErrNoLetter says that there is no such dead letter.
	ErrNoLetter = errors.New("no such dead letter")

	// ErrCutLetter says that a replay was refused because the letter holds only a
	// part of the job's body.
	ErrCutLetter = errors.New("dead letter holds only a part of the body")
)

// Invalid says why a message is no job that could be run. The job goes to DEAD
// at once.
type Invalid struct {
	Class   Class  // ClassInvalid, unless the fault is of another kind
	Reason  string // for people
	Pointer string // JSON pointer into the body, when one field is at fault
}

// Error returns pointer and reason.
func (e *Invalid) Error() string {
	if e.Pointer == "" {
		return e.Reason
	}
	return e.Pointer + ": " + e.Reason
}

// NewerVersion says that the body is written for a newer worker. The job is put
// off and spends no attempt.
type NewerVersion struct {
	V int
}

// Error names both versions.
func (e *NewerVersion) Error() string {
	return fmt.Sprintf("body has version %d, this worker knows %d", e.V, Version)
}

func invalid(pointer, format string, args ...any) *Invalid {
	return &Invalid{Class: ClassInvalid, Pointer: pointer, Reason: fmt.Sprintf(format, args...)}
}
