package worker_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

func (w *world) pause(id string) session.Record {
	w.t.Helper()
	e := w.follow(w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: id}}))
	require.Equal(w.t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	return w.state(id, session.Paused)
}

// states are all that a session has been, in order.
func (w *world) states(id string) (all []session.Record) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), events.StreamEvents)
	require.NoError(w.t, err)
	for seq := uint64(1); ; {
		m, err := stream.GetMsg(w.t.Context(), seq, jetstream.WithGetMsgSubject("event."+id+".session.state"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all
		}
		require.NoError(w.t, err)
		var rec session.Record
		require.NoError(w.t, json.Unmarshal(m.Data, &rec))
		all, seq = append(all, rec), m.Sequence+1
	}
}

// A sandbox comes back without its files, at the pause or at the resume: the
// session is lost, with what is known of it, and the job that woke it spends its
// attempt before anybody works in another sandbox.
func TestCanary(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"pause", "connect"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.worker()
			require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "echo kept >f")).Kind)
			// Twice well: files have been lost at the second pause only.
			w.pause("s1")
			require.Equal(t, "kept\n", string(w.follow(w.run("s1", "cat", "f")).Stdout))
			w.e2b.Faults().Add(local.Fault{Op: op, Action: local.LoseFiles{}})
			paused := w.pause("s1")
			require.NotEmpty(t, paused.Canary)

			e := w.follow(w.run("s1", "sh", "-c", "ls -A f || echo empty"))
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			require.Equal(t, 2, e.Attempts)
			require.Equal(t, "empty\n", string(e.Stdout))
			var lost session.Record
			for _, r := range w.states("s1") {
				if r.State == session.Lost {
					lost = r
				}
			}
			require.Equal(t, paused.SandboxID, lost.SandboxID)
			require.Contains(t, lost.Reason, "without its work: the canary of generation 1, left at the pause of "+paused.PausedAt.Format(time.RFC3339))
			now := w.state("s1", session.Active)
			require.Equal(t, 2, now.Generation)
			require.Empty(t, now.Canary)
		})
	}
}

// A job that may be tried once does not run in an empty sandbox.
func TestCanaryOneAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "echo kept >f")).Kind)
	w.e2b.Faults().Add(local.Fault{Op: "pause", Action: local.LoseFiles{}})
	w.pause("s1")
	e := w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", MaxAttempts: 1}, Argv: []string{"true"}}))
	require.Equal(t, events.Dead, e.Kind)
	require.Equal(t, "sandbox_lost", e.Class)
	require.Zero(t, e.count(events.KindStarted))
	w.state("s1", session.Lost)
	e = w.follow(w.publish(jobs.SandboxResume, &jobs.Lifecycle{Common: jobs.Common{Session: "s1"}}))
	require.Equal(t, "not_found", e.Class, "a resume makes no new sandbox")
}

// The wake from memory hangs, in the call or behind it: once it is tried from
// the disk alone, which has everything.
func TestResumeHangs(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]local.Fault{
		"connect": {Op: "connect", Action: local.Hang{}},
		"envd":    {Op: "envd.health", Action: local.Hang{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.worker(func(c *worker.Config) { c.ResumeTimeout = 2 * time.Second })
			require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "echo kept >f")).Kind)
			paused := w.pause("s1")
			if name == "envd" {
				fault.Count = 1
			}
			w.e2b.Faults().Add(fault)
			e := w.follow(w.run("s1", "cat", "f"))
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			require.Equal(t, "kept\n", string(e.Stdout))
			require.Equal(t, 1, e.Attempts)
			now := w.state("s1", session.Active)
			require.Equal(t, paused.SandboxID, now.SandboxID)
			require.Contains(t, now.Reason, "from its disk alone")
		})
	}
}
