package events_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// What has ended comes with its end; of what has not, the newest.
func TestJobs(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	ctx := t.Context()
	before := time.Now()
	accept := func(id string, origin uint64) events.Job {
		j := events.Job{Session: "s1", ID: id}
		require.NoError(t, w.log.Accept(ctx, j, events.Accepted{Kind: "task.run", StreamSeq: origin}))
		return j
	}
	for i := range 5 {
		j := accept(fmt.Sprintf("over%d", i), uint64(i+1))
		c := w.claim(t, j, 0)
		require.NoError(t, c.Publish(ctx, events.KindProgress, events.Progress{Percent: 1}))
		require.NoError(t, c.End(ctx, events.Failed, events.Outcome{Class: "command_failed"}))
	}
	for i := range 5 {
		c := w.claim(t, accept(fmt.Sprintf("open%d", i), uint64(i+6)), 0)
		require.NoError(t, c.Publish(ctx, events.KindStarted, events.Started{}))
	}
	unseen := w.claim(t, events.Job{Session: "s1", ID: "unseen"}, 0) // accepted before
	require.NoError(t, unseen.End(ctx, events.Failed, events.Outcome{}))
	read := func(since time.Time) (all []string) {
		for h, err := range w.log.Jobs(ctx, since, 3) {
			require.NoError(t, err)
			require.NotZero(t, h.Accepted.Value.StreamSeq)
			require.NotZero(t, h.Claimed.Seq)
			require.NotEqual(t, h.Ended(), h.Started.OK())
			all = append(all, h.Job.ID)
		}
		return all
	}
	require.Equal(t, []string{"over0", "over1", "over2", "over3", "over4", "open2", "open3", "open4"}, read(before.Add(-time.Minute)))
	require.Empty(t, read(time.Now().Add(time.Minute)))
}
