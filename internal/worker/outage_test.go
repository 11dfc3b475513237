package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

// breaker waits until a class of calls is held back, or is not.
func (w *world) breaker(class, want string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		var stats query.StatsReply
		w.ask(query.Stats, struct{}{}, &stats)
		return stats.Breakers[class] == want
	}, 2*eventually, tick, "%s calls are not %s", class, want)
}

// E2B creates nothing: jobs wait and say why, few calls go out, no attempt is
// spent; what needs no new sandbox goes on; and all end when E2B is back.
func TestOutageHoldsJobsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.Concurrency = 4 })
	w.done(w.run("s0", "true"))
	before := w.e2b.Faults().Count("create")
	repaired := w.e2b.Faults().Add(local.Fault{Op: "create", Count: -1, Action: local.Status{Code: 503, ErrorCode: "sandbox_capacity_unavailable"}})
	var all []events.Job
	for _, id := range ids("w", 24) {
		all = append(all, w.run(id, "true"))
	}
	w.breaker("start", "open")
	opened := time.Now()
	for _, job := range all[:10] {
		w.waiting(job, events.WaitBreaker)
	}
	w.done(w.run("s0", "true"))
	// Before it opened each slot may have had one under way, and then each rest of
	// 5 s ends with one that tries.
	calls := w.e2b.Faults().Count("create") - before
	require.LessOrEqual(t, calls, 5+4+1+int(time.Since(opened)/(5*time.Second)))
	repaired()
	for _, job := range all {
		for _, why := range w.done(job).waits() {
			require.Equal(t, events.WaitBreaker, why)
		}
	}
	w.breaker("start", "closed")
}

// envd cannot be reached in any sandbox while commands run: nobody ends them, and
// they are followed to their end when it can.
func TestOutageOfTheDataPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	var all []events.Job
	for _, id := range ids("s", 3) {
		job := w.shell(id, lines(20_000, 20)+"; "+gate[len("echo on; "):])
		w.until(job, 1000)
		all = append(all, job)
	}
	var repair []func()
	for _, op := range []string{"start", "process.connect", "read", "stat", "listdir"} {
		repair = append(repair, w.e2b.Faults().Add(local.Fault{Op: op, Count: -1, Action: local.Status{Code: 503}}))
	}
	w.e2b.CutStreams()
	w.breaker("data", "open")
	for _, f := range repair {
		f()
	}
	w.breaker("data", "closed")
	for _, job := range all {
		w.open("", job.Session)
		e := w.done(job)
		require.Equal(t, wantLines(20_000), string(e.Stdout))
		require.Equal(t, 1, e.count(events.KindStarted))
		require.Zero(t, e.count(events.KindReattached), "%v", e.waits())
	}
}

// Refusals are no outage: a template that is not there ends its jobs, and the
// others go on.
func TestRefusalsAreNoOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *local.Config) { c.Templates = []string{"base"} })
	w.worker()
	for _, id := range ids("none", 12) {
		e := w.follow(w.publish(jobs.SandboxProvision, &jobs.Provision{Common: jobs.Common{Session: id}, Template: "none"}))
		require.Equal(t, events.Dead, e.Kind)
	}
	require.Empty(t, w.done(w.run("s1", "true")).waits())
	w.breaker("start", "closed")
	w.state("none0", session.Error)
}
