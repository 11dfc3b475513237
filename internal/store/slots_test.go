package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eachLimited is each with stores that give so many slots.
func eachLimited(t *testing.T, total, owner int, test func(t *testing.T, s *Store)) {
	t.Helper()
	each(t, func(t *testing.T, s *Store) {
		s.opts.slots.total, s.opts.slots.owner = total, owner
		test(t, s)
	})
}

// ask is a job "j" of a session "<owner><n>", the n-th of its owner.
func ask(session string) SlotAsk {
	n, err := strconv.ParseUint(session[1:], 10, 64)
	if err != nil {
		panic(err)
	}
	return SlotAsk{Session: session, Owner: session[:1], Job: "j", Origin: n + 1}
}

func takeSlot(t testing.TB, s *Store, session string) SlotAnswer {
	t.Helper()
	a, err := s.TakeSlot(t.Context(), ask(session), long)
	require.NoError(t, err)
	return a
}

// releaseSlot gives a slot back and returns who was called.
func releaseSlot(t testing.TB, s *Store, session string) []string {
	t.Helper()
	calls, err := s.ReleaseSlot(t.Context(), session)
	require.NoError(t, err)
	return called(calls)
}

func called(calls []SlotCall) []string {
	out := []string{}
	for _, c := range calls {
		out = append(out, c.Session)
	}
	return out
}

func TestSlots(t *testing.T) {
	eachLimited(t, 2, 0, func(t *testing.T, s *Store) {
		for want, id := range []string{"a1", "a2"} {
			got := takeSlot(t, s, id)
			require.True(t, got.OK)
			require.Equal(t, want+1, got.Used)
			require.Equal(t, 2, got.Allowed)
		}
		for i, id := range []string{"a3", "a4", "a3"} {
			got := takeSlot(t, s, id)
			require.False(t, got.OK)
			require.Equal(t, 2, got.Used)
			require.Equal(t, i%2, got.Ahead, "the place is kept")
		}
		require.True(t, takeSlot(t, s, "a1").OK, "it has one")

		require.Equal(t, []string{"a3"}, releaseSlot(t, s, "a1"))
		require.Empty(t, releaseSlot(t, s, "nobody"))
		require.False(t, takeSlot(t, s, "a5").OK, "what is free was given to the first in line")
		require.True(t, takeSlot(t, s, "a3").OK)
		require.Empty(t, releaseSlot(t, s, "nobody"), "who has come is not called again")

		require.NoError(t, s.KeepSlots(t.Context(), SlotOf{"a6", "a"}, SlotOf{"a2", "a"}))
		use, err := s.Slots(t.Context())
		require.NoError(t, err)
		require.Len(t, use.Slots, 3, "what runs counts, above the limit too")
		require.Equal(t, SlotUse{Slots: use.Slots, Waiting: 2, Allowed: 2}, use)
		require.Equal(t, "a", use.Slots[0].Owner)
		require.Empty(t, releaseSlot(t, s, "a6"), "still as many as may run")
		require.Equal(t, []string{"a4"}, releaseSlot(t, s, "a2"))
	})
}

func TestSlotsWithoutLimit(t *testing.T) {
	eachLimited(t, 0, 0, func(t *testing.T, s *Store) {
		for i := range 5 {
			got := takeSlot(t, s, fmt.Sprint("a", i))
			require.True(t, got.OK)
			require.Equal(t, -1, got.Allowed)
		}
		wants, err := s.SlotWants(t.Context())
		require.NoError(t, err)
		require.Zero(t, wants.Any)
	})
}

func TestSlotsUnderLoad(t *testing.T) {
	eachLimited(t, 7, 0, func(t *testing.T, s *Store) {
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if got, err := s.TakeSlot(t.Context(), SlotAsk{Session: fmt.Sprint("s", i), Job: "j"}, long); err == nil && got.OK {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 7, won.Load())
	})
}

// Owners take turns, whoever came first and with however many; within an owner
// what was published first goes first. One that comes late waits for a round at
// most.
func TestOwnersTakeTurnsInLine(t *testing.T) {
	eachLimited(t, 1, 0, func(t *testing.T, s *Store) {
		require.True(t, takeSlot(t, s, "x0").OK)
		for i, id := range []string{"a2", "a1", "a3", "b1", "c1", "c2"} {
			got := takeSlot(t, s, id)
			require.False(t, got.OK)
			require.Equal(t, []int{0, 0, 2, 1, 2, 4}[i], got.Ahead, id)
		}
		holder := "x0"
		for _, want := range []string{"a1", "b1", "c1", "a2", "c2", "d1", "a3"} {
			if want == "a2" {
				require.False(t, takeSlot(t, s, "d1").OK)
			}
			require.Equal(t, []string{want}, releaseSlot(t, s, holder))
			require.True(t, takeSlot(t, s, want).OK)
			holder = want
		}
		require.Empty(t, releaseSlot(t, s, holder))
	})
}

// An owner has no more than its share, while the others go on; its next one goes
// when it has given one back.
func TestShareOfAnOwner(t *testing.T) {
	eachLimited(t, 3, 2, func(t *testing.T, s *Store) {
		require.True(t, takeSlot(t, s, "a1").OK)
		require.True(t, takeSlot(t, s, "a2").OK)
		got := takeSlot(t, s, "a3")
		require.False(t, got.OK)
		require.True(t, got.OwnerFull)
		wants, err := s.SlotWants(t.Context())
		require.NoError(t, err)
		require.Equal(t, SlotWants{Any: 0, Of: map[string]int{"a": 1}}, wants)

		require.True(t, takeSlot(t, s, "b1").OK, "it does not stand behind the others' share")
		require.False(t, takeSlot(t, s, "b2").OK)
		require.Empty(t, releaseSlot(t, s, "nobody"))
		require.Equal(t, []string{"b2"}, releaseSlot(t, s, "b1"))
		require.Equal(t, []string{"a3"}, releaseSlot(t, s, "a1"))
	})
}

// What was granted and is not fetched is called again, and is lost after a while
// to the next.
func TestGrantIsCalledAgainAndEnds(t *testing.T) {
	eachLimited(t, 1, 0, func(t *testing.T, s *Store) {
		require.True(t, takeSlot(t, s, "a1").OK)
		require.False(t, takeSlot(t, s, "a2").OK)
		begun := time.Now()
		require.Equal(t, []string{"a2"}, releaseSlot(t, s, "a1"))
		sweep := func() []string {
			calls, _, err := s.SweepSlots(t.Context(), time.Hour, 10)
			require.NoError(t, err)
			return called(calls)
		}
		if again := sweep(); time.Since(begun) < time.Second { // else it may be time again
			require.Empty(t, again, "it was called a moment ago")
		}
		soon(t, func() bool { return len(sweep()) == 1 }, "a lost call stays lost")

		s.opts.slots.grant = time.Millisecond
		require.False(t, takeSlot(t, s, "a3").OK)
		_, err := s.QuitLine(t.Context(), "a2", "j") // it had the slot for half a minute
		require.NoError(t, err)
		soon(t, func() bool { return takeSlot(t, s, "a4").OK }, "who does not come blocks the others")
	})
}

// The lease of a slot ends unless somebody says that its session runs.
func TestSlotLease(t *testing.T) {
	eachLimited(t, 1, 0, func(t *testing.T, s *Store) {
		_, look, err := s.SweepSlots(t.Context(), time.Minute, 10)
		require.NoError(t, err)
		require.Empty(t, look)
		s.opts.slots.lease = 30 * time.Second
		require.True(t, takeSlot(t, s, "a1").OK)
		s.opts.slots.lease = time.Hour
		_, look, err = s.SweepSlots(t.Context(), time.Minute, 10)
		require.NoError(t, err)
		require.Equal(t, []string{"a1"}, look, "nobody has said for a minute that it runs")
		_, look, err = s.SweepSlots(t.Context(), time.Minute, 10)
		require.NoError(t, err)
		require.Empty(t, look, "who looks has it for a lease")

		s.opts.slots.lease = time.Millisecond
		require.True(t, takeSlot(t, s, "a1").OK)
		require.NoError(t, s.KeepSlots(t.Context(), SlotOf{"a1", "a"}))
		soon(t, func() bool { return takeSlot(t, s, "a2").OK }, "a slot that nobody keeps is held for ever")
	})
}

// E2B allows less than we think: nobody else is let through until one is given
// back, or the limit is tried again, with more each time.
func TestRefusedSlot(t *testing.T) {
	eachLimited(t, 0, 0, func(t *testing.T, s *Store) {
		s.opts.slots.probe = time.Hour
		for i := range 4 {
			require.True(t, takeSlot(t, s, fmt.Sprint("a", i)).OK)
		}
		for _, id := range []string{"a3", "a2"} {
			calls, err := s.RefuseSlot(t.Context(), ask(id), long)
			require.NoError(t, err)
			require.Empty(t, calls)
		}
		got := takeSlot(t, s, "b1")
		require.False(t, got.OK)
		require.Equal(t, 2, got.Allowed)
		require.Equal(t, []string{"a2"}, releaseSlot(t, s, "a0"), "who was turned away goes to its place")
		require.False(t, takeSlot(t, s, "a3").OK)

		s.opts.slots.probe = 20 * time.Millisecond
		soon(t, func() bool { return takeSlot(t, s, "b1").OK }, "what E2B said counts for ever")
		soon(t, func() bool { return takeSlot(t, s, "a3").OK }, "one more is tried at a time, and then no more")
		soon(t, func() bool { return takeSlot(t, s, "a9").Allowed == -1 }, "what E2B said counts for ever")
	})
}

// A job that has ended leaves the line; its session stays for the others.
func TestQuitLine(t *testing.T) {
	eachLimited(t, 1, 0, func(t *testing.T, s *Store) {
		quit := func(session, job string) []SlotCall {
			calls, err := s.QuitLine(t.Context(), session, job)
			require.NoError(t, err)
			return calls
		}
		require.True(t, takeSlot(t, s, "a1").OK)
		require.False(t, takeSlot(t, s, "a2").OK)
		other := SlotAsk{Session: "a2", Owner: "a", Job: "k"}
		_, err := s.TakeSlot(t.Context(), other, long)
		require.NoError(t, err)
		require.False(t, takeSlot(t, s, "a3").OK)
		require.Empty(t, quit("a1", "j"), "a slot is not the line's")
		require.Empty(t, quit("a2", "j"))
		calls, err := s.ReleaseSlot(t.Context(), "a1")
		require.NoError(t, err)
		require.Equal(t, []SlotCall{{Session: "a2", Jobs: []string{"k"}}}, calls)
		require.Equal(t, []string{"a3"}, called(quit("a2", "k")), "nobody of it comes for its grant")
		require.Empty(t, quit("a2", "k"))
		require.True(t, takeSlot(t, s, "a3").OK)
	})
}

// Places that nobody keeps are passed over.
func TestPlaceInLineEnds(t *testing.T) {
	eachLimited(t, 1, 0, func(t *testing.T, s *Store) {
		require.True(t, takeSlot(t, s, "a1").OK)
		for _, id := range []string{"a2", "b2"} {
			_, err := s.TakeSlot(t.Context(), ask(id), time.Millisecond)
			require.NoError(t, err)
		}
		require.False(t, takeSlot(t, s, "a3").OK)
		time.Sleep(5 * time.Millisecond) // by more than the place was kept
		require.Equal(t, []string{"a3"}, releaseSlot(t, s, "a1"))
		require.True(t, takeSlot(t, s, "a3").OK)
		require.Empty(t, releaseSlot(t, s, "a3"))
		use, err := s.Slots(t.Context())
		require.NoError(t, err)
		require.Zero(t, use.Waiting)
	})
}

// Room is wanted for as many as wait, less what is being made.
func TestSlotWants(t *testing.T) {
	eachLimited(t, 2, 0, func(t *testing.T, s *Store) {
		wants := func() int {
			w, err := s.SlotWants(t.Context())
			require.NoError(t, err)
			require.Empty(t, w.Of)
			return w.Any
		}
		mark := func(id string) bool {
			ok, err := s.MarkLeaving(t.Context(), id, long)
			require.NoError(t, err)
			return ok
		}
		require.True(t, takeSlot(t, s, "a1").OK)
		require.Zero(t, wants())
		require.True(t, takeSlot(t, s, "a2").OK)
		require.Zero(t, wants(), "nobody waits")
		for _, id := range []string{"b1", "c1", "c2"} {
			require.False(t, takeSlot(t, s, id).OK)
		}
		require.Equal(t, 3, wants())
		require.True(t, mark("a1"))
		require.False(t, mark("a1"), "one pauses it")
		require.Equal(t, 2, wants())
		require.NoError(t, s.UnmarkLeaving(t.Context(), "a1"))
		require.Equal(t, 3, wants())
		require.True(t, mark("a1"))
		require.Equal(t, []string{"b1"}, releaseSlot(t, s, "a1"))
		require.Equal(t, 2, wants(), "who has left leaves no more")
		require.True(t, mark("a1"))
	})
}

// A long line keeps its order: owners in turn, each in its own order.
func TestLongLine(t *testing.T) {
	eachLimited(t, 1, 0, func(t *testing.T, s *Store) {
		require.True(t, takeSlot(t, s, "x0").OK)
		const n = 2000
		for i := range n {
			require.False(t, takeSlot(t, s, fmt.Sprintf("%c%d", 'a'+i%10, i)).OK)
		}
		use, err := s.Slots(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, use.Waiting)
		last := takeSlot(t, s, fmt.Sprintf("%c%d", 'a'+(n-1)%10, n-1))
		require.Equal(t, n-1, last.Ahead)
		holder := "x0"
		for i := range 20 {
			next := fmt.Sprintf("%c%d", 'a'+i%10, i)
			require.Equal(t, []string{next}, releaseSlot(t, s, holder))
			require.True(t, takeSlot(t, s, next).OK)
			holder = next
		}
	})
}

// A caller whose context ends while its command is under way leaves the command's
// reply alone: it is still to be written. (The race detector is the judge.)
func TestCallerThatLeaves(t *testing.T) {
	eachLimited(t, 1, 0, func(t *testing.T, s *Store) {
		for n := range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			var left sync.WaitGroup
			left.Go(cancel)
			var err error
			switch n % 3 {
			case 0:
				_, err = s.ReleaseSlot(ctx, "a0")
			case 1:
				_, err = s.RefuseSlot(ctx, ask("a0"), long)
			case 2:
				_, err = s.QuitLine(ctx, "a0", "j")
			}
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			left.Wait()
		}
		_, err := s.Slots(t.Context())
		require.NoError(t, err)
	})
}
