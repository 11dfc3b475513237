package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/session"
)

func TestLaneGoesByOrigin(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		a := enter(t, s, job("s", "j5", 5), long)
		require.True(t, a.Turn)
		require.Zero(t, a.Ahead)

		a = enter(t, s, job("s", "j9", 9), long)
		require.False(t, a.Turn)
		require.Equal(t, 1, a.Ahead)
		require.Equal(t, "j5", a.Head)
		require.True(t, a.HeadBusy)
		a = enter(t, s, job("s", "j7", 7), long)
		require.Equal(t, 1, a.Ahead)
		require.Equal(t, 2, enter(t, s, job("s", "j9", 9), long).Ahead)

		require.Equal(t, "j7", leave(t, s, job("s", "j5", 5)))
		require.False(t, enter(t, s, job("s", "j9", 9), long).Turn)
		require.True(t, enter(t, s, job("s", "j7", 7), long).Turn)
		require.Empty(t, leave(t, s, job("s", "j9", 9)), "j7 has the turn")
		require.Empty(t, leave(t, s, job("s", "j7", 7)))
	})
}

// A job that was accepted earlier but comes later must not start beside the one
// that runs.
func TestLateEarlierJobWaits(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.True(t, enter(t, s, job("s", "j6", 6), long).Turn)
		a := enter(t, s, job("s", "j5", 5), long)
		require.False(t, a.Turn)
		require.Equal(t, 1, a.Ahead)
		require.Equal(t, "j6", a.Head)
		enter(t, s, job("s", "j7", 7), long)
		require.True(t, enter(t, s, job("s", "j6", 6), long).Turn, "it keeps the turn that it has")
		require.Equal(t, "j5", leave(t, s, job("s", "j6", 6)))
	})
}

func TestBesideTheLane(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		beside := Entry{Session: "s", Job: "b", Origin: 9}
		enter(t, s, job("s", "j1", 1), long)
		require.True(t, enter(t, s, beside, long).Turn)
		jobs, queued, err := s.Busy(t.Context(), "s")
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"j1", "b"}, jobs)
		require.Equal(t, 1, queued)
		require.Empty(t, leave(t, s, beside))
	})
}

func TestSessionsDoNotMeet(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.True(t, enter(t, s, job("s", "j", 1), long).Turn)
		require.True(t, enter(t, s, job("s2", "j", 2), long).Turn)
	})
}

func TestDeadWorkersJob(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.hold = long
		enter(t, s, job("s", "dead", 1), time.Millisecond)
		var a Admission
		soon(t, func() bool { a = enter(t, s, job("s", "next", 2), long); return !a.HeadBusy }, "the lease does not end")
		require.False(t, a.Turn, "its command may run: the next one waits for the successor")
		require.Equal(t, "dead", a.Head)
		jobs, queued, err := s.Busy(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, []string{"next"}, jobs)
		require.Equal(t, 2, queued)

		require.True(t, enter(t, s, job("s", "dead", 1), long).Turn, "the successor joins")
		require.Equal(t, "next", leave(t, s, job("s", "dead", 1)))
	})
}

func TestNobodyBlocksForEver(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.hold = time.Millisecond
		enter(t, s, job("s", "gone", 1), time.Millisecond)
		enter(t, s, job("s", "gone2", 2), time.Millisecond)
		s.opts.hold = long
		soon(t, func() bool { return enter(t, s, job("s", "next", 3), long).Turn }, "the hold does not end")
		// Of those two the one whose hold ends a moment later may still be counted.
		soon(t, func() bool {
			_, queued, err := s.Busy(t.Context(), "s")
			return err == nil && queued == 1
		}, "what is gone still counts")
	})
}

func TestLaneLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.hold = time.Millisecond
		enter(t, s, job("s", "j", 1), time.Millisecond)
		soon(t, func() bool {
			n, err := s.client.Exists(t.Context(), s.keys.session("s").lane).Result()
			require.NoError(t, err)
			m, err := s.client.Exists(t.Context(), s.keys.session("s").jobs).Result()
			require.NoError(t, err)
			return n+m == 0
		}, "the keys of a session nobody looks at stay")
	})
}

// Who waits does nothing with the session; who has the turn, or stands beside the lane, may.
func TestWaits(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		waiting := func() (ids []string) {
			for _, id := range []string{"j1", "j2", "b", "none"} {
				waits, err := s.Waits(t.Context(), "s", id)
				require.NoError(t, err)
				if waits {
					ids = append(ids, id)
				}
			}
			return ids
		}
		require.Empty(t, waiting())
		enter(t, s, job("s", "j1", 1), long)
		enter(t, s, job("s", "j2", 2), long)
		enter(t, s, Entry{Session: "s", Job: "b", Origin: 3}, long)
		require.Equal(t, []string{"j2"}, waiting())
		_, err := s.Park(t.Context(), job("s", "j1", 1), long)
		require.NoError(t, err)
		require.Equal(t, []string{"j1", "j2"}, waiting())
		require.True(t, enter(t, s, job("s", "j1", 1), long).Turn)
		require.Equal(t, []string{"j2"}, waiting())
	})
}

func TestParkKeepsThePlace(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		enter(t, s, job("s", "j1", 1), long)
		enter(t, s, job("s", "j2", 2), long)
		next, err := s.Park(t.Context(), job("s", "j1", 1), long)
		require.NoError(t, err)
		require.Empty(t, next.Job, "it is the first still")

		a := enter(t, s, job("s", "j2", 2), long)
		require.False(t, a.Turn)
		require.Equal(t, "j1", a.Head)
		require.False(t, a.HeadBusy)
		// One that stands before it may go: nothing of the parked one runs.
		require.True(t, enter(t, s, job("s", "j0", 0), long).Turn)
		require.False(t, enter(t, s, job("s", "j1", 1), long).Turn)
		require.Equal(t, "j1", leave(t, s, job("s", "j0", 0)))
		require.True(t, enter(t, s, job("s", "j1", 1), long).Turn)
	})
}

func TestParkedJobRunsOut(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.hold = time.Millisecond
		enter(t, s, job("s", "j1", 1), long)
		_, err := s.Park(t.Context(), job("s", "j1", 1), time.Millisecond)
		require.NoError(t, err)
		soon(t, func() bool { return enter(t, s, job("s", "j2", 2), long).Turn }, "a parked job blocks for ever")
	})
}

// A worker that lost its job wakes up and acts as if it had it.
func TestZombieCannotTakeTheJobOut(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		old, now := job("s", "j1", 1), job("s", "j1", 1)
		old.Holder, now.Holder = "a/1", "b/7"
		enter(t, s, old, long)
		require.True(t, enter(t, s, now, long).Turn)

		require.Empty(t, leave(t, s, old))
		_, err := s.Park(t.Context(), old, long)
		require.NoError(t, err)
		require.NoError(t, s.Renew(t.Context(), []Entry{old}, time.Millisecond))
		a := enter(t, s, job("s", "j2", 2), long)
		require.False(t, a.Turn)
		require.True(t, a.HeadBusy)
		require.Equal(t, "j2", leave(t, s, now))
	})
}

// A worker that was frozen wakes up with a job that another one has claimed since.
func TestEarlierClaimGivesWay(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		old, now := job("s", "j1", 1), job("s", "j1", 1)
		old.Holder, now.Holder = "9/a", "10/b"
		enter(t, s, old, long)
		require.True(t, enter(t, s, now, long).Turn)
		_, err := s.Enter(t.Context(), old, long)
		require.ErrorIs(t, err, ErrOutrun)
		require.Empty(t, leave(t, s, old))
		enter(t, s, job("s", "j2", 2), long)

		// It may come when the job is over; what it has made it takes back.
		require.Equal(t, "j2", leave(t, s, now))
		enter(t, s, old, long)
		require.Equal(t, "j2", leave(t, s, old))
		// A later claim takes out what an earlier one has left behind.
		enter(t, s, old, long)
		require.Equal(t, "j2", leave(t, s, now))
	})
}

// The same job published twice comes with two sequences; its place is that of the
// first.
func TestSecondDeliveryKeepsThePlace(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		enter(t, s, job("s", "j1", 1), long)
		enter(t, s, job("s", "j2", 2), long)
		enter(t, s, job("s", "j3", 3), long)
		require.Equal(t, 1, enter(t, s, job("s", "j2", 9), long).Ahead)
		require.NoError(t, s.Renew(t.Context(), []Entry{job("s", "j2", 9)}, long))
		require.Equal(t, "j2", leave(t, s, job("s", "j1", 1)))
	})
}

// After a wipe somebody may have got the turn before the one that had it renews.
func TestRenewDoesNotTakeTheTurn(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.True(t, enter(t, s, job("s", "j7", 7), long).Turn)
		had := job("s", "j6", 6)
		had.Running = true
		require.NoError(t, s.Renew(t.Context(), []Entry{had}, long))
		require.True(t, enter(t, s, job("s", "j7", 7), long).Turn)
		require.False(t, enter(t, s, had, long).Turn)
		require.Equal(t, "j6", leave(t, s, job("s", "j7", 7)))
	})
}

func TestRenewExtends(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		e := job("s", "j1", 1)
		enter(t, s, e, time.Millisecond)
		soon(t, func() bool { jobs, _, err := s.Busy(t.Context(), "s"); return err == nil && len(jobs) == 0 }, "busy for ever")
		require.NoError(t, s.Renew(t.Context(), []Entry{e}, long))
		jobs, _, err := s.Busy(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, []string{"j1"}, jobs)
		require.NoError(t, s.Renew(t.Context(), nil, long))
	})
}

func TestEnterBringsTheRecord(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.False(t, enter(t, s, job("s", "j", 1), long).Known)
		rec := session.Record{Session: "s", State: session.Active, Owner: "me"}
		require.NoError(t, s.PutSession(t.Context(), rec, 7))
		a := enter(t, s, job("s", "j", 1), long)
		require.True(t, a.Known)
		require.Equal(t, rec, a.Rec)
		require.EqualValues(t, 7, a.Seq)
	})
}

func TestLeaveSetsIdle(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ttl := func() time.Duration {
			d, err := s.client.PTTL(t.Context(), s.keys.session("s").idle).Result()
			require.NoError(t, err)
			return d
		}
		e := job("s", "j", 1)
		enter(t, s, e, long)
		_, err := s.Leave(t.Context(), e, time.Minute)
		require.NoError(t, err)
		next, err := s.Next(t.Context(), Idle, 1)
		require.NoError(t, err)
		require.Equal(t, "s", next[0].Session)
		require.Greater(t, ttl(), 50*time.Second)

		enter(t, s, e, long)
		require.Negative(t, ttl(), "a busy session is not about to be paused")
	})
}

func TestLeaveSaysThatIdleFailed(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.client.Set(t.Context(), s.keys.due(Idle), "no zset", 0).Err())
		_, err := s.Leave(t.Context(), job("s", "j", 1), time.Minute)
		require.ErrorContains(t, err, "WRONGTYPE")
		_, err = s.Leave(t.Context(), job("s", "j", 1), 0)
		require.NoError(t, err)
	})
}

func TestPauseGivesWay(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.hold = long
		pauser := job("s", "p", 3)
		begin := func() bool {
			ok, err := s.BeginPause(t.Context(), pauser, long, true)
			require.NoError(t, err)
			return ok
		}
		enter(t, s, pauser, long)
		for name, e := range map[string]Entry{
			"running":       job("s", "j1", 1),
			"waiting":       job("s", "j4", 4),
			"beside":        {Session: "s", Job: "b", Origin: 2},
			"dead worker's": job("s", "j5", 5),
		} {
			lease := long
			if name == "dead worker's" {
				lease = time.Millisecond
			}
			enter(t, s, e, lease)
			require.False(t, begin(), "a job %s is in the way", name)
			leave(t, s, e)
		}
		parked := job("s", "j6", 6)
		_, err := s.Park(t.Context(), parked, long)
		require.NoError(t, err)
		require.False(t, begin(), "a parked job is in the way")
		leave(t, s, parked)

		require.True(t, begin())
		require.True(t, begin(), "asked twice")
		require.False(t, enter(t, s, pauser, long).Pausing, "its own mark")
		other, err := s.BeginPause(t.Context(), job("s", "p2", 9), long, true)
		require.NoError(t, err)
		require.False(t, other)
	})
}

// A pause in its turn does not wait for those that wait for it.
func TestPauseInItsTurn(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.hold = long
		pauser := job("s", "p", 3)
		begin := func(alone bool) bool {
			ok, err := s.BeginPause(t.Context(), pauser, long, alone)
			require.NoError(t, err)
			return ok
		}
		first := job("s", "j1", 1)
		enter(t, s, first, long)
		enter(t, s, pauser, long)
		require.False(t, begin(false), "another job has the turn")
		leave(t, s, first)
		require.True(t, enter(t, s, pauser, long).Turn)
		enter(t, s, job("s", "j4", 4), long)
		require.False(t, begin(true), "a job that waits is in the way of an idle pause")
		beside := Entry{Session: "s", Job: "b", Origin: 2}
		enter(t, s, beside, long)
		require.False(t, begin(false), "a job beside is in the way")
		leave(t, s, beside)
		require.True(t, begin(false))
		require.True(t, enter(t, s, job("s", "j4", 4), long).Pausing)
	})
}

func TestEnterSeesThePause(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		pauser := job("s", "p", 3)
		ok, err := s.BeginPause(t.Context(), pauser, long, true)
		require.NoError(t, err)
		require.True(t, ok)
		a := enter(t, s, job("s", "j", 4), long)
		require.True(t, a.Pausing)
		require.Equal(t, "p", a.PausedBy)

		require.NoError(t, s.EndPause(t.Context(), job("s", "late", 1)))
		require.True(t, enter(t, s, job("s", "j", 4), long).Pausing, "not its mark")
		require.NoError(t, s.EndPause(t.Context(), pauser))
		require.False(t, enter(t, s, job("s", "j", 4), long).Pausing)
		leave(t, s, job("s", "j", 4))

		ok, err = s.BeginPause(t.Context(), Entry{Session: "s"}, time.Millisecond, true)
		require.NoError(t, err)
		require.True(t, ok)
		soon(t, func() bool { return !enter(t, s, job("s", "j", 4), long).Pausing }, "the mark of a dead worker stays")
	})
}

// Many jobs on many lanes at once, each delivered in any order: never two of a
// session at the same time, and none is left out.
func TestLaneUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const lanes, each = 4, 25
		var inside [lanes]atomic.Int32
		var ran atomic.Int32
		var wg sync.WaitGroup
		bells := newBells()
		for _, n := range rand.Perm(lanes * each) {
			lane := n % lanes
			e := job(fmt.Sprintf("s%d", lane), fmt.Sprintf("j%d", n), uint64(n+1))
			wg.Go(func() {
				bell := bells.listen(e.Session + e.Job)
				for {
					a, err := s.Enter(t.Context(), e, long)
					if err != nil {
						t.Error(err)
						return
					}
					if a.Turn {
						break
					}
					select {
					case <-bell:
					case <-time.After(2 * patience):
						t.Errorf("%s is not told that its turn has come", e.Job)
						return
					}
				}
				if inside[lane].Add(1) != 1 {
					t.Errorf("%s is not alone", e.Job)
				}
				ran.Add(1)
				inside[lane].Add(-1)
				next, err := s.Leave(context.WithoutCancel(t.Context()), e, 0)
				if err != nil {
					t.Error(err)
				}
				bells.ring(e.Session + next.Job)
			})
		}
		wg.Wait()
		require.EqualValues(t, lanes*each, ran.Load())
	})
}

// bells wake jobs by name; a ring before anybody listens is kept.
type bells struct {
	mu sync.Mutex
	ch map[string]chan struct{}
}

func newBells() *bells { return &bells{ch: map[string]chan struct{}{}} }

func (b *bells) listen(name string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch[name] == nil {
		b.ch[name] = make(chan struct{}, 1)
	}
	return b.ch[name]
}

func (b *bells) ring(name string) {
	select {
	case b.listen(name) <- struct{}{}:
	default:
	}
}

// A session whose owner is proven is entered with his proof alone; who has none leaves it
// as it was.
func TestEnterAsksForTheOwner(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		rec := session.Record{Session: "s", State: session.Active, Owner: "a", OwnerProven: true}
		require.NoError(t, s.PutSession(t.Context(), rec, 1))
		for _, who := range []string{"", "b", "aa", `a"`} {
			e := job("s", "j1", 1)
			e.Vouched = who
			_, err := s.Enter(t.Context(), e, long)
			require.ErrorIs(t, err, ErrStranger, who)
		}
		ids, err := s.Registered(t.Context(), "s")
		require.NoError(t, err)
		require.Empty(t, ids)
		e := job("s", "j1", 1)
		e.Vouched = "a"
		require.True(t, enter(t, s, e, long).Turn)

		rec.OwnerProven = false
		require.NoError(t, s.PutSession(t.Context(), rec, 2))
		require.False(t, enter(t, s, job("s", "j2", 2), long).Turn)
	})
}
