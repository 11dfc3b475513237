package worker_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/worker"
)

// limit bounds the sandboxes of the fleet, in all and of one owner.
func limit(total, ofOwner int) func(*worker.Config) {
	return func(c *worker.Config) { c.SandboxLimit, c.OwnerSandboxLimit = total, ofOwner }
}

func named(name string) func(*worker.Config) {
	return func(c *worker.Config) { c.Name = name }
}

// limitedView opens the Redis view beside the workers, with the same limits.
func (w *world) limitedView(total, ofOwner int) *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), w.redis.URL(), "", store.WithSlots(total, ofOwner))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// inLine waits until n sessions stand in line.
func (w *world) inLine(view *store.Store, n int) {
	w.t.Helper()
	var use store.SlotUse
	require.Eventually(w.t, func() bool {
		var err error
		use, err = view.Slots(w.t.Context())
		return err == nil && use.Waiting == n
	}, 2*eventually, tick, "want %d in line, %+v", n, &use)
}

// owned publishes a command of an owner.
func (w *world) owned(owner, session, line string) events.Job {
	w.t.Helper()
	got, err := w.jobs.Publish(w.t.Context(), jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: session}, Shell: line}, jobs.PublishOptions{Owner: owner})
	require.NoError(w.t, err)
	return events.Job{Session: got.Session, ID: got.Job}
}

// gate is a command that runs until the gate is opened.
const gate = `echo on; while [ ! -e open ]; do sleep 0.1; done`

// open ends a gate of a session, beside the lane.
func (w *world) open(owner, session string) {
	w.t.Helper()
	beside := false
	got, err := w.jobs.Publish(w.t.Context(), jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: session, Exclusive: &beside}, Shell: "touch open"}, jobs.PublishOptions{Owner: owner})
	require.NoError(w.t, err)
	require.Equal(w.t, events.Succeeded, w.follow(events.Job{Session: got.Session, ID: got.Job}).Kind)
}

// done follows a job that must succeed at its first attempt.
func (w *world) done(job events.Job) ended {
	w.t.Helper()
	e := w.follow(job)
	require.Equal(w.t, events.Succeeded, e.Kind, "%s: %+v", job, e.Outcome)
	require.Equal(w.t, 1, e.Attempts, "%s: %v", job, e.waits())
	return e
}

// waiting waits until a job has said that it waits, and why.
func (w *world) waiting(job events.Job, why string) events.Fact[events.Waiting] {
	w.t.Helper()
	var h events.History
	require.Eventually(w.t, func() bool {
		var err error
		h, err = w.facts.History(w.t.Context(), job)
		return err == nil && h.Waiting.OK() && h.Waiting.Value.Why == why
	}, 2*eventually, tick, "%s does not wait for %s", job, why)
	return h.Waiting
}

// Many sessions, two workers, and few sandboxes that may run: never more do, by
// the sandbox server's own count, creations and resumes alike, and all jobs end.
func TestFleetKeepsItsLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(2, 0))
	w.worker(limit(2, 0), named("other"))
	for round := range 2 {
		var all []events.Job
		for _, id := range ids("s", 7) {
			all = append(all, w.run(id, "true"))
		}
		for _, job := range all {
			w.done(job)
		}
		require.Equal(t, 2, w.e2b.Peak(), "round %d", round)
	}
	require.Equal(t, 7, w.e2b.Faults().Count("create"))
	require.GreaterOrEqual(t, w.e2b.Faults().Count("connect"), 5)
}

// Redis goes away while a job stands in line: the job waits for that, and says so.
func TestRedisGoesAwayFromTheLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(1, 0))
	busy := w.owned("x", "x", gate)
	w.until(busy, 3)
	job := w.owned("a", "a", "true")
	w.waiting(job, events.WaitQuota)
	w.redis.Kill()
	w.waiting(job, events.WaitBreaker)
	back, err := stack.StartRedis(stack.RedisOptions{Addr: w.redis.Addr})
	require.NoError(t, err)
	t.Cleanup(func() { _ = back.Stop() })
	w.open("x", "x")
	w.done(busy)
	e := w.done(job)
	told := slices.IndexFunc(e.Events, func(ev events.Event) bool {
		var wait events.Waiting
		return ev.Kind == events.KindWaiting && ev.Decode(&wait) == nil && wait.Why == events.WaitBreaker
	})
	first := ended{Events: e.Events[:told]}
	require.Equal(t, 1, first.count(events.KindClaimed), "the job was let go without a word")
}

// Owners take turns, however many sessions each has in line; within an owner the
// first comes first.
func TestOwnersTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(1, 0))
	view := w.limitedView(1, 0)
	busy := w.owned("x", "x", gate)
	w.until(busy, 3)
	var all []events.Job
	for i, id := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
		all = append(all, w.owned(id[:1], id, "true"))
		w.inLine(view, i+1)
	}
	w.open("x", "x")
	order := map[string]uint64{}
	var got []string
	for _, job := range all {
		w.done(job)
		h, err := w.facts.History(t.Context(), job)
		require.NoError(t, err)
		order[job.Session] = h.Started.Seq
		got = append(got, job.Session)
	}
	slices.SortFunc(got, func(a, b string) int { return cmp.Compare(order[a], order[b]) })
	require.Equal(t, []string{"a1", "b1", "c1", "a2", "b2", "a3"}, got)
	require.Equal(t, 1, w.e2b.Peak())
}

// One owner has no more than its share; the others do not wait for it, and its own
// idle session makes room for its next.
func TestShareOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(3, 1))
	view := w.limitedView(3, 1)
	busy := w.owned("a", "a1", gate)
	w.until(busy, 3)
	next := w.owned("a", "a2", "true")
	w.inLine(view, 1)
	require.Contains(t, w.waiting(next, events.WaitQuota).Value.Detail, "owner")
	w.done(w.owned("b", "b1", "true"))
	w.inLine(view, 1)
	w.open("a", "a1")
	w.done(busy)
	w.done(next)
	w.state("a1", session.Paused)
	w.state("b1", session.Active)
}

// A resume takes a slot like a creation.
func TestResumeTakesASlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(1, 0))
	view := w.limitedView(1, 0)
	w.done(w.run("s1", "true"))
	w.done(w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s1"}}))
	busy := w.shell("s2", gate)
	w.until(busy, 3)
	job := w.run("s1", "true")
	w.inLine(view, 1)
	w.waiting(job, events.WaitQuota)
	require.Zero(t, w.e2b.Faults().Count("connect"))
	w.open("", "s2")
	w.done(job)
	require.Equal(t, 1, w.e2b.Peak())
	w.state("s2", session.Paused)
}

// Room is made by the sandbox that was not used for longest, never by one in which
// a command runs, and no more is made than is needed.
func TestRoomIsMadeByTheLeastUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(4, 0))
	busy := w.shell("busy", gate) // the first of all, and still busy
	w.until(busy, 3)
	for _, id := range []string{"s1", "s2", "s3"} {
		w.done(w.run(id, "true"))
	}
	w.done(w.run("s1", "true")) // now s2 is the oldest
	w.done(w.run("new", "true"))
	require.Equal(t, "idle, and its room is needed", w.state("s2", session.Paused).Reason)
	for _, id := range []string{"s1", "s3", "busy", "new"} {
		w.state(id, session.Active)
	}
	w.open("", "busy")
	e := w.done(busy)
	require.Zero(t, e.count(events.KindReattached))
	require.Equal(t, 4, w.e2b.Peak())
}

// A session that is used between the wish for its room and its pause stays awake,
// and so does one whose room nobody needs any more.
func TestRoomGivesWayToWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(2, 0))
	view := w.limitedView(2, 0)
	leave := func(due time.Time) ended {
		return w.follow(w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s1", Labels: map[string]string{
			worker.IdleLabel: "true", worker.RoomLabel: strconv.FormatInt(due.UnixMilli(), 10),
		}}}))
	}
	w.done(w.run("s1", "true"))
	due, err := view.DeadlineOf(t.Context(), store.Idle, "s1")
	require.NoError(t, err)
	require.Contains(t, leave(due).Reason, "nobody needs its room")

	// Both are busy, and somebody waits.
	first, second := w.shell("s1", gate), w.shell("s2", gate)
	w.until(first, 3)
	w.until(second, 3)
	waits := w.run("s3", "true")
	w.inLine(view, 1)
	beside := w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s1", Exclusive: new(bool), Labels: map[string]string{
		worker.IdleLabel: "true", worker.RoomLabel: strconv.FormatInt(due.Add(time.Hour).UnixMilli(), 10),
	}}})
	require.Equal(t, "not idle any more", w.follow(beside).Reason, "a command runs in it")
	beside = w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s1", Exclusive: new(bool), Labels: map[string]string{
		worker.IdleLabel: "true", worker.RoomLabel: strconv.FormatInt(due.Add(-time.Second).UnixMilli(), 10),
	}}})
	require.Equal(t, "not idle any more", w.follow(beside).Reason, "it was used since")
	w.state("s1", session.Active)
	w.open("", "s2")
	w.done(waits)
	w.open("", "s1")
	require.Zero(t, w.done(first).count(events.KindReattached))
}

// A pause for the sake of room that has begun is made, also when E2B fails in the
// middle of it and nobody needs the room any more: nothing else would wake or pause
// the session before its deadline.
func TestRoomPauseIsBroughtToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(1, 0))
	view := w.limitedView(1, 0)
	w.done(w.run("s1", "true"))
	w.e2b.Faults().Add(local.Fault{Op: "pause", Sandbox: w.state("s1", session.Active).SandboxID, Action: local.Status{Code: 503}})
	waits := w.run("s2", "true")
	w.inLine(view, 1)
	k := w.state("s1", session.Pausing)
	require.Contains(t, k.Job, "room-")
	require.NoError(t, w.facts.Cancel(t.Context(), waits, events.CancelRequested{}))
	require.Equal(t, events.Cancelled, w.follow(waits).Kind)
	w.inLine(view, 0)
	w.done(events.Job{Session: "s1", ID: k.Job})
	w.state("s1", session.Active) // it was found running, and nobody needs its room
	w.done(w.run("s1", "true"))
}

// E2B allows less than we think, or we have no limit of our own: its word counts,
// jobs wait for a slot and no attempt is spent.
func TestQuotaIsLearned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *local.Config) { c.MaxRunning = 2 })
	w.worker()
	var all []events.Job
	for _, id := range ids("s", 6) {
		all = append(all, w.run(id, "true"))
	}
	for _, job := range all {
		for _, why := range w.done(job).waits() {
			require.Equal(t, events.WaitQuota, why)
		}
	}
	require.Equal(t, 2, w.e2b.Peak())
}

// E2B asks to come again later: nobody in the fleet asks sooner, and the wait is
// seen.
func TestRetryAfterHoldsForTheFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	w.worker(named("other"))
	const rest = 12 * time.Second
	w.e2b.Faults().Add(local.Fault{Op: "create", Action: local.Status{Code: 429, Message: "Rate limit exceeded", RetryAfter: rest}})
	first := w.run("s0", "true")
	told := w.waiting(first, events.WaitRate)
	require.False(t, told.Value.Until.Before(told.Time.Add(rest-time.Second)), "until %s, said at %s", told.Value.Until, told.Time)
	var all []events.Job
	for _, id := range ids("other", 4) {
		all = append(all, w.run(id, "true"))
	}
	for _, job := range all {
		w.waiting(job, events.WaitRate)
	}
	for _, job := range append(all, first) {
		h := w.done(job)
		for _, ev := range h.Events {
			require.True(t, ev.Kind != events.KindStarted || !ev.Time.Before(told.Time.Add(rest-time.Second)), "%s started at %s", job, ev.Time)
		}
	}
	require.Equal(t, 6, w.e2b.Faults().Count("create"), "one refusal for all")
}

// Hundreds of jobs wait for a slot: they leave the queue, so that a job that needs
// none is not behind them; a cancelled one leaves the line.
func TestLongLineDelaysNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(limit(1, 0), func(c *worker.Config) { c.Concurrency = 4 }) // parks 116 at most
	view := w.limitedView(1, 0)
	busy := w.shell("s0", gate)
	w.until(busy, 3)
	const n = 300
	var all []events.Job
	for _, id := range ids("w", n) {
		all = append(all, w.run(id, "true"))
	}
	w.inLine(view, n)
	beside := false
	quick := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s0", Exclusive: &beside}, Argv: []string{"true"}})
	require.Empty(t, w.done(quick).waits())
	w.inLine(view, n)
	var stats query.StatsReply
	w.ask(query.Stats, struct{}{}, &stats)
	require.Equal(t, n, stats.Slots.Waiting)

	for _, job := range all[3:] {
		require.NoError(t, w.facts.Cancel(t.Context(), job, events.CancelRequested{Reason: "not needed"}))
	}
	for _, job := range all[3:] {
		require.Equal(t, events.Cancelled, w.follow(job).Kind)
	}
	w.inLine(view, 3)
	w.open("", "s0")
	for _, job := range all[:3] {
		e := w.done(job)
		for _, why := range e.waits() {
			require.Equal(t, events.WaitQuota, why)
		}
	}
	require.Equal(t, 1, w.e2b.Peak())
}

// A worker dies with sessions in line: its successor finds their places, and the
// line moves on.
func TestLineOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	view := w.limitedView(1, 0)
	first := w.spawn("first", "WORKER_ACK_WAIT=2s", "WORKER_SANDBOX_LIMIT=1")
	busy := w.shell("s0", gate)
	w.until(busy, 3)
	var all []events.Job
	for i := range 3 {
		all = append(all, w.run(fmt.Sprint("w", i), "true"))
	}
	w.inLine(view, 3)
	first.Kill()
	w.spawn("second", "WORKER_ACK_WAIT=2s", "WORKER_SANDBOX_LIMIT=1")
	w.open("", "s0")
	for _, job := range append(all, busy) {
		w.done(job)
	}
	require.Equal(t, 1, w.e2b.Peak())
}
