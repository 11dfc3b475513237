package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeadlineOf(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		_, err := s.DeadlineOf(ctx, Idle, "s1")
		require.ErrorIs(t, err, ErrNotFound)

		before := time.Now()
		require.NoError(t, s.SetDeadline(ctx, Idle, "s1", time.Hour))
		at, err := s.DeadlineOf(ctx, Idle, "s1")
		require.NoError(t, err)
		require.WithinDuration(t, before.Add(time.Hour), at, time.Minute)
		require.Equal(t, time.UTC, at.Location())
		_, err = s.DeadlineOf(ctx, Stale, "s1")
		require.ErrorIs(t, err, ErrNotFound, "another kind")
		_, err = s.DeadlineOf(ctx, Idle, "s2")
		require.ErrorIs(t, err, ErrNotFound, "another session")

		require.NoError(t, s.SetDeadline(ctx, Idle, "s1", 2*time.Hour))
		later, err := s.DeadlineOf(ctx, Idle, "s1")
		require.NoError(t, err)
		require.True(t, later.After(at))
		require.NoError(t, s.ClearDeadline(ctx, Idle, "s1"))
		_, err = s.DeadlineOf(ctx, Idle, "s1")
		require.ErrorIs(t, err, ErrNotFound)
	})
}

func TestDeadlineOfWithoutRedis(t *testing.T) {
	t.Parallel()
	r := start(t, onMini)
	s := open(t, r.URL())
	require.NoError(t, r.Stop())
	_, err := s.DeadlineOf(t.Context(), Idle, "s1")
	require.ErrorIs(t, err, ErrUnavailable)
}

// A use that comes between the claim of an idle session and what follows from it is
// kept, as long as the claim is shorter than the idle time.
func TestUseAfterTheClaim(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		require.NoError(t, s.SetDeadline(ctx, Idle, "s1", -time.Second))
		due, err := s.ClaimDue(ctx, Idle, 10, 30*time.Minute)
		require.NoError(t, err)
		require.Len(t, due, 1)
		_, err = s.Leave(ctx, Entry{Session: "s1", Job: "j"}, 4*time.Hour)
		require.NoError(t, err)
		require.NoError(t, s.Postpone(ctx, Idle, due[0], time.Hour))
		at, err := s.DeadlineOf(ctx, Idle, "s1")
		require.NoError(t, err)
		require.Greater(t, time.Until(at), 2*time.Hour)
	})
}
