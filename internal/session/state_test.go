package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// table is the state machine as one reads it: a row is the state from which, a
// column the state to which; x is allowed, o is the same state written again.
const table = `
               provisioning active pausing paused resuming destroying destroyed lost error
none           x            .      .       .      .        .          .         .    .
provisioning   o            x      .       .      .        x          .         x    x
active         .            o      x       x      .        x          .         x    x
pausing        .            x      o       x      .        x          .         x    x
paused         .            x      .       o      x        x          .         x    .
resuming       .            x      .       x      o        x          .         x    x
destroying     .            .      .       .      .        o          x         .    x
destroyed      x            .      .       .      .        .          o         .    .
lost           x            .      .       .      .        x          x         o    .
error          x            x      .       x      .        x          x         x    o
`

func TestMay(t *testing.T) {
	t.Parallel()
	want := parse(t)
	for _, from := range append([]State{None}, States()...) {
		for _, to := range append([]State{None}, States()...) {
			allowed := want[from][to]
			require.Equal(t, allowed, May(from, to), "%q to %q", from, to)
			rec, err := Record{Session: "s", State: from, Generation: 3}.To(to)
			if allowed {
				require.NoError(t, err)
				require.Equal(t, Record{Session: "s", State: to, Generation: 3}, rec)
			} else {
				require.ErrorContains(t, err, "session s")
				require.Equal(t, from, rec.State, "a refused move changed the record")
			}
		}
	}
}

func TestEveryStateIsInTheTable(t *testing.T) {
	t.Parallel()
	want := parse(t)
	require.Len(t, want, len(States())+1)
	for from, tos := range transitions {
		require.Contains(t, want, from)
		for _, to := range tos {
			require.Contains(t, States(), to)
		}
	}
}

// Whatever has happened to a session, it can be brought to its end, and it can
// have come from its beginning.
func TestEveryStateIsOnTheWay(t *testing.T) {
	t.Parallel()
	fromNone := reach(None)
	for _, s := range States() {
		require.Contains(t, fromNone, s, "no session ever gets to %s", s)
		require.Contains(t, reach(s), Destroyed, "a session in %s can never be destroyed", s)
		if s != Destroyed && s != Destroying {
			require.True(t, May(s, Destroying), "%s may not be destroyed at once", s)
		}
	}
	require.NotContains(t, fromNone, None, "a session forgets its record")
}

// A state that somebody leaves has a way to success and a way out of failure.
func TestTransitionalStatesHaveAWayOut(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		if !s.Transitional() {
			continue
		}
		require.True(t, May(s, s), "%s cannot be taken over", s)
		require.True(t, May(s, Error), "%s cannot fail", s)
		settled := 0
		for _, to := range transitions[s] {
			if !to.Transitional() && to != Error && to != Lost {
				settled++
			}
		}
		require.NotZero(t, settled, "%s cannot succeed", s)
	}
}

func TestWhatAStateMeans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s                                 State
		transitional, hasSandbox, running bool
	}{
		{None, false, false, false},
		{Provisioning, true, false, true},
		{Active, false, true, true},
		{Pausing, true, true, true},
		{Paused, false, true, false},
		{Resuming, true, true, true},
		{Destroying, true, false, false},
		{Destroyed, false, false, false},
		{Lost, false, false, false},
		{Error, false, false, false},
	} {
		require.Equal(t, c.transitional, c.s.Transitional(), "%q transitional", c.s)
		require.Equal(t, c.hasSandbox, c.s.HasSandbox(), "%q has a sandbox", c.s)
		require.Equal(t, c.running, c.s.Running(), "%q running", c.s)
	}
}

// reach is every state that can follow s, in any number of moves.
func reach(s State) map[State]bool {
	seen := map[State]bool{}
	var visit func(State)
	visit = func(s State) {
		for _, to := range transitions[s] {
			if !seen[to] {
				seen[to] = true
				visit(to)
			}
		}
	}
	visit(s)
	if s == Destroyed {
		seen[Destroyed] = true
	}
	return seen
}

// parse reads table.
func parse(t *testing.T) map[State]map[State]bool {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	columns := strings.Fields(lines[0])
	want := map[State]map[State]bool{}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		require.Len(t, cells, len(columns)+1, line)
		from := State(cells[0])
		if from == "none" {
			from = None
		}
		want[from] = map[State]bool{}
		for i, cell := range cells[1:] {
			to := State(columns[i])
			require.Equal(t, from == to, cell == "o", "%s to %s", from, to)
			want[from][to] = cell != "."
		}
	}
	return want
}
