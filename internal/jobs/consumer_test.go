package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestConsumerDelivers(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Namespace: "staging"})
	r := b.consume(t, ConsumerConfig{Slots: 2})
	seq := b.send(t, "staging.high.task.run.agent-7", echo, "traceparent", "00-ab")
	h := r.next(t)
	require.NoError(t, h.Err)
	require.Equal(t, TaskRun, h.Kind)
	require.Equal(t, High, h.Priority)
	require.Equal(t, "agent-7", h.Owner)
	require.Equal(t, seq, h.Origin)
	require.Equal(t, 1, h.Delivered)
	require.Equal(t, "00-ab", h.Header.Get("traceparent"))
	require.Equal(t, []string{"echo", "hi"}, h.Payload.(*Run).Argv)
	require.WithinDuration(t, time.Now(), h.PublishedAt, time.Minute)
	h.finish(t)
	require.ErrorIs(t, h.Ack(), ErrSettled)
	require.ErrorIs(t, h.GiveBack(time.Second), ErrSettled)
	eventually(t, func() bool { return b.msgs(t, StreamJobs) == 0 }, "acked")
}

func TestConsumerDeliversWhatIsNoJob(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", `{"argv":[`)
	h := r.next(t)
	var bad *Invalid
	require.ErrorAs(t, h.Err, &bad)
	require.Equal(t, "j1", h.ID)
	h.finish(t)
}

// A worker without a free slot has nothing in hand.
func TestConsumerTakesNoMoreThanItsSlots(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 2})
	for range 10 {
		b.send(t, "task.run", echo)
	}
	first, second := r.next(t), r.next(t)
	r.none(t, 200*time.Millisecond)
	d, err := b.q.Depth(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), d.Oldest, time.Minute)
	d.Oldest = time.Time{}
	require.Equal(t, Depth{Queued: 8, Pending: 2}, d)
	first.finish(t)
	second.finish(t)
	for range 8 {
		r.next(t).finish(t)
	}
	eventually(t, func() bool { return b.msgs(t, StreamJobs) == 0 }, "all acked")
}

func TestConsumerServesInOrderOfPriority(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for i := range 5 {
		b.send(t, "low.task.run", fmt.Sprintf(`{"id":"l%d","argv":["a"]}`, i))
		b.send(t, "task.run", fmt.Sprintf(`{"id":"n%d","argv":["a"]}`, i))
		b.send(t, "high.task.run", fmt.Sprintf(`{"id":"h%d","argv":["a"]}`, i))
	}
	b.queued(t, 15)
	r := b.consume(t, ConsumerConfig{Slots: 1})
	var order []string
	for range 15 {
		h := r.next(t)
		order = append(order, h.ID)
		h.finish(t)
	}
	require.Equal(t, []string{
		"h0", "h1", "h2", "h3", "h4", "n0", "n1", "n2", "n3", "n4", "l0", "l1", "l2", "l3", "l4",
	}, order)
}

// queued waits until the server has counted n jobs: it does so a little after
// it has stored them, and answers a fetch by its count.
func (b *bench) queued(t testing.TB, n uint64) {
	t.Helper()
	eventually(t, func() bool {
		d, err := b.q.Depth(t.Context())
		return err == nil && d.Queued == n
	}, "counted")
}

// A consumer that has reached MaxAckPending answers no fetch. The others are
// served all the same, and it is too as soon as there is room.
func TestConsumerWithAllItsAcksPending(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{MaxAckPending: 5})
	for range 20 {
		b.send(t, "task.run", echo)
	}
	r := b.consume(t, ConsumerConfig{Slots: 12})
	var holding []*held
	for range 5 {
		holding = append(holding, r.next(t))
	}
	soonest := time.Hour
	for range 5 {
		sent := time.Now()
		b.send(t, "low.task.run", echo)
		low := r.next(t)
		require.Equal(t, Low, low.Priority)
		require.Equal(t, 1, low.Delivered)
		soonest = min(soonest, time.Since(sent))
		low.finish(t)
	}
	require.Less(t, soonest, 3*time.Second)
	for range 15 {
		holding[0].finish(t)
		holding = append(holding[1:], r.next(t))
	}
	for _, h := range holding {
		h.finish(t)
	}
	eventually(t, func() bool { return r.Load() == Load{Slots: 12} }, "all slots free")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sources {
		require.Zero(t, s.fails, "it was no failure")
	}
}

// While the only slot is taken nobody looks; what comes meanwhile is still
// served in order when it is free.
func TestConsumerPriorityAfterABusyTime(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1, Linger: time.Millisecond})
	b.send(t, "task.run", `{"id":"first","argv":["a"]}`)
	h := r.next(t)
	eventually(t, func() bool { return r.asking() == 0 }, "pulls taken back")
	for _, s := range []string{"low.", "", "high."} {
		b.send(t, s+"task.run", echo)
	}
	b.queued(t, 3)
	h.finish(t)
	for _, want := range []Priority{High, Normal, Low} {
		h := r.next(t)
		require.Equal(t, want, h.Priority)
		h.finish(t)
	}
}

// A low job has landed without a slot; the high ones that wait at the server
// still go first.
func TestConsumerLandedJobsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1, Linger: time.Hour, Patience: time.Hour})
	eventually(t, func() bool { return r.waiting() == 4 }, "idle pulls")
	b.send(t, "task.run", echo)
	h := r.next(t)
	b.send(t, "low.task.run", echo)
	eventually(t, func() bool { return r.Load().Landed == 1 }, "landed")
	for range 3 {
		b.send(t, "high.task.run", echo)
	}
	eventually(t, func() bool { return r.Load().Landed == 2 }, "one high job has landed, too")
	b.queued(t, 2)
	h.finish(t)
	for _, want := range []Priority{High, High, High, Low} {
		h := r.next(t)
		require.Equal(t, want, h.Priority)
		h.finish(t)
	}
}

// What finds no slot in time goes to somebody else.
func TestConsumerPatience(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{AckWait: time.Minute})
	arrived := make(chan *Delivery, 100)
	r := b.consume(t, ConsumerConfig{
		Slots: 1, Linger: time.Hour, Patience: 50 * time.Millisecond, Arrived: func(d *Delivery) { arrived <- d },
	})
	eventually(t, func() bool { return r.waiting() == 4 }, "idle pulls")
	b.send(t, "task.run", echo)
	h := r.next(t)
	require.Same(t, h.Delivery, answer(t, arrived))
	b.send(t, "low.task.run", echo)
	require.Equal(t, Low, answer(t, arrived).Priority) // landed
	other := connect(t, b.srv, Config{AckWait: time.Minute}).consume(t, ConsumerConfig{Slots: 1})
	low := other.next(t)
	require.Equal(t, 2, low.Delivered)
	low.finish(t)
	h.finish(t)
}

// waiting counts the pulls that stay at the server until something comes.
func (c *Consumer) waiting() int { return c.pulls(func(p *pull) bool { return !p.nowait }) }

// asking counts all pulls that are open at the server.
func (c *Consumer) asking() int { return c.pulls(func(*pull) bool { return true }) }

func (c *Consumer) pulls(like func(*pull) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sources {
		if s.isOpen() && like(s.pull) {
			n++
		}
	}
	return n
}

func TestConsumerStarvationGuard(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for range 60 {
		b.send(t, "high.task.run", echo)
	}
	for range 3 {
		b.send(t, "low.task.run", echo)
	}
	r := b.consume(t, ConsumerConfig{Slots: 1, Guard: 10})
	var high, low int
	for high < 60 {
		h := r.next(t)
		if h.Priority == High {
			high++
		} else {
			low++
		}
		h.finish(t)
	}
	require.Equal(t, 3, low, "low jobs had no turn while high ones were waiting")
}

// The low source is known to be empty when its job comes, in the middle of a
// long row of high ones.
func TestConsumerGuardSeesWhatCameLater(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for range 200 {
		b.send(t, "high.task.run", echo)
	}
	r := b.consume(t, ConsumerConfig{Slots: 1, Guard: 5, Patience: 5 * time.Millisecond})
	for range 50 {
		r.next(t).finish(t)
	}
	b.send(t, "low.task.run", echo)
	for i := range 100 {
		h := r.next(t)
		h.finish(t)
		if h.Priority == Low {
			return
		}
		require.Less(t, i, 99, "no turn for the low job")
	}
}

func TestConsumerStopHandsBackAtOnce(t *testing.T) {
	t.Parallel()
	const ackWait = 2 * patience // or it would come back by itself
	b := setup(t, Config{AckWait: ackWait})
	r := b.consume(t, ConsumerConfig{Slots: 4, Patience: time.Hour, Linger: time.Hour})
	eventually(t, func() bool { return r.waiting() == 4 }, "idle pulls")
	for range 4 {
		b.send(t, "task.run", echo)
	}
	var running []*held
	for range 4 {
		running = append(running, r.next(t))
	}
	// These three land without a slot.
	for _, s := range []string{"low.task.run", "high.task.run"} {
		b.send(t, s, echo)
	}
	eventually(t, func() bool { return r.Load().Landed == 2 }, "landed without a slot")

	other := connect(t, b.srv, Config{AckWait: ackWait}).consume(t, ConsumerConfig{Slots: 10})
	r.Stop()
	other.next(t).finish(t)
	other.next(t).finish(t)
	for _, h := range running {
		require.NoError(t, h.ctx.Err(), "stop must not end what runs")
		h.finish(t)
	}
	r.stop()
	other.none(t, 100*time.Millisecond)
}

// Everything the server has sent to a stopping worker comes back, whatever the
// moment of the stop.
func TestConsumerStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{AckWait: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	const n = 300
	seen := make(map[string]bool)
	var mu sync.Mutex
	sent := 0
	for round := 0; len(seen) < n; round++ {
		for ; sent < min(n, (round+1)*50); sent++ {
			b.send(t, "task.run", fmt.Sprintf(`{"id":"job%d","argv":["a"]}`, sent))
		}
		c, err := NewConsumer(b.q, ConsumerConfig{Slots: 8, Log: logger(t)})
		require.NoError(t, err)
		count := 0
		require.NoError(t, c.Run(ctx, func(_ context.Context, d *Delivery) {
			mu.Lock()
			defer mu.Unlock()
			if seen[d.ID] {
				t.Errorf("%s ran twice", d.ID)
			}
			seen[d.ID] = true
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			if count++; count == 1+round%17 || len(seen) == n {
				c.Stop()
			}
		}))
		require.NoError(t, ctx.Err(), "%d of %d have come", len(seen), n)
	}
}

func TestConsumerKillEndsHandlers(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", echo)
	h := r.next(t)
	why := errors.New("second signal")
	r.Kill(why)
	answer(t, h.ctx.Done())
	require.Equal(t, why, context.Cause(h.ctx))
	require.NoError(t, h.GiveBack(0))
	r.stop()

	again := b.consume(t, ConsumerConfig{Slots: 1}).next(t)
	require.Equal(t, 2, again.Delivered)
	again.finish(t)
}

func TestConsumerGivesBackWhatAHandlerForgets(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", echo)
	r.next(t).done()
	h := r.next(t)
	require.Equal(t, 2, h.Delivered)
	h.finish(t)
}

func TestConsumerStopBeforeRun(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	c, err := NewConsumer(b.q, ConsumerConfig{Slots: 1})
	require.NoError(t, err)
	c.Stop()
	c.Stop()
	require.NoError(t, c.Run(t.Context(), nil))
	require.ErrorContains(t, c.Run(t.Context(), nil), "runs already")
}

func TestConsumerSurvivesAServerRestart(t *testing.T) {
	t.Parallel()
	srv, restart := restartable(t)
	b := connect(t, srv, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 2})
	b.send(t, "task.run", echo)
	r.next(t).finish(t)
	require.NoError(t, b.nc.Flush())

	restart()
	eventually(t, func() bool { return b.nc.Stats().Reconnects > 0 && b.nc.IsConnected() }, "reconnected")
	b.send(t, "low.task.run", echo)
	h := r.next(t)
	require.Equal(t, Low, h.Priority)
	h.finish(t)
}

func TestConsumerMakesItsDurableAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	eventually(t, func() bool { return r.waiting() == 4 }, "idle pulls")
	require.NoError(t, b.js.DeleteConsumer(t.Context(), StreamJobs, DurableNormal))
	b.send(t, "task.run", echo)
	r.next(t).finish(t)
}

// Waiting jobs hold no slot, and come back before new ones.
func TestParkedJobsHoldNoSlot(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{AckWait: time.Hour})
	r := b.consume(t, ConsumerConfig{Slots: 2, MaxParked: 500})
	const n = 500
	for i := range n {
		b.send(t, "task.run", fmt.Sprintf(`{"id":"lane%d","argv":["a"]}`, i))
	}
	parked := make([]*held, n)
	for i := range parked {
		parked[i] = r.next(t)
		require.True(t, parked[i].Park())
		require.True(t, parked[i].Park(), "twice is once")
	}
	b.send(t, "task.run", `{"id":"other","argv":["a"]}`)
	other := r.next(t)
	require.Equal(t, "other", other.ID)
	require.Equal(t, Load{Slots: 2, Running: 1, Parked: n}, r.Load())
	require.False(t, other.Park(), "no more than MaxParked")

	require.NoError(t, parked[0].Unpark(t.Context()))
	require.NoError(t, parked[0].Unpark(t.Context()), "twice is once")
	require.Equal(t, Load{Slots: 2, Running: 2, Parked: n - 1}, r.Load())

	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- parked[1].Unpark(ctx) }()
	why := errors.New("had enough")
	cancel(why)
	require.Equal(t, why, answer(t, gaveUp))

	back := make(chan error, 1)
	go func() { back <- parked[2].Unpark(t.Context()) }()
	eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.unparked) == 1 }, "asks for a slot")
	b.send(t, "high.task.run", echo)
	parked[0].finish(t)
	require.NoError(t, answer(t, back), "before any job that has not begun")
	for _, h := range append(parked[1:], other) {
		h.finish(t)
	}
	high := r.next(t)
	require.Equal(t, High, high.Priority)
	high.finish(t)
	eventually(t, func() bool { return r.Load() == Load{Slots: 2} }, "all slots free")
}

func TestUnparkAtAStop(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", echo)
	parked := r.next(t)
	require.True(t, parked.Park())
	b.send(t, "task.run", echo)
	runs := r.next(t)
	back := make(chan error, 1)
	go func() { back <- parked.Unpark(t.Context()) }()
	eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.unparked) == 1 }, "asks for a slot")
	r.Stop()
	answer(t, parked.Stopping())
	require.ErrorIs(t, answer(t, back), ErrStopping)
	require.False(t, runs.Park())
	require.NoError(t, parked.GiveBack(0))
	parked.done()
	runs.finish(t)
	r.stop()
}

// Two workers: what one has no slot for goes to the other without a detour.
func TestConsumerBusyWorkerLeavesJobsToOthers(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{AckWait: time.Minute})
	busy := b.consume(t, ConsumerConfig{Slots: 1, Patience: 10 * time.Second, Linger: time.Millisecond})
	b.send(t, "task.run", echo)
	h := busy.next(t)
	eventually(t, func() bool { return busy.asking() == 0 }, "pulls taken back")
	require.NoError(t, b.nc.Flush())
	other := connect(t, b.srv, Config{AckWait: time.Minute}).consume(t, ConsumerConfig{Slots: 10})
	for range 5 {
		for _, p := range []string{"", "low.", "high."} {
			b.send(t, p+"task.run", echo)
			h := other.next(t)
			require.Equal(t, 1, h.Delivered)
			h.finish(t)
		}
	}
	h.finish(t)
}

// A job of five times AckWait is delivered once, by the beat alone.
func TestBeatHoldsALongJob(t *testing.T) {
	t.Parallel()
	const ackWait = time.Second
	for name, beating := range map[string]bool{"beat": true, "no beat": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{AckWait: ackWait})
			w := NewWheel()
			t.Cleanup(w.Close)
			r := b.consume(t, ConsumerConfig{Slots: 2})
			b.send(t, "task.run", echo)
			h := r.next(t)
			if !beating {
				require.Equal(t, 2, r.next(t).Delivered)
				return
			}
			for !heldBy(t, w, r, h, ackWait) { // the machine stood still
				b.send(t, "task.run", echo)
				h = r.next(t)
			}
			h.finish(t)
			eventually(t, func() bool { return b.msgs(t, StreamJobs) == 0 }, "acked")
		})
	}
}

// heldBy reports whether the beat alone holds a job for five times AckWait. If not, the
// beat was late, and the job is done with.
func heldBy(t *testing.T, w *Wheel, r *running, h *held, ackWait time.Duration) bool {
	t.Helper()
	var mu sync.Mutex
	last, longest := time.Now(), time.Duration(0)
	look := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		longest, last = max(longest, time.Since(last)), time.Now()
		return longest
	}
	stop := w.Add(ackWait/3, func() { look(); _ = h.InProgress() })
	defer stop()
	select {
	case <-time.After(5 * ackWait):
		return true
	case again := <-r.got:
		require.Greater(t, look(), ackWait/2, "job %s is delivered again while the beat goes on", again.ID)
		again.finish(t)
		_ = h.Ack()
		h.done()
		return false
	}
}

func TestConsumersShareTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{AckWait: time.Hour})
	const n = 2000
	var mu sync.Mutex
	seen := make(map[uint64]int)
	all := make(chan struct{})
	handle := func(_ context.Context, d *Delivery) {
		mu.Lock()
		defer mu.Unlock()
		seen[d.StreamSeq]++
		if len(seen) == n {
			select {
			case <-all:
			default:
				close(all)
			}
		}
		_ = d.Ack()
	}
	var ran sync.WaitGroup
	var cs []*Consumer
	for range 3 {
		c, err := NewConsumer(connect(t, b.srv, Config{AckWait: time.Hour}).q, ConsumerConfig{Slots: 16})
		require.NoError(t, err)
		cs = append(cs, c)
		ran.Go(func() { _ = c.Run(context.Background(), handle) })
	}
	for i := range n {
		_, err := b.js.PublishAsync([]string{"high.task.run", "task.run", "low.task.run.bob"}[i%3], []byte(echo), jetstream.WithStallWait(time.Second))
		require.NoError(t, err)
	}
	select {
	case <-all:
	case <-time.After(3 * patience):
		mu.Lock()
		t.Errorf("got %d of %d", len(seen), n)
		mu.Unlock()
	}
	for _, c := range cs {
		c.Stop()
	}
	ran.Wait()
	require.Len(t, seen, n)
	for seq, times := range seen {
		require.Equal(t, 1, times, "message %d", seq)
	}
	eventually(t, func() bool { return b.msgs(t, StreamJobs) == 0 }, "all acked")
}
