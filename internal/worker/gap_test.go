package worker_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// The stream's cap has taken the beginning of a job's output when its worker is
// replaced: the job goes on and ends, with its byte counts and without a sum.
func TestOutputAgedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.worker()
	job := w.shell("s1", lines(20_000, 40))
	w.until(job, 20_000)
	first.Stop()
	stream, err := w.js.Stream(t.Context(), events.StreamEvents)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("event.s1."+job.ID+".stdout"), jetstream.WithPurgeKeep(1)))
	w.worker()

	var out events.Outcome
	require.Eventually(t, func() bool {
		h, err := w.facts.History(t.Context(), job)
		out = h.Outcome.Value
		return err == nil && h.Terminal == events.Succeeded
	}, eventually, tick)
	require.EqualValues(t, len(wantLines(20_000)), out.StdoutBytes)
	require.Empty(t, out.StdoutSHA256)
	require.Equal(t, 1, out.Attempts)
}
