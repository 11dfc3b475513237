package schematest

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/schemas"
)

// waiting is events.Waiting as it should be; the others each differ in a way
// that must be seen.
type (
	waiting struct {
		Why         string    `json:"why"`
		Detail      string    `json:"detail,omitempty"`
		Ahead       int       `json:"ahead,omitempty"`
		Since       time.Time `json:"since,omitzero"`
		Until       time.Time `json:"until,omitzero"`
		Rescheduled bool      `json:"rescheduled,omitempty"`
	}
	withMore struct {
		waiting
		More string `json:"more,omitempty"`
	}
	withLess struct {
		Why    string    `json:"why"`
		Detail string    `json:"detail,omitempty"`
		Ahead  int       `json:"ahead,omitempty"`
		Since  time.Time `json:"since,omitzero"`
		Until  time.Time `json:"until,omitzero"`
	}
	withOtherType struct {
		Why         string    `json:"why"`
		Detail      string    `json:"detail,omitempty"`
		Ahead       string    `json:"ahead,omitempty"`
		Since       time.Time `json:"since,omitzero"`
		Until       time.Time `json:"until,omitzero"`
		Rescheduled bool      `json:"rescheduled,omitempty"`
	}
	withOtherFormat struct {
		Why         string        `json:"why"`
		Detail      string        `json:"detail,omitempty"`
		Ahead       int           `json:"ahead,omitempty"`
		Since       time.Time     `json:"since,omitzero"`
		Until       wire.Duration `json:"until,omitzero"`
		Rescheduled bool          `json:"rescheduled,omitempty"`
	}
	withNothingSure struct {
		Why         string    `json:"why,omitempty"`
		Detail      string    `json:"detail,omitempty"`
		Ahead       int       `json:"ahead,omitempty"`
		Since       time.Time `json:"since,omitzero"`
		Until       time.Time `json:"until,omitzero"`
		Rescheduled bool      `json:"rescheduled,omitempty"`
	}
	withMoreSure struct {
		Why         string    `json:"why"`
		Detail      string    `json:"detail"`
		Ahead       int       `json:"ahead,omitempty"`
		Since       time.Time `json:"since,omitzero"`
		Until       time.Time `json:"until,omitzero"`
		Rescheduled bool      `json:"rescheduled,omitempty"`
	}
)

func TestComparisonSeesDrift(t *testing.T) {
	t.Parallel()
	s, _ := schemas.Event("waiting")
	tests := []struct {
		name string
		typ  reflect.Type
		want string // empty: they agree
	}{
		{"the same", reflect.TypeFor[waiting](), ""},
		{"more in Go", reflect.TypeFor[withMore](), "events/waiting: Go has more, the schema does not"},
		{"more in the schema", reflect.TypeFor[withLess](), "events/waiting: the schema has rescheduled, Go does not"},
		{"another type", reflect.TypeFor[withOtherType](), "events/waiting/ahead: the schema wants integer, Go has string"},
		{"another format", reflect.TypeFor[withOtherFormat](), "events/waiting/until: the schema has format date-time, Go needs go-duration"},
		{"required, but left out", reflect.TypeFor[withNothingSure](), "events/waiting: the schema requires why, Go may leave it out"},
		{"written, but not required", reflect.TypeFor[withMoreSure](), "events/waiting: Go always writes detail, the schema does not require it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &comparison{written: true}
			c.compare(s.Name(), root(t, s), tt.typ)
			if tt.want == "" {
				require.Empty(t, c.faults)
				require.Empty(t, roundTrip(s, tt.typ))
				return
			}
			require.Equal(t, []string{tt.want}, c.faults)
		})
	}
}

func TestRoundTripSeesLoss(t *testing.T) {
	t.Parallel()
	s, _ := schemas.Event("waiting")
	require.NotEmpty(t, roundTrip(s, reflect.TypeFor[withLess]()))
	require.NotEmpty(t, roundTrip(s, reflect.TypeFor[withOtherType]()))
	require.ErrorContains(t, lost("", map[string]any{"a": []any{"x"}}, map[string]any{"a": []any{}}), "/a has 1 items, then 0")
	require.ErrorContains(t, lost("", map[string]any{"a": map[string]any{"b": "x"}}, map[string]any{"a": map[string]any{}}), "/a/b is lost")
}
