package jobs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With a delivery limit the server gives up on a message and leaves it in its
// stream. The advisory shelves it, whoever is there when it comes.
func TestExhaustedDeliveries(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Namespace: "staging", MaxDeliver: 2})
	other := connect(t, b.srv, Config{Namespace: "staging", MaxDeliver: 2})
	r := b.consume(t, ConsumerConfig{Slots: 1, Patience: time.Millisecond})
	b.send(t, "staging.task.run.bob", `{"session":"s","argv":["x"]}`, "Nats-Msg-Id", "poison")
	h := r.next(t)
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, time.Now())) // so that one of each stream dies
	require.NoError(t, h.GiveBack(0))
	h.done()
	eventually(t, func() bool { // once more from JOBS, twice from SCHEDULES, or given back before they have a slot
		for len(r.got) > 0 {
			h := <-r.got
			_ = h.GiveBack(0)
			h.done()
		}
		return b.msgs(t, StreamAdvisories) == 2
	}, "advisories kept although nobody listens")

	var ends atomic.Int32
	end := func(_ context.Context, l *DeadLetter) error {
		if ends.Add(1) == 1 {
			return errors.New("not this time")
		}
		l.Attempts = 7
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for _, w := range []*bench{b, other} {
		go func() { done <- w.q.WatchAdvisories(ctx, end) }()
	}
	eventually(t, func() bool {
		return b.msgs(t, StreamAdvisories) == 0 && b.msgs(t, StreamJobs) == 0 && b.msgs(t, StreamSchedules) == 0
	}, "shelved and deleted")
	cancel()
	require.NoError(t, answer(t, done))
	require.NoError(t, answer(t, done))
	require.Equal(t, int32(3), ends.Load())

	page, err := b.q.DeadList(t.Context(), DeadFilter{})
	require.NoError(t, err)
	require.Len(t, page.Letters, 1, "the same job in the same series")
	l := page.Letters[0]
	require.Equal(t, "poison", l.Job)
	require.Equal(t, "s", l.Session)
	require.Equal(t, "bob", l.Owner)
	require.Equal(t, ClassUndelivered, l.Class)
	require.Equal(t, 7, l.Attempts)
	require.Equal(t, "staging.task.run.bob", l.Subject)
	require.Contains(t, l.Reason, "delivered 2 times")
}

func TestExhaustedButDone(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	require.NoError(t, b.q.exhausted(t.Context(), []byte(`{"stream":"JOBS","stream_seq":99}`), nil))
	require.NoError(t, b.q.exhausted(t.Context(), []byte(`no json`), nil))
	require.Zero(t, b.msgs(t, StreamDead))
}
