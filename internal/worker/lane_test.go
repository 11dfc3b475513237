package worker_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/worker"
)

// lanes publishes n exclusive jobs for each session, one session after the other
// and again; each writes its number to a file of its sandbox.
func (w *world) lanes(sessions []string, n int) (all []events.Job) {
	w.t.Helper()
	for i := range n {
		for _, s := range sessions {
			all = append(all, w.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{ID: fmt.Sprintf("j%d", i), Session: s}, Shell: fmt.Sprintf("echo j%d >>log", i),
			}))
		}
	}
	return all
}

// inOrder waits until all jobs have succeeded and looks at what they wrote.
func (w *world) inOrder(sessions []string, n int, all []events.Job) {
	w.t.Helper()
	for _, job := range all {
		e := w.follow(job)
		require.Equal(w.t, events.Succeeded, e.Kind, "%s: %+v", job, e.Outcome)
		require.Equal(w.t, 1, e.Attempts)
	}
	for _, s := range sessions {
		log := string(w.follow(w.run(s, "cat", "log")).Stdout)
		require.Equal(w.t, ids("j", n), strings.Fields(log), "session %s", s)
	}
}

// few gives a worker few slots, so that the jobs of a session are spread over all
// workers.
func few(c *worker.Config) { c.Concurrency, c.AckWait = 3, 3*time.Second }

var fewEnv = []string{"WORKER_CONCURRENCY=3", "WORKER_ACK_WAIT=3s"}

// Jobs of a session that several workers are handed in the same moment start as
// they were published.
func TestLaneOrderAcrossWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sessions := ids("s", 5)
	first := w.worker(few)
	for _, s := range sessions {
		require.Equal(t, events.Succeeded, w.follow(w.run(s, "true")).Kind)
	}
	first.Stop()
	all := w.lanes(sessions, 40)
	for range 3 {
		w.worker(few)
	}
	w.inOrder(sessions, 40, all)
}

// A worker dies, or freezes, with jobs in hand that have no place in their lanes
// yet: those behind them wait, and not for long.
func TestLaneOrderWhenAWorkerVanishes(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"dies": syscall.SIGKILL, "freezes": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sessions := ids("s", 4)
			victims := []*process{w.spawn("v1", fewEnv...), w.spawn("v2", fewEnv...)}
			all := w.lanes(sessions, 40)
			w.spawn("heir", fewEnv...)
			for i, at := range []int{30, 80} {
				w.untilEnded(all[at])
				victims[i].Signal(signal)
			}
			if signal == syscall.SIGSTOP {
				w.untilEnded(all[100])
				victims[0].Signal(syscall.SIGCONT)
			}
			w.inOrder(sessions, 40, all)
		})
	}
}

func (w *world) untilEnded(job events.Job) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		h, err := w.facts.History(w.t.Context(), job)
		return err == nil && h.Ended()
	}, 2*eventually, tick, "%s has not ended", job)
}

// Redis is wiped again and again while jobs of many kinds of waits are on their way:
// in workers' hands, in the queue, in the schedules.
func TestLaneOrderWhenRedisIsWiped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sessions := ids("s", 3)
	hold := func(c *worker.Config) { few(c); c.LaneHold = 300 * time.Millisecond }
	for range 2 {
		w.worker(hold)
	}
	all := w.lanes(sessions, 40)
	for _, at := range []int{10, 30, 60, 90} {
		w.untilEnded(all[at])
		w.flushRedis()
	}
	w.inOrder(sessions, 40, all)
}

// A job that waits longer than it may stay with a worker goes into the schedules,
// keeps its place, and is back soon after its turn has come.
func TestLongWaitLeavesTheConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.LaneHold = 500 * time.Millisecond })
	first := w.shell("s1", "echo on; until [ -e go ]; do sleep 0.05; done; echo first >>log")
	w.until(first, 3)
	var all []events.Job
	for _, id := range ids("j", 5) {
		all = append(all, w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: id, Session: "s1"}, Shell: "echo " + id + " >>log"}))
	}
	for _, job := range all {
		w.untilAway(job)
	}
	w.pending(1)
	late := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j5", Session: "s1"}, Shell: "echo j5 >>log"})
	w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Shell: "touch go"}))
	ended := w.follow(first).Events
	for _, job := range append(all, late) {
		require.Equal(t, events.Succeeded, w.follow(job).Kind)
	}
	log := string(w.follow(w.run("s1", "cat", "log")).Stdout)
	require.Equal(t, append([]string{"first"}, ids("j", 6)...), strings.Fields(log))
	h, err := w.facts.History(t.Context(), all[0])
	require.NoError(t, err)
	t.Logf("the first that waited away began %s after its turn had come", h.Started.Time.Sub(ended[len(ended)-1].Time).Round(time.Millisecond))
}

// untilAway waits until a job waits in the schedules for its turn.
func (w *world) untilAway(job events.Job) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		h, err := w.facts.History(w.t.Context(), job)
		return err == nil && h.Waiting.OK() && h.Waiting.Value.Rescheduled
	}, eventually, tick, "%s does not leave the consumer", job)
}

// pending waits until no more than n deliveries are with the workers.
func (w *world) pending(n int) {
	w.t.Helper()
	have := func() (sum int) {
		for stream, durables := range map[string][]string{
			jobs.StreamJobs: {jobs.DurableNormal}, jobs.StreamSchedules: {jobs.DurableAgain},
		} {
			for _, durable := range durables {
				c, err := w.js.Consumer(w.t.Context(), stream, durable)
				require.NoError(w.t, err)
				sum += c.CachedInfo().NumAckPending
			}
		}
		return sum
	}
	require.Eventually(w.t, func() bool { return have() <= n }, eventually, tick, "deliveries stay with the workers")
}

// Who waits away can be cancelled, and expires, where it waits; and leaves no hole in
// the lane.
func TestEndsWhileItWaitsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.LaneHold = 200 * time.Millisecond })
	first := w.shell("s1", "echo on; until [ -e go ]; do sleep 0.05; done")
	w.until(first, 3)
	cancelled := w.shell("s1", "echo never")
	expired := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", ExpiresIn: durationOf(15 * time.Second)}, Argv: []string{"true"}})
	last := w.shell("s1", "echo last")
	for _, job := range []events.Job{cancelled, expired, last} {
		w.untilAway(job)
	}
	require.NoError(t, w.facts.Cancel(t.Context(), cancelled, events.CancelRequested{Reason: "not needed"}))
	e := w.follow(cancelled)
	require.Equal(t, events.Cancelled, e.Kind)
	require.Empty(t, e.Stdout)
	e = w.follow(expired)
	require.Equal(t, "expired", e.Class)
	h, err := w.facts.History(t.Context(), first)
	require.NoError(t, err)
	require.False(t, h.Ended(), "they did not wait for their turn")

	w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Shell: "touch go"}))
	require.Equal(t, events.Succeeded, w.follow(first).Kind)
	require.Equal(t, "last\n", string(w.follow(last).Stdout))
}

// Ever so many jobs in one lane: few of them are with the workers, they run in order
// without a pause between them, and other sessions do not notice. SANDJET_LANE sets
// how many.
func TestLongLane(t *testing.T) {
	t.Parallel()
	n := 150
	if v := os.Getenv("SANDJET_LANE"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.Concurrency = 16 })
	w.worker(func(c *worker.Config) { c.Concurrency = 16 })
	var others []string
	for _, s := range ids("other", 8) {
		require.Equal(t, events.Succeeded, w.follow(w.run(s, "true")).Kind)
		others = append(others, s)
	}
	before := w.dispatch(others, 10)

	first := w.shell("s1", "echo on; until [ -e go ]; do sleep 0.05; done")
	w.until(first, 3)
	begun := time.Now()
	var futures []jetstream.PubAckFuture
	for i := range n {
		f, err := w.js.PublishAsync("task.run", fmt.Appendf(nil, `{"id":"j%d","session":"s1","shell":"echo j%d >>log","max_attempts":1}`, i, i), jetstream.WithStallWait(time.Minute))
		require.NoError(t, err)
		futures = append(futures, f)
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			require.NoError(t, err)
		}
	}
	w.untilLaneIsAway(n)
	t.Logf("%d jobs have their places %s after the first was published", n, time.Since(begun).Round(time.Millisecond))
	standing := w.dispatch(others, 10)

	w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Shell: "touch go"}))
	require.Equal(t, events.Succeeded, w.follow(first).Kind)
	measured := min(n, 2000)
	moving := w.dispatch(others, 10)
	var hands []time.Duration
	prev := time.Time{}
	for i := range n {
		if i < measured {
			e := w.follow(events.Job{Session: "s1", ID: fmt.Sprintf("j%d", i)})
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			for _, ev := range e.Events {
				switch {
				case ev.Kind == events.KindStarted && !prev.IsZero():
					hands = append(hands, ev.Time.Sub(prev))
				case ev.Kind.Terminal():
					prev = ev.Time
				}
			}
		}
	}
	log := strings.Fields(string(w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Shell: fmt.Sprintf("head -n %d log", measured)})).Stdout))
	require.Equal(t, ids("j", measured), log)
	t.Logf("dispatch of other sessions: %s; beside a lane of %d: %s; while it moves: %s", quantiles(before), n, quantiles(standing), quantiles(moving))
	t.Logf("hand-over in the lane: %s", quantiles(hands))
}

// untilLaneIsAway waits until all but the nearest of n jobs wait in the schedules.
func (w *world) untilLaneIsAway(n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		s, err := w.js.Stream(w.t.Context(), jobs.StreamSchedules)
		require.NoError(w.t, err)
		c, err := w.js.Consumer(w.t.Context(), jobs.StreamJobs, jobs.DurableNormal)
		require.NoError(w.t, err)
		i := c.CachedInfo()
		return int(s.CachedInfo().State.Msgs) >= n-100 && i.NumPending == 0 && i.NumAckPending <= 100
	}, time.Duration(30+n/100)*time.Second, 5*tick, "the lane does not leave the consumer")
}

// dispatch runs n jobs, one after the other, in each session, and returns how long
// each took from its publication to its start.
func (w *world) dispatch(sessions []string, n int) (all []time.Duration) {
	w.t.Helper()
	for range n {
		for _, s := range sessions {
			job := w.run(s, "true")
			w.follow(job)
			h, err := w.facts.History(w.t.Context(), job)
			require.NoError(w.t, err)
			all = append(all, h.Started.Time.Sub(h.Accepted.Value.PublishedAt))
		}
	}
	return all
}

func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %s p99 %s max %s of %d", at(0.5), at(0.99), at(1), len(d))
}

// A command runs on while its job comes to another worker and waits there for the turn
// again. A cancel ends the command, and not the job alone.
func TestCancelReachesWhatRunsWithoutTheTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.worker()
	w.done(w.run("s1", "true"))
	job := w.shell("s1", gate)
	w.until(job, 3)
	first.Stop()
	view := w.view(w.redis.URL())
	_, err := view.Leave(t.Context(), store.Entry{Session: "s1", Job: job.ID}, 0)
	require.NoError(t, err)
	adm, err := view.Enter(t.Context(), store.Entry{Session: "s1", Job: "other", Origin: 1, Exclusive: true, Holder: "x/JOBS.1.1"}, time.Hour)
	require.NoError(t, err)
	require.True(t, adm.Turn)
	w.worker()
	w.waiting(job, events.WaitLane)
	require.NoError(t, w.facts.Cancel(t.Context(), job, events.CancelRequested{}))
	e := w.follow(job)
	require.Equal(t, events.Cancelled, e.Kind, "%+v", e.Outcome)
	require.NotNil(t, e.ExitCode, "the command was not stopped: %+v", e.Outcome)
}
