package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// mask is what a Value prints as.
const mask = "[secret]"

// Value is a secret that does not print itself: with fmt, slog, encoding/json,
// encoding.TextMarshaler and packages that look into unexported fields it is a
// mask. Values are not compared with == but with Equal. The zero Value is empty.
type Value struct {
	// A func is the one kind of field that nothing looks into, whatever the Value
	// is a field of.
	reveal func() string
}

// NewValue wraps s.
func NewValue(s string) Value { return Value{reveal: func() string { return s }} }

// Reveal returns the secret itself. What it is given to must not write it down.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// IsZero reports whether v holds nothing.
func (v Value) IsZero() bool { return v.Len() == 0 }

// Len returns how many bytes the secret has.
func (v Value) Len() int { return len(v.Reveal()) }

// Equal reports whether both are the same secret, in a time that tells nothing.
func (v Value) Equal(o Value) bool {
	return subtle.ConstantTimeCompare([]byte(v.Reveal()), []byte(o.Reveal())) == 1
}

// String returns a mask.
func (v Value) String() string { return mask }

// GoString returns a mask.
func (v Value) GoString() string { return mask }

// Format writes a mask, whatever the verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// LogValue returns a mask.
func (v Value) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText returns a mask.
func (v Value) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalJSON returns a mask.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + mask + `"`), nil }
