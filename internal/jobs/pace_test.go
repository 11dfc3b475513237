package jobs

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var p pace
	require.Zero(t, p.wait(now))
	require.Equal(t, 64, p.most(64, now))
	require.Zero(t, p.wait(now))

	p.slow(300*time.Millisecond, now)
	p.slow(300*time.Millisecond, now)
	require.Equal(t, 600*time.Millisecond, p.wait(now), "each costs")
	for range 100 {
		p.slow(300*time.Millisecond, now)
	}
	require.Equal(t, slowMost, p.wait(now), "no more than so much")

	now = now.Add(slowMost)
	require.Zero(t, p.wait(now))
	require.Equal(t, 1, p.most(64, now), "one at a time")
	require.Equal(t, slowStep, p.wait(now))
	require.Zero(t, p.most(0, now))
	now = now.Add(slowFor)
	require.Equal(t, 64, p.most(64, now), "nobody has asked for long")
}

// Once a job has said that others like it should not be fetched, they are fetched
// one at a time; all of them are, and those that have no such trouble too.
func TestSlowConsumerFetchesOneAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	var mu sync.Mutex
	var batches []int
	_, err := b.nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.>", func(m *nats.Msg) {
		var r pullRequest
		if json.Unmarshal(m.Data, &r) == nil && r.NoWait {
			mu.Lock()
			defer mu.Unlock()
			batches = append(batches, r.Batch)
		}
	})
	require.NoError(t, err)
	for range 20 {
		b.send(t, "task.run", echo)
	}
	r := b.consume(t, ConsumerConfig{Slots: 8})
	var first []*held
	for range 8 {
		first = append(first, r.next(t))
	}
	asked := time.Now()
	for _, h := range first {
		h.Slow(10 * time.Millisecond)
	}
	require.NoError(t, b.nc.Flush())
	mu.Lock()
	require.Contains(t, batches, 8)
	batches = nil
	mu.Unlock()
	for _, h := range first {
		h.finish(t)
	}
	for range 12 {
		r.next(t).finish(t)
	}
	eventually(t, func() bool { return b.msgs(t, StreamJobs) == 0 }, "all acked")
	require.NoError(t, b.nc.Flush())
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, batches)
	require.Equal(t, 1, batches[0])
	for _, n := range batches[1:] {
		require.True(t, n == 1 || time.Since(asked) > slowFor, "a fetch of %d", n)
	}
}
