package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sessions(due []Due) []string {
	var ids []string
	for _, d := range due {
		ids = append(ids, d.Session)
	}
	return ids
}

func TestIdleOnlyMovesLater(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		require.NoError(t, s.SetDeadline(ctx, Idle, "a", time.Hour))
		require.NoError(t, s.SetDeadline(ctx, Idle, "a", -time.Second))
		require.NoError(t, s.SetDeadline(ctx, Stale, "a", time.Hour))
		require.NoError(t, s.SetDeadline(ctx, Stale, "a", -time.Second))
		due, err := s.ClaimDue(ctx, Idle, 10, long)
		require.NoError(t, err)
		require.Empty(t, due)
		due, err = s.ClaimDue(ctx, Stale, 10, long)
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, sessions(due))
		require.WithinDuration(t, time.Now(), due[0].DueAt, time.Minute)
	})
}

// A claimed deadline moves to where it is told, also to before the claim's lease;
// one that was set anew since stays.
func TestPostpone(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		claim := func() Due {
			require.NoError(t, s.ClearDeadline(ctx, Idle, "a"))
			require.NoError(t, s.SetDeadline(ctx, Idle, "a", -time.Second))
			due, err := s.ClaimDue(ctx, Idle, 10, time.Hour)
			require.NoError(t, err)
			require.Equal(t, []string{"a"}, sessions(due))
			return due[0]
		}
		until := func() time.Duration {
			at, err := s.DeadlineOf(ctx, Idle, "a")
			require.NoError(t, err)
			return time.Until(at)
		}
		d := claim()
		require.NoError(t, s.Postpone(ctx, Idle, d, 10*time.Minute))
		require.InDelta(t, 10, until().Minutes(), 1)
		d = claim()
		require.NoError(t, s.SetDeadline(ctx, Idle, "a", 2*time.Hour))
		require.NoError(t, s.Postpone(ctx, Idle, d, 10*time.Minute))
		require.InDelta(t, 120, until().Minutes(), 1)
	})
}

func TestClaimComesBackUntilDone(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		claim := func(lease time.Duration) []Due {
			due, err := s.ClaimDue(ctx, Transition, 10, lease)
			require.NoError(t, err)
			return due
		}
		require.NoError(t, s.SetDeadline(ctx, Transition, "a", 0))
		require.Equal(t, []string{"a"}, sessions(claim(time.Millisecond)))
		var again []Due
		soon(t, func() bool { again = claim(long); return len(again) == 1 }, "a claim that nobody finishes is lost")
		require.Empty(t, claim(long), "claimed")

		require.NoError(t, s.SetDeadline(ctx, Transition, "a", -time.Second))
		require.NoError(t, s.Done(ctx, Transition, again[0]))
		again = claim(long)
		require.Len(t, again, 1, "Done took away what was set after the claim")
		require.NoError(t, s.Done(ctx, Transition, again[0]))
		next, err := s.Next(ctx, Transition, 10)
		require.NoError(t, err)
		require.Empty(t, next)

		require.NoError(t, s.SetDeadline(ctx, Transition, "b", 0))
		require.NoError(t, s.ClearDeadline(ctx, Transition, "b"))
		require.Empty(t, claim(long))
	})
}

func TestEachDueSessionIsClaimedOnce(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const n = 100
		for i := range n {
			require.NoError(t, s.SetDeadline(t.Context(), Idle, fmt.Sprintf("s%d", i), -time.Second))
		}
		var got sync.Map
		var claimed atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					due, err := s.ClaimDue(t.Context(), Idle, 7, long)
					if err != nil || len(due) == 0 {
						return
					}
					for _, d := range due {
						claimed.Add(1)
						got.Store(d.Session, true)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, n, claimed.Load())
		distinct := 0
		got.Range(func(any, any) bool { distinct++; return true })
		require.Equal(t, n, distinct)
	})
}

func TestNextIsTheLeastRecentlyUsed(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for i, id := range []string{"c", "a", "b"} {
			require.NoError(t, s.SetDeadline(t.Context(), Idle, id, time.Duration(i+1)*time.Minute))
		}
		next, err := s.Next(t.Context(), Idle, 2)
		require.NoError(t, err)
		require.Equal(t, []string{"c", "a"}, sessions(next))
	})
}

func TestRate(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		take := func(perSecond float64, burst int) time.Duration {
			wait, err := s.TakeRate(ctx, fmt.Sprint("r", perSecond), "p", perSecond, burst)
			require.NoError(t, err)
			return wait
		}
		for i := range 3 {
			require.Zero(t, take(0.01, 3), "unit %d of the burst", i)
		}
		wait := take(0.01, 3)
		require.Greater(t, wait, 90*time.Second)
		require.LessOrEqual(t, wait, 100*time.Second)
		require.InDelta(t, wait.Seconds(), take(0.01, 3).Seconds(), 10, "a refusal costs nothing")

		require.Zero(t, take(500, 1))
		soon(t, func() bool { return take(500, 1) == 0 }, "the rate does not come back")

		_, err := s.TakeRate(ctx, "r", "p", -1, 1)
		require.ErrorContains(t, err, "no less than 0")
	})
}

// A pause holds back whoever stands behind it, one after the other, with a rate and
// without, and only gets longer.
func TestRatePause(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		take := func(pause string, perSecond float64) time.Duration {
			wait, err := s.TakeRate(ctx, "r", pause, perSecond, 1000)
			require.NoError(t, err)
			return wait
		}
		require.Zero(t, take("a", 0), "neither rate nor pause")
		require.NoError(t, s.PauseRate(ctx, "a", time.Hour))
		require.NoError(t, s.PauseRate(ctx, "a", time.Minute))
		begun := time.Now()
		first := take("a", 0)
		require.InDelta(t, time.Hour, first, float64(time.Minute))
		for i := range 100 {
			got, want := take("a", 0), first+time.Duration(i+1)*spread
			require.LessOrEqual(t, got, want+spread*40)
			require.GreaterOrEqual(t, got, want-spread*40-time.Since(begun), "less what has passed")
		}
		require.Greater(t, take("a", 0.1), first+900*time.Second, "no faster than the rate")
		require.Zero(t, take("b", 1000), "another pause")
		require.NoError(t, s.PauseRate(ctx, "c", 5*time.Millisecond))
		soon(t, func() bool { return take("c", 0) == 0 }, "the pause does not end")
	})
}

func TestLease(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		token, ok, err := s.Lease(ctx, "sweep", "a", long)
		require.NoError(t, err)
		require.True(t, ok)
		again, ok, err := s.Lease(ctx, "sweep", "a", long)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, token, again)
		_, ok, err = s.Lease(ctx, "sweep", "b", long)
		require.NoError(t, err)
		require.False(t, ok)

		require.NoError(t, s.ReleaseLease(ctx, "sweep", "b"))
		_, ok, _ = s.Lease(ctx, "sweep", "b", long)
		require.False(t, ok, "b gave back what it had not")
		require.NoError(t, s.ReleaseLease(ctx, "sweep", "a"))
		next, ok, err := s.Lease(ctx, "sweep", "b", time.Millisecond)
		require.NoError(t, err)
		require.True(t, ok)
		require.Greater(t, next, token)
		soon(t, func() bool { _, ok, _ := s.Lease(ctx, "sweep", "c", long); return ok }, "the lease of a dead worker stays")
	})
}

func TestUnique(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		take := func(session, job string, ttl time.Duration) (string, bool) {
			holder, ok, err := s.Unique(ctx, "", "nightly {of} all", session, job, ttl)
			require.NoError(t, err)
			return holder, ok
		}
		_, ok := take("s", "j", long)
		require.True(t, ok)
		_, ok = take("s", "j", long)
		require.True(t, ok, "asked twice")
		holder, ok := take("s", "j2", long)
		require.False(t, ok)
		require.Equal(t, "s/j", holder)

		for _, owner := range []string{"ann", "bob"} { // have keys of their own
			_, ok, err := s.Unique(ctx, owner, "nightly {of} all", "s", "of-"+owner, long)
			require.NoError(t, err)
			require.True(t, ok, owner)
			holder, ok, err := s.Unique(ctx, owner, "nightly {of} all", "s", "j", long)
			require.NoError(t, err)
			require.False(t, ok, owner)
			require.Equal(t, "s/of-"+owner, holder)
			require.NoError(t, s.ReleaseUnique(ctx, owner, "nightly {of} all", "s", "of-"+owner))
			_, ok, err = s.Unique(ctx, owner, "nightly {of} all", "s", "j", long)
			require.NoError(t, err)
			require.True(t, ok, owner)
		}
		require.NoError(t, s.ReleaseUnique(ctx, "", "nightly {of} all", "s", "j2"))
		_, ok = take("s", "j2", long)
		require.False(t, ok, "j2 gave back what it had not")
		require.NoError(t, s.ReleaseUnique(ctx, "", "nightly {of} all", "s", "j"))
		_, ok = take("s", "j2", time.Millisecond)
		require.True(t, ok)
		soon(t, func() bool { _, ok := take("s", "j3", long); return ok }, "the key of a dead job blocks for ever")
	})
}
