package e2b

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Kinds of failure. Each is the Kind of an *Error; test with errors.Is.
var (
	// ErrInvalid happens when the request itself is wrong: a bad field, a
	// timeout above the plan, a missing working directory, a malformed id.
	ErrInvalid = errors.New("invalid request")
	// ErrUnauthorized happens when the API key or the sandbox's access token is
	// missing or wrong, or when the user of a command does not exist.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden happens when the key may not do this: a blocked team, a
	// foreign template.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound happens when the API itself says so: no such sandbox or
	// template, no such process, no such file. A 404 that is not in the API's
	// own form is ErrBadAnswer.
	ErrNotFound = errors.New("not found")
	// ErrExists happens when a directory to be made is there already.
	ErrExists = errors.New("already exists")
	// ErrConflict happens while a sandbox is in another state or in transition.
	// Read the state again.
	ErrConflict = errors.New("state conflict")
	// ErrQuota happens at the limit of running sandboxes: a 429 that names no
	// time to wait. It ends when somebody gives capacity back.
	ErrQuota = errors.New("quota reached")
	// ErrRateLimited happens when too many requests were sent: a 429 with a
	// Retry-After, which Error.RetryAfter holds.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnavailable happens when E2B cannot be reached, does not answer in
	// time, or answers with a 5xx.
	ErrUnavailable = errors.New("unavailable")
	// ErrHeldBack happens when Config.Admit does not let a call go out: nothing
	// was sent. Error.RetryAfter is about how long it would hold back the next.
	ErrHeldBack = errors.New("held back")
	// ErrSandboxGone happens when the data plane answers 502: no running
	// sandbox has this id. It was killed, is paused, or never was; only the
	// control plane knows which.
	ErrSandboxGone = errors.New("sandbox does not answer")
	// ErrStalled happens when a stream or transfer shows no sign of life for
	// too long. The process, if it was one, may still run.
	ErrStalled = errors.New("stalled")
	// ErrCut happens when a stream or body ends before its end: no end event,
	// a reset, a frame that cannot be read. The process may still run.
	ErrCut = errors.New("cut off")
	// ErrBadAnswer happens when the answer is not what the protocol says: a page
	// of a proxy in between, broken JSON, a body without a bound.
	ErrBadAnswer = errors.New("unreadable answer")
	// ErrRange happens when a file is shorter than the offset asked for.
	ErrRange = errors.New("offset beyond the end of the file")
	// ErrNoSpace happens when the sandbox's disk is full.
	ErrNoSpace = errors.New("no space left in the sandbox")
	// ErrUnsupported happens when this envd does not know the call.
	ErrUnsupported = errors.New("not supported")

	// ErrUnknown is no Kind but a warning beside it: the request was sent, and
	// whether it had its effect is unknown. After a create, look for the
	// sandbox by its metadata before anything else.
	ErrUnknown = errors.New("outcome unknown")
)

// Error is a failed call to E2B.
type Error struct {
	Op         string        // the call, as "create" or "files.read"
	Sandbox    string        // the sandbox's id, if the call has one
	Kind       error         // one of the sentinels of this package; nil if Err says all
	Status     int           // HTTP status; 0 if there was no answer
	Code       string        // the API's error_code, or the RPC code of envd
	Message    string        // the server's words, for people
	RetryAfter time.Duration // how long the server asks to wait; 0 if it does not
	RequestID  string        // the server's name for the request, if it gave one
	Unknown    bool          // the request may have had its effect
	Err        error         // what is beneath: a network error, the context's cause
}

// Error describes the failure in one line, without any secret.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("e2b " + e.Op)
	if e.Sandbox != "" {
		b.WriteString(" " + e.Sandbox)
	}
	if e.Kind != nil {
		b.WriteString(": " + e.Kind.Error())
	}
	var facts []string
	if e.Status != 0 {
		facts = append(facts, "status "+strconv.Itoa(e.Status))
	}
	if e.Code != "" {
		facts = append(facts, "code "+e.Code)
	}
	if e.RequestID != "" {
		facts = append(facts, "request "+e.RequestID)
	}
	if e.RetryAfter > 0 {
		facts = append(facts, "retry after "+e.RetryAfter.String())
	}
	if len(facts) > 0 {
		b.WriteString(" (" + strings.Join(facts, ", ") + ")")
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Is reports whether target is e's Kind, or ErrUnknown if the outcome is. A
// kind that io/fs has a word for matches that word too.
func (e *Error) Is(target error) bool {
	switch target {
	case nil:
		return false
	case e.Kind:
		return true
	case ErrUnknown:
		return e.Unknown
	case fs.ErrNotExist:
		return e.Kind == ErrNotFound
	case fs.ErrExist:
		return e.Kind == ErrExists
	case fs.ErrPermission:
		return e.Kind == ErrForbidden
	}
	return false
}

// Unwrap returns what is beneath.
func (e *Error) Unwrap() error { return e.Err }

// ExitError is a command that ended without success.
type ExitError struct {
	Code   int    // exit code; -1 if a signal ended it
	Signal string // "killed", "terminated", ...; empty if it exited
	Status string // envd's words: "exit status 3", "signal: killed"
}

// Error returns envd's words for the end.
func (e *ExitError) Error() string {
	if e.Status != "" {
		return e.Status
	}
	return fmt.Sprintf("exit status %d", e.Code)
}
