package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/worker"
)

// A worker that died right after the end of its job has left the job in the
// session: it keeps nothing awake.
func TestEndedJobKeepsNothingAwake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.IdleTimeout = time.Second })
	job := w.run("s1", "true")
	require.Equal(t, events.Succeeded, w.follow(job).Kind)
	_, err := w.view(w.redis.URL()).Enter(t.Context(), store.Entry{Session: "s1", Job: job.ID, Origin: 1, Holder: "dead/JOBS.1.1"}, time.Millisecond)
	require.NoError(t, err)
	w.state("s1", session.Paused)
}

// A worker that was frozen puts its job back into the lane as it wakes, though the job
// has ended in other hands meanwhile, and dies: nobody waits behind that place, and
// the session is put to sleep all the same.
func TestLateBeatKeepsNothingAwake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.IdleTimeout = time.Second })
	job := w.run("s1", "true")
	require.Equal(t, events.Succeeded, w.follow(job).Kind)
	view := w.view(w.redis.URL())
	require.NoError(t, view.Renew(t.Context(), []store.Entry{
		{Session: "s1", Job: job.ID, Origin: 1, Exclusive: true, Holder: "1/frozen/JOBS.1.1"},
	}, time.Millisecond))
	_, queued, err := view.Busy(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, 1, queued)
	w.state("s1", session.Paused)
}

// A session is idle from the end of its last job, also if the pause comes upon the
// job that has ended before its worker has taken it out.
func TestEndedJobCountsAsUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.IdleTimeout = 4 * time.Second })
	job := w.run("s1", "true")
	require.Equal(t, events.Succeeded, w.follow(job).Kind)
	past, err := w.facts.History(t.Context(), job)
	require.NoError(t, err)
	view := w.view(w.redis.URL())
	// As it is before the job's own worker comes to it: the job stands there, and an
	// older use of the session is due.
	_, err = view.Enter(t.Context(), store.Entry{Session: "s1", Job: job.ID, Origin: 1, Holder: "dead/JOBS.1.1"}, time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, view.ClearDeadline(t.Context(), store.Idle, "s1"))
	require.NoError(t, view.SetDeadline(t.Context(), store.Idle, "s1", time.Millisecond))
	asleep := w.state("s1", session.Paused)
	require.GreaterOrEqual(t, asleep.UpdatedAt.Sub(past.Outcome.Time), 4*time.Second)
}

// So it is when the pause finds the ended job with the turn.
func TestEndedJobInTheWayCountsAsUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	job := w.run("s1", "true")
	w.done(job)
	view := w.view(w.redis.URL())
	// An older use of the session was due, and is claimed.
	require.NoError(t, view.ClearDeadline(t.Context(), store.Idle, "s1"))
	require.NoError(t, view.SetDeadline(t.Context(), store.Idle, "s1", 4*time.Second))
	_, err := view.Enter(t.Context(), store.Entry{Session: "s1", Job: job.ID, Origin: 1, Exclusive: true, Holder: "dead/JOBS.1.1"}, time.Millisecond)
	require.NoError(t, err)
	e := w.follow(w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{
		Session: "s1", Labels: map[string]string{worker.IdleLabel: "true"},
	}}))
	require.Equal(t, events.Succeeded, e.Kind)
	require.Equal(t, "not idle any more", e.Reason)
	w.state("s1", session.Active)
}

// A pause in its turn does not wait for the jobs that wait for it.
func TestPauseBeforeOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	first := w.run("s1", "sleep", "1")
	pause := w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s1"}})
	last := w.run("s1", "true")
	for _, job := range []events.Job{first, pause, last} {
		require.Equal(t, events.Succeeded, w.follow(job).Kind, job)
	}
	w.state("s1", session.Active)
}

// A view that still has a session as active is put right by the first deadline
// that speaks of it.
func TestStaleViewIsCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	rec, _, err := w.facts.Session(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.SandboxDestroy, &jobs.Lifecycle{Common: jobs.Common{Session: "s1"}})).Kind)
	w.flushRedis()
	view := w.view(w.redis.URL())
	require.NoError(t, view.PutSession(t.Context(), rec, 1))
	require.NoError(t, view.SetDeadline(t.Context(), store.Idle, "s1", time.Millisecond))
	require.Eventually(t, func() bool {
		now, _, err := view.Session(t.Context(), "s1")
		return err == nil && now.State == session.Destroyed
	}, eventually, tick)
}

// A sandbox is lost while Redis does not answer: the view still has it running. That
// costs the jobs of its session one attempt at most, those that were sent into it, and
// the others none.
func TestLossThatTheViewHasMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lose := func() {
		rec, seq, err := w.facts.Session(t.Context(), "s1")
		require.NoError(t, err)
		require.True(t, w.e2b.KillSandbox(rec.SandboxID))
		rec.State, rec.Reason = session.Lost, "gone"
		_, err = w.facts.PutSession(t.Context(), rec, seq)
		require.NoError(t, err)
	}
	first := w.worker()
	w.done(w.run("s1", "true"))
	lose()
	// This worker has the sandbox open, and finds out in the middle of a command.
	e := w.follow(w.run("s1", "true"))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.LessOrEqual(t, e.Attempts, 2)
	first.Stop()
	lose()
	w.worker() // this one looks for the sandbox first
	w.done(w.run("s1", "true"))
	require.Equal(t, 3, w.state("s1", session.Active).Generation)
}

// Redis is wiped between the claim of an idle session and its pause: what it has
// forgotten may have been used since, and is not paused before its time.
func TestWipeBeforeThePause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	w.done(w.run("s1", "true"))
	view := w.view(w.redis.URL())
	require.NoError(t, view.ClearDeadline(t.Context(), store.Idle, "s1"))
	e := w.follow(w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{
		Session: "s1", Labels: map[string]string{worker.IdleLabel: "true"},
	}}))
	require.Equal(t, events.Succeeded, e.Kind)
	require.Equal(t, "not idle any more", e.Reason)
	w.state("s1", session.Active)
}
