package query

import (
	"errors"
	"fmt"
)

// ErrNoWorker is returned when nobody listens on a question's subject: no
// worker runs on this NATS system, or it runs in another namespace.
var ErrNoWorker = errors.New("no worker answers")

// ErrTimeout is returned when a worker took the question, or the network lost
// it, and no answer came in time. Whether a question with an effect (cancel,
// replay, discard) took effect is then unknown; all of them may be asked again.
var ErrTimeout = errors.New("no answer in time")

// Error is a worker's refusal, from the micro error headers of its answer.
type Error struct {
	Code        string // one of the codes of this package
	Description string // one sentence for people
}

// Error gives the description alone: it is a whole sentence.
func (e *Error) Error() string {
	if e.Description == "" {
		return fmt.Sprintf("refused with code %s", e.Code)
	}
	return e.Description
}

// IsNotFound reports whether err is a worker's word that what was asked for
// does not exist, or belongs to somebody else.
func IsNotFound(err error) bool { return hasCode(err, CodeNotFound) }

// IsForbidden reports whether err is a worker's word that the question is not an owner's
// to ask.
func IsForbidden(err error) bool { return hasCode(err, CodeForbidden) }

// IsConflict reports whether err is a worker's word that the thing is not in a
// state that allows what was asked.
func IsConflict(err error) bool { return hasCode(err, CodeConflict) }

func hasCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}
