package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSightings(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		look := func(ids ...string) map[string]Sighting {
			t.Helper()
			seen, err := s.Sightings(ctx, ids...)
			require.NoError(t, err)
			return seen
		}
		note := func(ids ...string) map[string]Sighting {
			t.Helper()
			seen, err := s.Sight(ctx, ids...)
			require.NoError(t, err)
			return seen
		}
		require.Equal(t, 1, look("a")["a"].Times)
		require.Equal(t, 1, look("a")["a"].Times, "a look notes nothing")
		require.Equal(t, 1, note("a", "b")["a"].Times)
		soon(t, func() bool { return look("a")["a"].For > 0 }, "the time since the first sighting stands still")
		require.Equal(t, 2, look("a")["a"].Times)

		seen := note("a")
		require.Equal(t, 2, seen["a"].Times)
		require.Positive(t, seen["a"].For)
		require.Equal(t, 1, note("b")["b"].Times, "seen before, but not the last time")
		require.Equal(t, 1, look("a")["a"].Times, "what is not seen any more is forgotten")
		require.Empty(t, note())
		require.Equal(t, 1, look("b")["b"].Times)
	})
}
