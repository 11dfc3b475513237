package secret

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Source finds secrets by name. It may be used concurrently.
type Source interface {
	// Find returns the secret as it is now. ErrUnknown says that there is none of
	// this name; any other error that it is there and cannot be had. Neither holds
	// a value, nor the name of a file: who reads it may not run the worker.
	Find(name string) (Value, error)
	// Check returns what an operator should set right, one line each.
	Check() []error
}

// Env is a source in the environment: "github-token" is the variable
// <prefix>GITHUB_TOKEN. A variable has one name only, in lower case and with
// dashes, so that who may use it does not depend on how it is written. environ
// lists the environment as os.Environ does; it is read once.
func Env(prefix string, environ []string) Source {
	e := env{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && value != "" {
			e[strings.ReplaceAll(strings.ToLower(rest), "_", "-")] = value
		}
	}
	return e
}

type env map[string]string

func (e env) Find(name string) (Value, error) {
	value, ok := e[name]
	if !ok {
		return Value{}, ErrUnknown
	}
	return parse([]byte(value))
}

func (e env) Check() (errs []error) {
	for name := range e {
		if _, err := e.Find(name); err != nil {
			errs = append(errs, fmt.Errorf("secret %s of the environment: %w", name, err))
		}
	}
	return errs
}

// parse makes a secret of what a source holds: without one line end at its end, as
// editors put it there.
func parse(data []byte) (Value, error) {
	s := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case strings.TrimSpace(s) == "":
		return Value{}, ErrEmpty
	case len(s) < MinLength:
		return Value{}, ErrTooShort
	case len(s) > MaxLength:
		return Value{}, ErrTooLong
	case strings.IndexByte(s, 0) >= 0:
		return Value{}, ErrNUL
	}
	return NewValue(s), nil
}

// unreadable is err as ErrUnreadable, without the name of the file.
func unreadable(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("%w: %w", ErrUnreadable, err)
}
