package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

type wish struct {
	job events.Job
	why events.CancelRequested
}

func TestWatchCancels(t *testing.T) {
	t.Parallel()
	s, restart := restartable(t)
	w, r := s.join(t), s.join(t)
	before, twice, after, later := job(t), job(t), job(t), job(t)
	require.NoError(t, w.log.Cancel(t.Context(), before, events.CancelRequested{By: "me"}))
	require.NoError(t, w.log.Cancel(t.Context(), twice, events.CancelRequested{Reason: "one"}))
	require.NoError(t, w.log.Cancel(t.Context(), twice, events.CancelRequested{Reason: "two"}))

	got := make(chan wish, 100)
	require.NoError(t, r.log.WatchCancels(t.Context(), func(j events.Job, c events.CancelRequested) { got <- wish{j, c} }))
	require.Len(t, got, 2, "the stored ones are through when it returns, the newest of each job")
	require.Equal(t, wish{before, events.CancelRequested{By: "me"}}, <-got)
	require.Equal(t, "two", (<-got).why.Reason)

	require.NoError(t, w.log.Cancel(t.Context(), after, events.CancelRequested{}))
	require.Equal(t, after, one(t, got, "a wish").job)
	require.NoError(t, w.nc.Publish("event."+later.Session+"."+later.ID+".cancel_requested", nil), "by hand")
	require.Equal(t, later, one(t, got, "a wish by hand").job)

	restart(nil)
	last := job(t)
	require.NoError(t, w.log.Cancel(t.Context(), last, events.CancelRequested{}))
	for one(t, got, "a wish after the restart").job != last { // older ones may be told again
	}
}

func TestWatchCancelsWithNothingStored(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w, j := s.join(t), job(t)
		got := make(chan struct{}, 10)
		require.NoError(t, w.log.WatchCancels(t.Context(), func(x events.Job, _ events.CancelRequested) {
			if x == j { // other tests cancel on this cluster too
				got <- struct{}{}
			}
		}))
		require.NoError(t, w.log.Cancel(t.Context(), j, events.CancelRequested{}))
		one(t, got, "the wish")
	})
}
