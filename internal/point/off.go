//go:build !faultpoints

package point

import "context"

// Built reports whether the points are compiled in.
const Built = false

// Before is passed right before an effect. An error means that the effect must
// not be done: the call has failed.
func Before(context.Context, At) error { return nil }

// After is passed between an effect and its record. An error means that the
// caller must take the answer for lost.
func After(context.Context, At) error { return nil }

// Off reports whether a mechanism is switched off.
func Off(Switch) bool { return false }
