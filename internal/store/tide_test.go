package store

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func mark(t testing.TB, s *Store, marks ...Mark) Tide {
	t.Helper()
	tide, err := s.Mark(t.Context(), "worker", marks...)
	require.NoError(t, err)
	return tide
}

func TestTideRisesWithoutGaps(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.Equal(t, Tide{}, mark(t, s))
		require.Equal(t, Tide{Stream: 14}, mark(t, s, Mark{2, 14}, Mark{1, 10}))
		require.Equal(t, Tide{Stream: 14, Early: 2}, mark(t, s, Mark{4, 17}, Mark{5, 19}), "the third is missing")
		require.Equal(t, Tide{Stream: 14, Early: 2}, mark(t, s, Mark{4, 17}, Mark{1, 10}), "twice is once")
		require.Equal(t, Tide{Stream: 19, Closed: true}, mark(t, s, Mark{3, 15}))
		require.Equal(t, Tide{Stream: 19}, mark(t, s, Mark{6, 11}), "a message that was delivered again")
		require.Equal(t, Tide{Stream: 19}, mark(t, s))
	})
}

func TestTideOfConsumersIsTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		mark(t, s, Mark{1, 10})
		other, err := s.Mark(t.Context(), "worker-low", Mark{2, 3})
		require.NoError(t, err)
		require.Equal(t, Tide{Early: 1}, other)
	})
}

// A delivery got lost; somebody has read the stream.
func TestMarkUptoClosesTheGap(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		mark(t, s, Mark{1, 10}, Mark{3, 12}, Mark{5, 16}, Mark{9, 30})
		require.NoError(t, s.MarkUpto(t.Context(), "worker", Mark{5, 16}))
		require.Equal(t, Tide{Stream: 16, Early: 1}, mark(t, s))
		require.NoError(t, s.MarkUpto(t.Context(), "worker", Mark{4, 15}), "who was slow")
		require.Equal(t, Tide{Stream: 16, Early: 1}, mark(t, s))
		require.NoError(t, s.MarkUpto(t.Context(), "worker", Mark{8, 28}))
		require.EqualValues(t, 30, mark(t, s).Stream)
	})
}

// The consumer was deleted and made again: it counts from 1, and hands out anew
// what nobody had acknowledged.
func TestTideOfAConsumerMadeAnew(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		mark(t, s, Mark{1, 10}, Mark{2, 11}, Mark{3, 12}, Mark{5, 14})
		require.Equal(t, Tide{Stream: 12, Early: 1}, mark(t, s, Mark{1, 11}), "known")
		require.Equal(t, Tide{Stream: 12, Early: 1}, mark(t, s, Mark{3, 20}), "who knows what came between")
		require.NoError(t, s.MarkUpto(t.Context(), "worker", Mark{2, 19}))
		require.Equal(t, Tide{Stream: 20, Closed: true}, mark(t, s))
	})
}

// What a tide promises, against a consumer as one would write it down: wherever it
// stands, every message up to there has been marked, or read in the stream.
func TestTideNeverPassesAGap(t *testing.T) {
	t.Parallel()
	s := open(t, sharedURL(t, onServer)+calm)
	ctx, round := context.Background(), 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		durable := fmt.Sprintf("worker%d", round)
		var sent []Mark            // deliveries in the order of the consumer's count
		known := map[uint64]bool{} // stream sequences whose job has its place
		next := uint64(0)
		marked := map[uint64]bool{}
		rt.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				next += rapid.Uint64Range(1, 3).Draw(t, "step")
				sent = append(sent, Mark{uint64(len(sent) + 1), next})
			},
			"deliver again": func(t *rapid.T) {
				if len(sent) == 0 {
					return
				}
				old := rapid.SampledFrom(sent).Draw(t, "old")
				sent = append(sent, Mark{uint64(len(sent) + 1), old.Stream})
			},
			"mark": func(t *rapid.T) {
				if len(sent) == 0 {
					return
				}
				some := slices.Clone(rapid.SliceOfN(rapid.SampledFrom(sent), 1, 4).Draw(t, "marks"))
				for _, m := range some {
					known[m.Stream], marked[m.Consumer] = true, true
				}
				_, err := s.Mark(ctx, durable, some...)
				require.NoError(t, err)
			},
			"read the stream": func(t *rapid.T) {
				if len(sent) == 0 {
					return
				}
				upto := rapid.IntRange(1, len(sent)).Draw(t, "upto")
				top := uint64(0)
				for _, m := range sent[:upto] {
					known[m.Stream], marked[m.Consumer] = true, true
					top = max(top, m.Stream)
				}
				require.NoError(t, s.MarkUpto(ctx, durable, Mark{uint64(upto), top}))
			},
			"": func(t *rapid.T) {
				tide, err := s.Mark(ctx, durable)
				require.NoError(t, err)
				all := true
				for _, m := range sent {
					if m.Stream <= tide.Stream {
						require.True(t, known[m.Stream], "the tide is at %d and message %d is not known", tide.Stream, m.Stream)
					}
					all = all && marked[m.Consumer]
				}
				if all {
					require.Equal(t, next, tide.Stream, "everything is marked")
					require.Zero(t, tide.Early)
				}
			},
		})
	})
}

func TestPlaceBeforeAWorkerHasIt(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		place := func(p Place) bool {
			made, err := s.Place(t.Context(), p)
			require.NoError(t, err)
			return made[0]
		}
		require.True(t, place(Place{Session: "s", Job: "j1", Origin: 1}))
		require.False(t, place(Place{Session: "s", Job: "j1", Origin: 1}))
		a := enter(t, s, job("s", "j2", 2), long)
		require.False(t, a.Turn, "one comes before it, whoever gets it")
		require.Equal(t, "j1", a.Head)
		require.False(t, a.HeadBusy)

		require.True(t, enter(t, s, job("s", "j1", 1), long).Turn)
		require.False(t, place(Place{Session: "s", Job: "j1", Origin: 1}), "a late word takes nothing away")
		require.True(t, enter(t, s, job("s", "j1", 1), long).Turn)
		require.Equal(t, "j2", leave(t, s, job("s", "j1", 1)))
		require.True(t, place(Place{Session: "t", Job: "j9", Origin: 9}))
		require.True(t, enter(t, s, job("t", "j9", 9), long).Turn, "alone")
	})
}

// Jobs far from the head wait in the schedules; whoever leaves says which are to
// come.
func TestAwayJobsAreCalledBack(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		n := Near + 10
		enter(t, s, job("s", "j0", 0), long)
		for i := 1; i <= n; i++ {
			e := job("s", fmt.Sprintf("j%d", i), uint64(i))
			require.Equal(t, i, enter(t, s, e, long).Ahead)
			next, err := s.Depart(t.Context(), e, long)
			require.NoError(t, err)
			require.Empty(t, next)
		}
		a := enter(t, s, job("s", "last", 1000), long)
		require.Equal(t, n+1, a.Ahead)
		require.True(t, a.HeadBusy)

		next, err := s.Leave(t.Context(), job("s", "j0", 0), 0)
		require.NoError(t, err)
		require.Equal(t, "j1", next.Job)
		require.False(t, next.Busy)
		require.Len(t, next.Away, Near)
		require.Equal(t, []string{"j1", "j2"}, next.Away[:2])
		a = enter(t, s, job("s", "last", 1000), long)
		require.True(t, a.HeadAway, "called, and not there yet")

		require.True(t, enter(t, s, job("s", "j1", 1), long).Turn)
		enter(t, s, job("s", "j2", 2), long)
		next, err = s.Leave(t.Context(), job("s", "j1", 1), 0)
		require.NoError(t, err)
		require.Equal(t, Next{Job: "j2", Busy: true, Away: []string{fmt.Sprintf("j%d", Near+1)}}, next)
	})
}

// Its turn comes while it is leaving: it calls itself back.
func TestDepartWhenTheTurnHasCome(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		enter(t, s, job("s", "j1", 1), long)
		enter(t, s, job("s", "j2", 2), long)
		require.Equal(t, "j2", leave(t, s, job("s", "j1", 1)))
		next, err := s.Depart(t.Context(), job("s", "j2", 2), long)
		require.NoError(t, err)
		require.Equal(t, "j2", next.Job)
		require.Equal(t, []string{"j2"}, next.Away)
	})
}

// The lanes are known once somebody has filled them, and unknown after a wipe, also
// to the very call that meets it.
func TestLanesAreKnownOnceFilled(t *testing.T) {
	t.Parallel()
	s := open(t, sharedURL(t, onServer)+calm)
	require.Empty(t, s.Lanes())
	fill := func() string {
		filling, ok, err := s.BeginLanes(t.Context(), "me", long)
		require.NoError(t, err)
		require.True(t, ok)
		return filling
	}
	first := fill()
	_, ok, err := s.BeginLanes(t.Context(), "you", long)
	require.NoError(t, err)
	require.False(t, ok, "one at a time")
	wipe := func() {
		require.NoError(t, s.client.Del(t.Context(), s.keys.lanes(), s.keys.lease("lanes")).Err())
	}
	wipe()
	ok, err = s.EndLanes(t.Context(), first, "me")
	require.NoError(t, err)
	require.False(t, ok, "wiped meanwhile")
	require.Empty(t, enter(t, s, job("s", "j", 1), long).Lanes)

	second := fill()
	ok, err = s.EndLanes(t.Context(), second, "me")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, second, enter(t, s, job("s", "j", 1), long).Lanes)
	require.Equal(t, second, s.Lanes())
	wipe()
	require.Empty(t, enter(t, s, job("s", "j", 1), long).Lanes)
	require.NotEqual(t, second, fill())
}
