package worker_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

// onDemand reconciles only when asked to.
func onDemand(c *worker.Config) { c.ReconcileEvery, c.OrphanGrace = time.Hour, 3*time.Second }

func (w *world) reconcile(dry bool) query.ReconcileReply {
	w.t.Helper()
	var out query.ReconcileReply
	w.ask(query.Reconcile, query.ReconcileRequest{DryRun: dry}, &out)
	return out
}

// client is E2B as somebody else of the same team sees it.
func (w *world) client() *e2b.Client {
	w.t.Helper()
	c, err := e2b.New(e2b.Config{APIKey: func() (string, error) { return w.e2b.APIKey(), nil }, APIURL: w.e2b.URL(), SandboxURL: w.e2b.URL()})
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// stray makes a sandbox that no worker knows of.
func (w *world) stray(meta map[string]string) string {
	w.t.Helper()
	sb, err := w.client().Create(w.t.Context(), e2b.CreateRequest{TemplateID: "base", Timeout: 600, Metadata: meta})
	require.NoError(w.t, err)
	return sb.SandboxID
}

func marks(ns, session string, generation int) map[string]string {
	return map[string]string{
		"sandjet-namespace": ns, "sandjet-session": session, "sandjet-generation": strconv.Itoa(generation), "sandjet-attempt": "some",
	}
}

func (w *world) there(id string) bool {
	return slices.ContainsFunc(w.e2b.Sandboxes(), func(s e2b.ListedSandbox) bool { return s.SandboxID == id })
}

func verdictOf(r query.ReconcileReply, id string) query.ReconciledSandbox {
	for _, s := range r.Sandboxes {
		if s.Sandbox == id {
			return s
		}
	}
	return query.ReconciledSandbox{}
}

// A creation whose answer is lost and whose sandbox does not show until the
// session has another one: it is killed after the grace and only then. A dry
// run kills nothing and is no sighting.
func TestReconcileOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(onDemand)
	w.e2b.Faults().Add(local.Fault{Op: "create", Action: local.LostAnswer{}})
	hide := w.e2b.Faults().Add(local.Fault{Op: "list", Count: -1, Action: local.Status{Code: 200, Body: "[]"}})
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	hide()
	mine := w.state("s1", session.Active).SandboxID
	require.Len(t, w.e2b.Sandboxes(), 2)
	var orphan string
	for _, s := range w.e2b.Sandboxes() {
		if s.SandboxID != mine {
			orphan = s.SandboxID
		}
	}

	for range 3 {
		r := w.reconcile(true)
		require.True(t, r.Complete)
		require.Len(t, r.Sandboxes, 2)
		require.Equal(t, query.VerdictSuspect, verdictOf(r, orphan).Verdict, "a dry run is no sighting")
	}
	first := time.Now()
	r := w.reconcile(false)
	require.Equal(t, query.VerdictSuspect, verdictOf(r, orphan).Verdict, "%+v", r)
	require.Equal(t, query.VerdictOwned, verdictOf(r, mine).Verdict, "%+v", r)
	r = w.reconcile(false)
	if time.Since(first) < 3*time.Second {
		require.Equal(t, query.VerdictSuspect, verdictOf(r, orphan).Verdict, "before the grace: %+v", r)
		require.True(t, w.there(orphan))
	}
	require.Eventually(t, func() bool { return verdictOf(w.reconcile(true), orphan).Verdict == query.VerdictOrphan }, eventually, 200*time.Millisecond)
	require.Equal(t, "would be killed", verdictOf(w.reconcile(true), orphan).Done)
	require.True(t, w.there(orphan))

	r = w.reconcile(false)
	require.Equal(t, "killed", verdictOf(r, orphan).Done, "%+v", r)
	require.Equal(t, map[string]int{query.VerdictOrphan: 1, query.VerdictOwned: 1}, r.Counts)
	require.False(t, w.there(orphan))
	require.True(t, w.there(mine))
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
}

// What is not ours is left alone, whatever else is true of it; of what is ours
// a few are killed at a time.
func TestReconcileStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(onDemand, func(c *worker.Config) { c.OrphanGrace = time.Millisecond })
	strangers := map[string]string{
		w.stray(nil):                         query.VerdictUnmarked,
		w.stray(map[string]string{"a": "b"}): query.VerdictUnmarked,
		w.stray(marks("staging", "s1", 1)):   query.VerdictForeign,
		w.stray(map[string]string{"sandjet-namespace": "", "sandjet-session": "s1"}): query.VerdictUnclear,
	}
	require.Equal(t, events.Succeeded, w.follow(w.run("s9", "true")).Kind)
	strangers[w.stray(marks("", "s9", 7))] = query.VerdictNewer
	for range 7 {
		w.stray(marks("", "gone", 1))
	}
	w.reconcile(false)
	r := w.reconcile(false)
	require.Equal(t, 7, r.Counts[query.VerdictOrphan], "%+v", r)
	require.Len(t, w.e2b.Sandboxes(), 13-5, "a few at a time")
	w.reconcile(false)
	for range 3 {
		r = w.reconcile(false)
	}
	require.Zero(t, r.Counts[query.VerdictOrphan])
	require.Len(t, w.e2b.Sandboxes(), 6)
	for id, want := range strangers {
		require.Equal(t, want, verdictOf(r, id).Verdict)
		require.True(t, w.there(id), want)
	}
}

// An error on any page, or a record of a session that cannot be read, is not
// the word that there is nothing.
func TestReconcileUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(onDemand, func(c *worker.Config) { c.OrphanGrace = time.Millisecond })
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	orphan := w.stray(marks("", "gone", 1))
	for range 100 { // the second page begins after a hundred
		w.stray(nil)
	}
	w.reconcile(false)
	require.Equal(t, query.VerdictOrphan, verdictOf(w.reconcile(true), orphan).Verdict)

	w.e2b.Faults().Add(local.Fault{Op: "list", Skip: 1, Action: local.Status{Code: 500}})
	r := w.reconcile(false)
	require.False(t, r.Complete)
	require.Contains(t, r.Problems[0], "E2B's sandboxes")
	require.Empty(t, r.Sandboxes)
	require.True(t, w.there(orphan))
	require.Equal(t, session.Active, w.state("s1", session.Active).State, "half a list says nothing of what is not in it")

	_, err := w.js.Publish(t.Context(), "event.broken.session.state", []byte("{"))
	require.NoError(t, err)
	broken := w.stray(marks("", "broken", 1))
	r = w.reconcile(false)
	require.False(t, r.Complete)
	require.Contains(t, strings.Join(r.Problems, "\n"), "session broken")
	require.Equal(t, query.VerdictUnreadable, verdictOf(r, broken).Verdict)
	require.Equal(t, "left alone: not everything could be read", verdictOf(r, orphan).Done)
	require.True(t, w.there(orphan))
	require.True(t, w.there(broken))
}

// Two workers that are asked at once: one of them does it.
func TestReconcileOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(onDemand)
	w.worker(onDemand, func(c *worker.Config) { c.Name = "other" })
	lists := w.e2b.Faults().Count("list")
	release := w.e2b.Faults().Add(local.Fault{Op: "list", Action: local.Hang{}})
	var wg sync.WaitGroup
	first := make(chan *nats.Msg, 1)
	wg.Go(func() {
		m, err := w.nc.Request(query.Reconcile, nil, eventually)
		if err == nil {
			first <- m
		}
		close(first)
	})
	require.Eventually(t, func() bool { return w.e2b.Faults().Count("list") > lists }, eventually, tick)
	for range 8 { // by chance to either worker
		m, err := w.nc.Request(query.Reconcile, []byte(`{}`), eventually)
		require.NoError(t, err)
		require.Equal(t, query.CodeConflict, m.Header.Get("Nats-Service-Error-Code"))
	}
	release()
	m := <-first
	require.NotNil(t, m)
	require.Empty(t, m.Header.Get("Nats-Service-Error"))
	var out query.ReconcileReply
	require.NoError(t, json.Unmarshal(m.Data, &out))
	require.True(t, out.Complete)
	wg.Wait()
	w.reconcile(false)
}

// Transitions that nobody finishes, as a worker and its job leave them behind:
// all of them come to an end without another job.
func TestReconcileAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.ReconcileEvery, c.OrphanGrace = time.Second, 2*time.Second })
	past := time.Now().UTC().Add(-time.Minute)
	leave := func(id string, from session.State, to session.State) session.Record {
		rec, seq, err := w.facts.Session(t.Context(), id)
		if from != session.None {
			require.NoError(t, err)
			require.Equal(t, from, rec.State)
		}
		rec.Session, rec.State, rec.Deadline, rec.Job, rec.Worker = id, to, past, "gone", "gone"
		if from == session.None {
			rec.Generation, rec.Attempt, rec.CreatedAt = 1, "a-"+id, past
		}
		_, err = w.facts.PutSession(t.Context(), rec, seq)
		require.NoError(t, err)
		return rec
	}
	for _, id := range []string{"pausing", "slept", "resuming", "woken", "destroying", "killed", "vanished"} {
		require.Equal(t, events.Succeeded, w.follow(w.run(id, "sh", "-c", "echo kept >f")).Kind)
	}
	pause := func(id string) {
		require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: id}})).Kind)
	}
	pause("resuming")
	pause("woken")

	leave("pausing", session.Active, session.Pausing)
	require.NoError(t, w.pauseAtE2B(w.state("slept", session.Active).SandboxID))
	leave("slept", session.Active, session.Pausing)
	leave("resuming", session.Paused, session.Resuming)
	woken := leave("woken", session.Paused, session.Resuming)
	_, _, err := w.client().Connect(t.Context(), woken.SandboxID, time.Minute)
	require.NoError(t, err)
	leave("destroying", session.Active, session.Destroying)
	require.True(t, w.e2b.KillSandbox(leave("killed", session.Active, session.Destroying).SandboxID))
	require.True(t, w.e2b.KillSandbox(leave("vanished", session.Active, session.Resuming).SandboxID))
	leave("unmade", session.None, session.Provisioning)
	meta := marks("", "made", 1)
	meta["sandjet-attempt"] = "a-made"
	made := w.stray(meta)
	leave("made", session.None, session.Provisioning)

	for id, want := range map[string]session.State{
		"pausing": session.Active, "slept": session.Paused, "resuming": session.Paused, "woken": session.Active,
		"destroying": session.Destroyed, "killed": session.Destroyed, "vanished": session.Lost,
		"unmade": session.Error, "made": session.Active,
	} {
		w.state(id, want)
	}
	require.Equal(t, made, w.state("made", session.Active).SandboxID)
	for _, id := range []string{"slept", "resuming", "woken"} {
		require.Equal(t, "kept\n", string(w.follow(w.run(id, "cat", "f")).Stdout), id)
	}
}

// A session that ends with its job ends when nobody cleared up after the job.
func TestReconcileEphemeral(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.ReconcileEvery, c.OrphanGrace = time.Second, time.Second })
	require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j1"}, Argv: []string{"true"}})).Kind)
	old := w.state("j1", session.Destroyed)
	_, seq, err := w.facts.Session(t.Context(), "j1")
	require.NoError(t, err)
	// As if the worker had died between the job's end and the session's.
	again := old
	meta := marks("", "j1", 2)
	again.State, again.Generation, again.SandboxID = session.Active, 2, w.stray(meta)
	_, err = w.facts.PutSession(t.Context(), again, seq)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(w.e2b.Sandboxes()) == 0 }, eventually, tick)
	require.Equal(t, 2, w.state("j1", session.Destroyed).Generation)
}
