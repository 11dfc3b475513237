package secret

import (
	"errors"
	"fmt"
)

// MinLength is how many bytes a secret must have. The mask of a shorter one would
// turn up all over the output, and tell it by where it does.
const MinLength = 6

// MaxLength is how many bytes a secret may have.
const MaxLength = 64 << 10

// Why a reference did not resolve. They come in an *Error.
var (
	// ErrUnknown says that no source has a secret of that name.
	ErrUnknown = errors.New("no source has a secret of that name")
	// ErrNotAllowed says that the owner may not use the secret, be it there or not.
	ErrNotAllowed = errors.New("the owner may not use this secret")
	// ErrName says that the reference is no name of a secret.
	ErrName = errors.New("not the name of a secret: want 1 to 128 of A-Z a-z 0-9 _ . - that begin with a letter, digit or _")
	// ErrPasted says that the reference looks like a secret itself.
	ErrPasted = errors.New("looks like a secret itself: put its value into one of the worker's sources and give its name here; renew it, for it was published")
	// ErrEmpty says that the secret is there and empty.
	ErrEmpty = errors.New("is empty")
	// ErrTooShort says that the secret has fewer bytes than MinLength.
	ErrTooShort = fmt.Errorf("has fewer than %d bytes: masking it would shred the output; use a longer one", MinLength)
	// ErrTooLong says that the secret has more bytes than MaxLength.
	ErrTooLong = fmt.Errorf("has more than %d bytes", MaxLength)
	// ErrNUL says that the secret has a byte that no environment variable can hold.
	ErrNUL = errors.New("holds a NUL byte, which no environment variable can: store it as base64")
	// ErrUnreadable says that the secret is there and cannot be read.
	ErrUnreadable = errors.New("cannot be read")
)

// Error says which reference did not resolve and why. It holds no value.
type Error struct {
	Ref string // as it may be shown
	Err error
}

// Error names the reference, unless it looks like a secret.
func (e *Error) Error() string { return fmt.Sprintf("secret %s: %v", e.Ref, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }
