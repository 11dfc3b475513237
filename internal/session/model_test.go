package session

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever is asked of a session, in any order: it goes where the table allows and
// nowhere else, a refused move changes nothing, it runs only while it has a sandbox or
// makes one, and comes by a new sandbox only by the making of one.
func TestAnyLifeKeepsToTheTable(t *testing.T) {
	t.Parallel()
	want := parse(t)
	rapid.Check(t, func(t *rapid.T) {
		rec := Record{Session: "s"}
		made := false // a sandbox has been in the making since the last one was gone
		t.Repeat(map[string]func(*rapid.T){
			"move": func(t *rapid.T) {
				to := rapid.SampledFrom(States()).Draw(t, "to")
				next, err := rec.To(to)
				require.Equal(t, want[rec.State][to], err == nil, "%q to %q", rec.State, to)
				if err != nil {
					require.Equal(t, rec, next, "a refused move changed the record")
					return
				}
				rec = next
				switch to {
				case Provisioning:
					made = true
				case Destroyed:
					made = false
				}
			},
			"": func(t *rapid.T) {
				if rec.State.HasSandbox() {
					require.True(t, made, "%q has a sandbox that nobody made", rec.State)
				}
				if rec.State.Running() {
					require.True(t, rec.State.HasSandbox() || rec.State == Provisioning, "%q runs without a sandbox", rec.State)
				}
				require.Equal(t, rec.State == None, !want[rec.State][rec.State], "%q cannot be written again", rec.State)
			},
		})
	})
}
