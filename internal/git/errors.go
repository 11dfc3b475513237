package git

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kinds of failure. Each is the Kind of an *Error; test with errors.Is.
var (
	// ErrInvalid happens when the request itself is wrong: see Problem.
	ErrInvalid = errors.New("invalid request")
	// ErrAuth happens when the server does not take the credential, or wants one
	// and there is none: a revoked token, a key it does not know.
	ErrAuth = errors.New("credential refused")
	// ErrForbidden happens when the server knows who asks and says no: a missing
	// permission, an organisation's single sign-on.
	ErrForbidden = errors.New("not permitted")
	// ErrNotFound happens when the repository or the ref is not there, or is
	// hidden from this credential: servers do not tell these apart.
	ErrNotFound = errors.New("not found")
	// ErrExists happens when something else is where the clone should go.
	ErrExists = errors.New("something else is there")
	// ErrConflict happens when the branch has moved and the same lines were
	// changed on both sides. Error.Paths has the files.
	ErrConflict = errors.New("conflict")
	// ErrMoved happens when the branch moved each time we had caught up with it.
	// Trying again is right.
	ErrMoved = errors.New("the branch keeps moving")
	// ErrRejected happens when a hook or rule of the server declines the push.
	// Error.Message has its words.
	ErrRejected = errors.New("declined by the server")
	// ErrGuarded happens when the change touches what may not be pushed.
	// Error.Findings says what and why.
	ErrGuarded = errors.New("guarded")
	// ErrTooLarge happens when a file, or all together, is above the limits, or
	// the server says so.
	ErrTooLarge = errors.New("too large")
	// ErrRateLimited happens when the server asks to come back later.
	// Error.RetryAfter says when; it is no attempt.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnavailable happens when the server cannot be reached or fails.
	ErrUnavailable = errors.New("unavailable")
	// ErrUnsupported happens when the server, the sandbox's git or the repository
	// cannot do this: no git, no partial clone, an unknown repository format.
	ErrUnsupported = errors.New("not supported")
	// ErrNoSpace happens when the sandbox's disk is full.
	ErrNoSpace = errors.New("no space left")
	// ErrBroken happens when the repository in the sandbox cannot be read as one.
	ErrBroken = errors.New("repository unreadable")
	// ErrOverruled happens when somebody with a younger fence is at work at the
	// desk: the job is in other hands.
	ErrOverruled = errors.New("overruled")
)

// Error is a failed operation.
type Error struct {
	Op         string // "clone", "commit", "push", "pull request", …
	Kind       error  // one of the sentinels of this package; nil if Err says all
	Message    string // what happened and what to do about it, for people; no secrets
	Paths      []string
	Findings   []Finding
	RetryAfter time.Duration
	Code       int // exit code of git, or HTTP status
	Err        error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("git " + e.Op)
	if e.Kind != nil {
		b.WriteString(": " + e.Kind.Error())
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if n := len(e.Paths); n > 0 {
		fmt.Fprintf(&b, ": %s", listPaths(e.Paths))
	}
	for i, f := range e.Findings {
		if i == maxListed {
			fmt.Fprintf(&b, "; and %d more", len(e.Findings)-i)
			break
		}
		b.WriteString("; " + f.String())
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the kind and what is beneath.
func (e *Error) Unwrap() []error {
	var out []error
	if e.Kind != nil {
		out = append(out, e.Kind)
	}
	if e.Err != nil {
		out = append(out, e.Err)
	}
	return out
}

// Class is the hint which of a job's classes the error is: the words stand in
// the product's contract.
func (e *Error) Class() string {
	switch e.Kind {
	case ErrInvalid, ErrUnsupported, ErrExists, ErrBroken:
		return "invalid"
	case ErrAuth:
		return "git_auth"
	case ErrForbidden:
		return "forbidden"
	case ErrNotFound:
		return "not_found"
	case ErrConflict, ErrMoved:
		return "git_conflict"
	case ErrRejected, ErrGuarded, ErrTooLarge:
		return "policy"
	case ErrRateLimited:
		return "rate"
	case ErrUnavailable:
		return "unavailable"
	case ErrOverruled:
		return "interrupted"
	}
	return "internal"
}

const maxListed = 20

// listPaths quotes paths, which may hold anything, and cuts a long list.
func listPaths(paths []string) string {
	var b strings.Builder
	for i, p := range paths {
		if i == maxListed {
			fmt.Fprintf(&b, " and %d more", len(paths)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", p)
	}
	return b.String()
}
