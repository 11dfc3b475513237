package worker_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/worker"
)

// many is how many sessions the tests of rebuilding have: SANDJET_SESSIONS, or
// 2,000.
func many(t *testing.T) int {
	t.Helper()
	v := os.Getenv("SANDJET_SESSIONS")
	if v == "" {
		return 2000
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err)
	return n
}

// populate writes n sessions into the stream, as others have left them.
func (w *world) populate(n int) {
	w.t.Helper()
	states := []session.State{session.Paused, session.Active, session.Paused, session.Lost, session.Destroyed, session.Error}
	now := time.Now().UTC()
	var g errgroup.Group
	g.SetLimit(256)
	for i := range n {
		g.Go(func() error {
			_, err := w.facts.PutSession(w.t.Context(), session.Record{
				Session: fmt.Sprintf("old-%d", i), State: states[i%len(states)], Generation: 1, SandboxID: fmt.Sprintf("old%d", i),
				Template: "base", Owner: "agent-7", CreatedAt: now, UpdatedAt: now, StaleAt: now.Add(20 * time.Hour), Reason: "idle",
			}, 0)
			return err
		})
	}
	require.NoError(w.t, g.Wait())
	require.Eventually(w.t, func() bool { // SESSIONS follows EVENTS
		s, err := w.js.Stream(w.t.Context(), events.StreamSessions)
		return err == nil && s.CachedInfo().State.Msgs >= uint64(n)
	}, 60*time.Second, tick)
}

// view opens the view of a Redis.
func (w *world) view(url string) *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), url, "")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// filled waits until a Redis holds a filled view.
func (w *world) filled(url string) {
	w.t.Helper()
	s := w.view(url)
	require.Eventually(w.t, func() bool {
		g, err := s.Generation(w.t.Context())
		return err == nil && g.Filled
	}, 60*time.Second, tick, "the view is not filled")
}

// seen is what a view holds of its sessions: records, and for each clock those
// that have it.
type seen struct {
	records                  map[string]string
	idle, stale, watch, slot map[string]bool
}

func (w *world) seen(r *stack.Redis) seen {
	w.t.Helper()
	ctx := w.t.Context()
	c := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer func() { _ = c.Close() }()
	s := seen{records: map[string]string{}}
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, "sandjet:{*}:rec", 10_000).Result()
		require.NoError(w.t, err)
		if len(keys) > 0 {
			values, err := c.MGet(ctx, keys...).Result()
			require.NoError(w.t, err)
			for i, k := range keys {
				s.records[k], _ = values[i].(string)
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	set := func(key string) map[string]bool {
		out := map[string]bool{}
		for _, m := range c.ZRange(ctx, "sandjet:{g}:"+key, 0, -1).Val() {
			out[m] = true
		}
		return out
	}
	s.idle, s.stale, s.watch, s.slot = set("due:idle"), set("due:stale"), set("due:watch"), set("slots")
	return s
}

// Redis is wiped while jobs run in many sessions: afterwards the view is what
// another worker makes from the stream alone.
func TestViewRebuiltBesideTraffic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slots := func(c *worker.Config) { c.SandboxLimit, c.WatchEvery = 1_000_000, 100_000*time.Hour }
	r := w.worker(slots)
	w.populate(many(t))
	w.flushRedis() // it had been there before they were
	w.filled(w.redis.URL())

	// Sessions that are made, used, put to sleep and woken all the while.
	traffic, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, id := range ids("live", 6) {
		wg.Go(func() {
			pace := time.NewTicker(250 * time.Millisecond)
			defer pace.Stop()
			for i := 0; traffic.Err() == nil; i++ {
				<-pace.C
				job := w.run(id, "true")
				if i%3 == 2 {
					job = w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: id}})
				}
				if e := w.follow(job); e.Kind != events.Succeeded {
					t.Errorf("%s: %+v", job, e.Outcome)
					return
				}
			}
		})
	}
	for range 3 {
		begun := time.Now()
		w.flushRedis()
		w.filled(w.redis.URL())
		t.Logf("filled %s after the wipe", time.Since(begun).Round(time.Millisecond))
	}
	stop()
	wg.Wait()
	r.Stop() // no word is under way any more

	fresh, err := stack.StartRedis(stack.RedisOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = fresh.Stop() })
	other := w.worker(slots, func(c *worker.Config) { c.RedisURL = fresh.URL() })
	w.filled(fresh.URL())
	other.Stop()
	want, got := w.seen(fresh), w.seen(w.redis)
	require.Greater(t, len(want.records), many(t)/2)
	for key, rec := range want.records {
		require.Equal(t, rec, got.records[key], key)
	}
	require.Len(t, got.records, len(want.records))
	require.Equal(t, want.idle, got.idle, "idle deadlines")
	require.Equal(t, want.stale, got.stale, "stale deadlines")
	require.Equal(t, want.watch, got.watch, "watch deadlines")
	require.Equal(t, want.slot, got.slot, "slots")
}

// The worker that fills the view dies over it: another one takes up the filling
// when the lease has ended.
func TestRebuildTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker().Stop() // makes the streams
	w.populate(60)
	w.flushRedis()
	view := w.view(w.redis.URL())
	g, err := view.Generation(t.Context())
	require.NoError(t, err)
	require.True(t, g.Created)
	_, ok, err := view.Lease(t.Context(), "rebuild", "dead", time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	rec, seq, err := w.facts.Session(t.Context(), "old-0")
	require.NoError(t, err)
	require.NoError(t, view.FillSessions(t.Context(), []store.Stated{{Record: rec, Seq: seq}}, func(session.Record) store.Clocks { return store.Clocks{} }))

	w.worker()
	w.filled(w.redis.URL())
	got := w.seen(w.redis)
	require.Len(t, got.records, 50) // all but the destroyed ones
	require.Len(t, got.stale, 50)
	require.True(t, got.stale["old-0"], "what the dead one had begun is not complete")
}

// Redis is wiped: the list of jobs is what it was, those that have ended and those
// that have not.
func TestJobsListedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.worker()
	labels := map[string]string{"team": "x"}
	ended := []events.Job{
		w.run("s1", "echo", "hi"), w.run("s1", "false"), w.run("s2", "no-such-program"),
		w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "labelled", Session: "s2", Labels: labels}, Shell: "exit 3"}),
		w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s3"}}),
	}
	for _, j := range ended {
		w.follow(j)
	}
	live := w.shell("s1", "echo on; until [ -e go ]; do sleep 0.05; done")
	w.until(live, 3)
	behind := w.run("s1", "true")
	w.untilInLane(behind, 1)

	list := func() map[string]query.Job {
		var reply query.JobListReply
		w.ask(query.JobList, query.JobListRequest{}, &reply)
		all := map[string]query.Job{}
		for _, j := range reply.Jobs {
			j.UpdatedAt = time.Time{} // the event's time, or that of the word about it
			all[j.Job] = j
		}
		return all
	}
	var before map[string]query.Job
	require.Eventually(t, func() bool {
		before = list()
		return len(before) == len(ended)+2 && before[live.ID].State == "started" && before[behind.ID].State == "waiting"
	}, eventually, tick, "not all are listed")
	w.flushRedis()
	view := w.view(w.redis.URL())
	require.Eventually(t, func() bool {
		g, err := view.Generation(t.Context())
		return err == nil && g.Listed
	}, eventually, tick, "the jobs are not listed again")
	require.Equal(t, before, list())

	// What comes after is told by the jobs themselves.
	w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Shell: "touch go"}))
	w.follow(behind)
	require.Eventually(t, func() bool {
		now := list()
		return now[live.ID].State == "succeeded" && now[behind.ID].State == "succeeded"
	}, eventually, tick)
	r.Stop()
}
