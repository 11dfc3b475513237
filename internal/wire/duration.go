package wire

import (
	"encoding/json"
	"fmt"
	"time"
)

// DurationPattern is the form of a duration in JSON: a Go duration string
// without a sign, as "90s" or "1h30m".
const DurationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

// Duration is a time.Duration that JSON writes as a Go duration string.
// The zero value means "not given" and is left out with omitzero.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// Or returns d, or def if d was not given.
func (d Duration) Or(def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return time.Duration(d)
}

// String formats d as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// IsZero reports whether d was not given.
func (d Duration) IsZero() bool { return d == 0 }

// MarshalJSON writes d as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a Go duration string. A number or a negative duration is
// an error: a bare number's unit is a guess.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration %s is not a string: want a Go duration such as \"90s\"", b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: want a Go duration such as \"90s\" or \"5m\"", clip(s, 80))
	}
	if v < 0 {
		return fmt.Errorf("duration %q is negative", s)
	}
	*d = Duration(v)
	return nil
}
