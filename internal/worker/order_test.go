package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/internal/worker"
)

// take fetches n jobs as a worker would that dies before it does anything with them.
func (w *world) take(n int) (msgs []jetstream.Msg) {
	w.t.Helper()
	c, err := w.js.Consumer(w.t.Context(), jobs.StreamJobs, jobs.DurableNormal)
	require.NoError(w.t, err)
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(eventually))
	require.NoError(w.t, err)
	for m := range batch.Messages() {
		msgs = append(msgs, m)
	}
	require.Len(w.t, msgs, n)
	return msgs
}

// untilInLane waits until a job has told that it waits for one that comes before it.
func (w *world) untilInLane(job events.Job, ahead int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		h, err := w.facts.History(w.t.Context(), job)
		require.NoError(w.t, err)
		require.False(w.t, h.Started.OK(), "%s has begun before its turn", job)
		return h.Waiting.OK() && h.Waiting.Value.Why == events.WaitLane && h.Waiting.Value.Ahead >= ahead
	}, eventually, tick, "%s does not wait in its lane", job)
}

// held publishes n jobs to s1, of which a worker that is gone has the first three.
func (w *world) held(n int) (all []events.Job, msgs []jetstream.Msg) {
	w.t.Helper()
	// The consumers are made by the first worker.
	first := w.worker()
	require.Equal(w.t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	first.Stop()
	for i := range n {
		all = append(all, w.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{ID: fmt.Sprintf("j%d", i), Session: "s1"}, Shell: fmt.Sprintf("echo j%d >>log", i),
		}))
	}
	return all, w.take(3)
}

// release gives what was taken back, the last first.
func release(t *testing.T, msgs []jetstream.Msg) {
	t.Helper()
	for i := range msgs {
		require.NoError(t, msgs[len(msgs)-1-i].NakWithDelay(time.Duration(i+1)*50*time.Millisecond))
	}
}

// Jobs that a worker has taken down with it have no place in their lane: those
// behind them find that out long before the server does.
func TestGapIsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, msgs := w.held(6)
	w.worker()
	for i, job := range all[3:] {
		w.untilInLane(job, 3+i)
	}
	release(t, msgs)
	w.inOrder([]string{"s1"}, 6, all)
}

// Redis is wiped while jobs are in nobody's hands: they are found in JOBS.
func TestWipeWhileJobsAreUnderway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, msgs := w.held(6)
	w.worker()
	w.untilInLane(all[5], 5)
	w.flushRedis()
	late := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j6", Session: "s1"}, Shell: "echo j6 >>log"})
	w.untilInLane(late, 6)
	release(t, msgs)
	w.inOrder([]string{"s1"}, 7, append(all, late))
}

// Redis is wiped while jobs wait away: they are found in the schedules, and called
// back as before.
func TestWipeWhileJobsWaitAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.LaneHold = 100 * time.Millisecond })
	first := w.shell("s1", "echo on; until [ -e go ]; do sleep 0.05; done")
	w.until(first, 3)
	const last = 9
	var all []events.Job
	for i := range last {
		all = append(all, w.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{ID: fmt.Sprintf("j%d", i), Session: "s1"}, Shell: fmt.Sprintf("echo j%d >>log", i),
		}))
		w.untilAway(all[i])
	}
	w.flushRedis()
	all = append(all, w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j9", Session: "s1"}, Shell: "echo j9 >>log"}))
	w.untilInLane(all[last], last+1)
	h, err := w.facts.History(t.Context(), all[last-1])
	require.NoError(t, err)
	due := h.Waiting.Value.Until
	begun := time.Now()
	w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Shell: "touch go"}))
	require.Equal(t, events.Succeeded, w.follow(first).Kind)
	w.inOrder([]string{"s1"}, last+1, all)
	h, err = w.facts.History(t.Context(), all[last-1])
	require.NoError(t, err)
	require.True(t, h.Started.Time.Before(due), "nobody called it back before its time, %s", due)
	t.Logf("all done %s after the first had ended", time.Since(begun).Round(time.Millisecond))
}

// A late acknowledgement has removed the message on which a job's last claim stands,
// and its holder has given back what was not there any more. The job's other message,
// which came out of the schedules, is all that is left of it: it goes on with that.
func TestMessageThatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	job := w.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{Session: "s1", Delay: wire.Duration(time.Hour)}, Argv: []string{"true"},
	})
	var h events.History
	require.Eventually(t, func() bool {
		var err error
		h, err = w.facts.History(t.Context(), job)
		s, e := w.js.Stream(t.Context(), "JOBS")
		return err == nil && h.Waiting.Value.Rescheduled && e == nil && s.CachedInfo().State.Msgs == 0
	}, eventually, tick)
	rec := h.Claimed.Value
	rec.Worker, rec.Delivery = "gone", 2
	c, err := w.facts.Claim(t.Context(), job, rec, h.Claimed.Seq)
	require.NoError(t, err)
	require.NoError(t, c.Publish(t.Context(), events.KindWaiting, events.Waiting{Why: events.WaitQuota}))
	require.NoError(t, w.facts.Cancel(t.Context(), job, events.CancelRequested{})) // brings the other one back
	require.Equal(t, events.Cancelled, w.follow(job).Kind)
}
