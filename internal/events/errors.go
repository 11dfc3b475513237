package events

import (
	"errors"
	"fmt"

	"github.com/sandjet/sandjet/internal/natsx"
)

var (
	// ErrLost is a write under a claim that somebody else holds now, or a claim
	// that somebody else was faster to make. Stop at once; write nothing more.
	ErrLost = errors.New("claim lost")
	// ErrMoved is a claim over a job of which there is a newer event than the
	// caller has seen: read its history again, it may have ended.
	ErrMoved = errors.New("job has moved on")
	// ErrReleased is a write under a claim that its holder has let go of.
	ErrReleased = errors.New("claim released")
	// ErrEnded is a write to a job that has its terminal event.
	ErrEnded = errors.New("job has ended")
	// ErrNotFound is a question for something the streams do not hold.
	ErrNotFound = errors.New("not found")
	// ErrUnreadable comes with ErrNotFound when all that is stored of a session is
	// no record of it.
	ErrUnreadable = errors.New("session state cannot be read")
	// ErrStale is a session record written over another one than the caller knew.
	ErrStale = natsx.ErrStale
)

// LostError is ErrLost with the record that took the claim.
type LostError struct {
	Job   Job
	Token uint64 // of the new claim
	By    Claimed
}

// Error says who holds the claim now.
func (e *LostError) Error() string {
	return fmt.Sprintf("job %s: %v to worker %s (token %d)", e.Job, ErrLost, e.By.Worker, e.Token)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// GapError says that output is not in the stream any more: the bytes From up to,
// not including, To.
type GapError struct {
	Job      Job
	Kind     Kind
	From, To int64
}

// Error names the missing bytes.
func (e *GapError) Error() string {
	return fmt.Sprintf("job %s: %s bytes %d to %d are no longer in the stream", e.Job, e.Kind, e.From, e.To)
}

// VerifyError says that the output read is not what the terminal event says the
// command wrote.
type VerifyError struct {
	Job       Job
	Kind      Kind
	Bytes     int64 // read
	SHA256    string
	WantBytes int64 // per the terminal event
	WantSHA   string
}

// Error names the difference.
func (e *VerifyError) Error() string {
	if e.Bytes != e.WantBytes {
		return fmt.Sprintf("job %s: %s has %d bytes, the outcome says %d", e.Job, e.Kind, e.Bytes, e.WantBytes)
	}
	return fmt.Sprintf("job %s: sha256 of %s is %s, the outcome says %s", e.Job, e.Kind, e.SHA256, e.WantSHA)
}
