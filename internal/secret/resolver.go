package secret

import (
	"errors"
	"regexp"
	"slices"
)

// NamePattern is what a reference looks like.
const NamePattern = `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`

var nameRegexp = regexp.MustCompile(NamePattern)

func isName(s string) bool { return nameRegexp.MatchString(s) }

// Allow decides whether an owner may use a reference: nil if so, else why not. The
// owner is empty where nobody vouches for one.
type Allow func(owner, ref string) error

// Resolver finds the values of references. It may be used concurrently.
type Resolver struct {
	sources []Source
	allow   Allow
}

// NewResolver returns a Resolver that asks the sources in this order. A nil allow
// lets every owner use every secret.
func NewResolver(allow Allow, sources ...Source) *Resolver {
	return &Resolver{allow: allow, sources: sources}
}

// Resolve returns the value of ref for an owner, as it is now. Its error is an
// *Error around one of the errors of this package or, if the owner may not use the
// secret, around ErrNotAllowed and what allow said. Only what is allowed is looked
// for: an answer tells a stranger nothing of what there is.
func (r *Resolver) Resolve(owner, ref string) (Value, error) {
	if resembles(ref) {
		return Value{}, &Error{Ref: mask, Err: ErrPasted}
	}
	if !isName(ref) {
		return Value{}, &Error{Ref: mask, Err: ErrName}
	}
	if r.allow != nil {
		if err := r.allow(owner, ref); err != nil {
			return Value{}, &Error{Ref: ref, Err: &refusal{err}}
		}
	}
	for _, s := range r.sources {
		v, err := s.Find(ref)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			return Value{}, &Error{Ref: ref, Err: err}
		}
		return v, nil
	}
	return Value{}, &Error{Ref: ref, Err: ErrUnknown}
}

// ResolveAll returns the values of several references, by the names that a job has
// for them (its environment variables). The first error, in the order of those
// names, is returned with the name.
func (r *Resolver) ResolveAll(owner string, refs map[string]string) (values map[string]Value, at string, err error) {
	names := make([]string, 0, len(refs))
	for name := range refs {
		names = append(names, name)
	}
	slices.Sort(names)
	values = make(map[string]Value, len(refs))
	for _, name := range names {
		if values[name], err = r.Resolve(owner, refs[name]); err != nil {
			return nil, name, err
		}
	}
	return values, "", nil
}

// Check returns what an operator should set right about the sources, one line each:
// secrets that cannot be used, and files that others may read.
func (r *Resolver) Check() []error {
	var errs []error
	for _, s := range r.sources {
		errs = append(errs, s.Check()...)
	}
	return errs
}

// refusal is ErrNotAllowed with the words of who refused.
type refusal struct{ err error }

func (r *refusal) Error() string   { return ErrNotAllowed.Error() + ": " + r.err.Error() }
func (r *refusal) Unwrap() []error { return []error{ErrNotAllowed, r.err} }
