package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/worker"
)

// asker is somebody who publishes: with an owner in the subject, in the body, or neither.
type asker struct{ name, subject, body string }

var (
	theOwner  = asker{"the owner", "agent-7", ""}
	strangers = []asker{
		{"a proven stranger", "evil", "agent-7"},
		{"a stranger by body", "", "agent-7"},
		{"nobody", "", ""},
	}
)

// ofKind makes a job of each kind. One that is missing here fails the tests below.
func (g *gitWorld) ofKind() map[jobs.Kind]func(jobs.Common) jobs.Payload {
	life := func(c jobs.Common) jobs.Payload { return &jobs.Lifecycle{Common: c} }
	repo := func(c jobs.Common) jobs.Payload {
		return &jobs.Git{Common: c, Repo: &jobs.Repo{URL: g.url, Commit: &jobs.Commit{Type: "feat", Subject: "say more"}}}
	}
	return map[jobs.Kind]func(jobs.Common) jobs.Payload{
		jobs.SandboxProvision: func(c jobs.Common) jobs.Payload {
			return &jobs.Provision{Common: c, IdleTimeout: durationOf(time.Hour), MaxAge: durationOf(time.Hour)}
		},
		jobs.SandboxResume:  life,
		jobs.SandboxPause:   life,
		jobs.SandboxDestroy: life,
		jobs.TaskRun:        func(c jobs.Common) jobs.Payload { return &jobs.Run{Common: c, Argv: []string{"touch", "was-here"}} },
		jobs.FileUpload:     func(c jobs.Common) jobs.Payload { return &jobs.File{Common: c, Object: "o", Path: "was-here"} },
		jobs.FileDownload:   func(c jobs.Common) jobs.Payload { return &jobs.File{Common: c, Object: "p", Path: "secret.txt"} },
		jobs.GitClone:       repo,
		jobs.GitPublish:     repo,
	}
}

func (w *world) as(a asker, kind jobs.Kind, make func(jobs.Common) jobs.Payload, c jobs.Common) ended {
	w.t.Helper()
	c.Owner = a.body
	return w.follow(w.publishAs(a.subject, kind, make(c)))
}

// traces is all that Redis holds of a session under its own keys, and its deadlines.
func (w *world) traces(id string) string {
	w.t.Helper()
	opt, err := redis.ParseURL(w.redis.URL())
	require.NoError(w.t, err)
	c := redis.NewClient(opt)
	defer c.Close()
	var out strings.Builder
	for _, part := range []string{"rec", "lane", "jobs", "pause", "idle"} {
		key := "sandjet:{" + id + "}:" + part
		value, err := c.Dump(w.t.Context(), key).Result()
		if !errors.Is(err, redis.Nil) {
			require.NoError(w.t, err)
		}
		fmt.Fprintf(&out, "%s %x\n", key, value)
	}
	for _, key := range []string{"due:idle", "due:stale", "slots", "slots:leaving"} {
		at, err := c.ZScore(w.t.Context(), "sandjet:{g}:"+key, id).Result()
		if !errors.Is(err, redis.Nil) {
			require.NoError(w.t, err)
		}
		if key == "slots" {
			at = min(at, 1) // the watch extends it
		}
		fmt.Fprintf(&out, "%s %f\n", key, at)
	}
	return out.String()
}

// A session whose owner was proven is for jobs whose subject proves him again. All
// others are told what they are told of a session that is not there, and leave no trace
// in it.
func TestSessionsAreTheirOwners(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	r := g.recorder()
	g.worker(r.through, g.with())
	bucket, err := g.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	_, err = bucket.PutString(t.Context(), "o", "text")
	require.NoError(t, err)
	mark := g.view(g.redis.URL())
	kinds := g.ofKind()

	for _, from := range []session.State{session.Active, session.Paused, session.Destroyed} {
		id := "of-agent-7-" + string(from)
		e := g.as(theOwner, jobs.TaskRun, func(c jobs.Common) jobs.Payload {
			return &jobs.Run{Common: c, Shell: "echo mine >secret.txt"}
		}, jobs.Common{Session: id})
		require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		switch from {
		case session.Paused:
			require.Equal(t, events.Succeeded, g.as(theOwner, jobs.SandboxPause, kinds[jobs.SandboxPause], jobs.Common{Session: id}).Kind)
		case session.Destroyed:
			require.Equal(t, events.Succeeded, g.as(theOwner, jobs.SandboxDestroy, kinds[jobs.SandboxDestroy], jobs.Common{Session: id}).Kind)
		default:
			_, err := mark.MarkLeaving(t.Context(), id, time.Hour)
			require.NoError(t, err)
		}
		rec := g.state(id, from)
		require.Equal(t, "agent-7", rec.Owner)
		require.True(t, rec.OwnerProven)
		_, seq, err := g.facts.Session(t.Context(), id)
		require.NoError(t, err)
		var before string
		if from != session.Destroyed { // whose deadlines are gone
			require.Eventually(t, func() bool { // its last job clears up after its end
				before = g.traces(id)
				return strings.Contains(before, "{"+id+"}:jobs \n")
			}, eventually, tick)
		}
		asked := len(r.of("POST", "")) + len(r.of("DELETE", ""))

		for _, kind := range jobs.Kinds() {
			payload, ok := kinds[kind]
			require.True(t, ok, "kind %s has no row", kind)
			for _, who := range strangers {
				what := fmt.Sprintf("%s by %s, session %s", kind, who.name, from)
				e := g.as(who, kind, payload, jobs.Common{Session: id})
				require.Equal(t, events.Dead, e.Kind, "%s: %+v", what, e.Outcome)
				require.Equal(t, "not_found", e.Class, what)
				require.Contains(t, e.Reason, "session "+id+" is not found", what)
				require.Empty(t, e.Pointer, what)
				require.Zero(t, e.count(events.KindWaiting), what)
				if _, life := payload(jobs.Common{}).(*jobs.Lifecycle); life {
					none := g.as(who, kind, payload, jobs.Common{Session: "not-there"})
					require.Equal(t, strings.ReplaceAll(none.Reason, "not-there", id), e.Reason, what)
					require.Equal(t, []any{none.Class, none.Pointer, none.kinds()}, []any{e.Class, e.Pointer, e.kinds()}, what)
				}
			}
		}
		// Who labels a job as the workers do learns and changes no more.
		for _, labels := range []map[string]string{{worker.IdleLabel: "true"}, {worker.IdleLabel: "true", worker.RoomLabel: "1"}} {
			for _, who := range strangers {
				e := g.as(who, jobs.SandboxPause, kinds[jobs.SandboxPause], jobs.Common{Session: id, Labels: labels})
				none := g.as(who, jobs.SandboxPause, kinds[jobs.SandboxPause], jobs.Common{Session: "not-there", Labels: labels})
				require.Equal(t, []any{none.Kind, none.Class, none.Reason, none.kinds()}, []any{e.Kind, e.Class, e.Reason, e.kinds()}, who.name)
			}
		}
		_, after, err := g.facts.Session(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, seq, after, "the record of a session was written for a stranger")
		if before != "" {
			require.Equal(t, before, g.traces(id), "a stranger has left a trace in Redis")
		}
		require.Equal(t, asked, len(r.of("POST", ""))+len(r.of("DELETE", "")), "E2B was asked for a stranger")
	}

	// The owner gets what he asks for, of every kind.
	for _, kind := range jobs.Kinds() {
		id := "works-" + strings.ReplaceAll(string(kind), ".", "-")
		require.Equal(t, events.Succeeded, g.as(theOwner, jobs.TaskRun, func(c jobs.Common) jobs.Payload {
			return &jobs.Run{Common: c, Shell: "echo mine >secret.txt"}
		}, jobs.Common{Session: id}).Kind)
		if kind == jobs.GitPublish {
			require.Equal(t, events.Succeeded, g.as(theOwner, jobs.GitClone, kinds[jobs.GitClone], jobs.Common{Session: id}).Kind)
		}
		e := g.as(theOwner, kind, kinds[kind], jobs.Common{Session: id})
		require.Equal(t, events.Succeeded, e.Kind, "%s: %+v", kind, e.Outcome)
	}
}

// A session that nobody proved to own is used as before: by who names the same owner, and
// where there is none by everybody. Made anew by a proven owner it is his alone.
func TestOwnerComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	run := func(a asker, id string) ended {
		return w.as(a, jobs.TaskRun, func(c jobs.Common) jobs.Payload { return &jobs.Run{Common: c, Argv: []string{"true"}} }, jobs.Common{Session: id})
	}
	byBody, nobody := strangers[1], strangers[2]
	require.Equal(t, events.Succeeded, run(nobody, "open").Kind)
	require.Equal(t, events.Succeeded, run(byBody, "open").Kind)
	require.Equal(t, events.Succeeded, run(byBody, "named").Kind)
	rec := w.state("named", session.Active)
	require.Equal(t, "agent-7", rec.Owner)
	require.False(t, rec.OwnerProven)
	require.Equal(t, events.Succeeded, run(theOwner, "named").Kind)
	require.Equal(t, "not_found", run(nobody, "named").Class)
	require.False(t, w.state("named", session.Active).OwnerProven, "a session changes hands only when it is made")

	// A job waits in the lane while the session is destroyed and made anew by another.
	hold := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "open", MaxAttempts: 10}, Shell: "echo up; while ! [ -e go ]; do sleep 0.05; done"})
	w.until(hold, 1)
	exclusive := false
	late := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "late", Session: "open"}, Argv: []string{"true"}})
	require.Eventually(t, func() bool { return w.history(late).Waiting.OK() }, eventually, tick)
	for range 5 { // the job that is cut short may be quicker, and make it anew itself
		require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.SandboxDestroy, &jobs.Lifecycle{Common: jobs.Common{Session: "open", Exclusive: &exclusive}})).Kind)
		e := w.as(theOwner, jobs.SandboxProvision, func(c jobs.Common) jobs.Payload { return &jobs.Provision{Common: c} }, jobs.Common{Session: "open", Exclusive: &exclusive})
		require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		if w.state("open", session.Active).OwnerProven {
			break
		}
	}
	require.True(t, w.state("open", session.Active).OwnerProven)
	for _, job := range []events.Job{hold, late} {
		e := w.follow(job)
		require.Contains(t, []string{"not_found", "sandbox_lost"}, e.Class, "%+v", e.Outcome)
	}
	require.Equal(t, "not_found", w.follow(late).Class)
	require.Equal(t, events.Succeeded, run(theOwner, "open").Kind)
}

// history reads a job's.
func (w *world) history(job events.Job) events.History {
	w.t.Helper()
	h, err := w.facts.History(w.t.Context(), job)
	require.NoError(w.t, err)
	return h
}

// A stranger does not wait for a session that is busy, nor does he hold its lane: also
// when Redis has just been wiped and cannot say whose it is.
func TestStrangersDoNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(withSecrets(), func(c *worker.Config) { c.SecretsDir = t.TempDir(); empty(t, c.SecretsDir) })
	run := func(c jobs.Common) jobs.Payload { return &jobs.Run{Common: c, Argv: []string{"true"}} }
	hold := w.publishAs("agent-7", jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1"}, Shell: "echo up; while ! [ -e go ]; do sleep 0.05; done"})
	w.until(hold, 1)
	for _, wiped := range []bool{false, true} {
		if wiped {
			w.flushRedis()
		}
		for _, who := range strangers {
			for _, alone := range []bool{true, false} {
				e := w.as(who, jobs.TaskRun, run, jobs.Common{Session: "s1", Exclusive: &alone})
				require.Equal(t, "not_found", e.Class, "%s: %+v", who.name, e.Outcome)
				require.Zero(t, e.count(events.KindWaiting), who.name)
			}
		}
	}
	require.False(t, w.history(hold).Ended())
	// One that waits for something else is not waited for.
	rests := w.publishAs("evil", jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1"}, Argv: []string{"true"}, Secrets: map[string]string{"T": "empty"}})
	require.Eventually(t, func() bool { return w.history(rests).Waiting.OK() }, eventually, tick)
	next := w.publishAs("agent-7", jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1"}, Argv: []string{"true"}})
	require.Equal(t, events.Succeeded, w.follow(w.publishAs("agent-7", jobs.FileUpload, w.uploadOf("go", "s1"))).Kind)
	require.Equal(t, events.Succeeded, w.follow(hold).Kind)
	require.Equal(t, events.Succeeded, w.follow(next).Kind)
	require.False(t, w.history(rests).Ended())
}

// empty puts an empty secret into a directory: who wants it waits.
func empty(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
}

// uploadOf makes an upload that does not wait for its turn.
func (w *world) uploadOf(path, id string) *jobs.File {
	w.t.Helper()
	bucket, err := w.js.ObjectStore(w.t.Context(), events.BucketArtifact)
	require.NoError(w.t, err)
	_, err = bucket.PutString(w.t.Context(), "go", "go")
	require.NoError(w.t, err)
	return &jobs.File{Common: jobs.Common{Session: id, Exclusive: new(bool)}, Object: "go", Path: path}
}

// What a subject proved is kept by a dead letter and its replay.
func TestReplayKeepsTheProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	run := func(c jobs.Common) jobs.Payload { return &jobs.Run{Common: c, Argv: []string{"true"}} }
	require.Equal(t, events.Succeeded, w.as(theOwner, jobs.TaskRun, run, jobs.Common{Session: "s1"}).Kind)
	for _, who := range append([]asker{theOwner}, strangers...) {
		bad := func(c jobs.Common) jobs.Payload {
			return &jobs.Run{Common: c, Argv: []string{"true"}, Cwd: "/not/there"}
		}
		e := w.as(who, jobs.TaskRun, bad, jobs.Common{Session: "s1"})
		require.Equal(t, events.Dead, e.Kind)
		var again query.DeadReplayReply
		w.ask(query.DeadReplay, query.DeadRequest{Seq: w.ask1Dead().Seq}, &again)
		e = w.follow(events.Job{Session: "s1", ID: again.Job})
		want := "not_found"
		if who == theOwner {
			want = "invalid" // it gets as far as the directory
		}
		require.Equal(t, want, e.Class, "%s: %+v", who.name, e.Outcome)
		w.ask(query.DeadDiscard, query.DeadRequest{Seq: w.ask1Dead().Seq}, &query.DeadDiscardReply{})
	}
}

// A session that ends with its job is its owner's while it lasts, and ends; one that is
// left over is ended by the reconciliation.
func TestEphemeralSessionsAreTheirOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	hold := w.publishAs("agent-7", jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "alone"}, Shell: "echo up; while ! [ -e go ]; do sleep 0.05; done"})
	w.until(hold, 1)
	require.True(t, w.state("alone", session.Active).OwnerProven)
	for _, who := range strangers {
		for _, c := range []jobs.Common{{Session: "alone"}, {Session: "alone", Exclusive: new(bool)}} {
			e := w.as(who, jobs.SandboxDestroy, func(c jobs.Common) jobs.Payload { return &jobs.Lifecycle{Common: c} }, c)
			require.Equal(t, "not_found", e.Class, who.name)
		}
	}
	require.Equal(t, events.Succeeded, w.follow(w.publishAs("agent-7", jobs.FileUpload, w.uploadOf("go", "alone"))).Kind)
	require.Equal(t, events.Succeeded, w.follow(hold).Kind)
	w.state("alone", session.Destroyed)
}

// An owner's unique keys are his own: nobody else blocks them, or is told who holds them.
// What names an owner in its body alone has the keys of nobody.
func TestUniqueKeysAreTheirOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	run := func(c jobs.Common) jobs.Payload {
		c.Unique = "nightly"
		return &jobs.Run{Common: c, Shell: "echo up; while ! [ -e go ]; do sleep 0.05; done"}
	}
	quick := func(c jobs.Common) jobs.Payload {
		c.Unique = "nightly"
		return &jobs.Run{Common: c, Argv: []string{"true"}}
	}
	all := append([]asker{theOwner}, strangers...)
	held := map[string]events.Job{}
	hold := func(a asker, id string) events.Job {
		return w.publishAs(a.subject, jobs.TaskRun, run(jobs.Common{ID: id, Session: id, Owner: a.body}))
	}
	// Those of nobody share one key; the last of all holds it.
	for i, a := range all {
		if a.name == "a stranger by body" {
			continue
		}
		held[a.subject] = hold(a, fmt.Sprintf("h%d", i))
		w.until(held[a.subject], 1)
	}
	for _, a := range all {
		e := w.as(a, jobs.TaskRun, quick, jobs.Common{})
		require.Equal(t, "duplicate", e.Class, "%s: %+v", a.name, e.Outcome)
		require.Equal(t, fmt.Sprintf("job %s is alive under the key %q", held[a.subject], "nightly"), e.Reason, a.name)
	}
	// Whose job has ended may have the next one, and he alone.
	job := held["agent-7"]
	require.Equal(t, events.Succeeded, w.follow(w.publishAs("agent-7", jobs.FileUpload, w.uploadOf("go", job.Session))).Kind)
	require.Equal(t, events.Succeeded, w.follow(job).Kind)
	for _, a := range all {
		e := w.as(a, jobs.TaskRun, quick, jobs.Common{})
		if a == theOwner {
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		} else {
			require.Equal(t, "duplicate", e.Class, a.name)
		}
	}
}

// An id that another owner's job has in a session is taken, but the job is not lost: its
// owner finds it on his shelf and replays it under another id. A stranger to the session is
// told the same as with an id that is free.
func TestTakenIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	run := func(id, session string) jobs.Payload {
		return &jobs.Run{Common: jobs.Common{ID: id, Session: session}, Argv: []string{"true"}}
	}
	shelf := func(who string, n int) []query.DeadLetter {
		var list query.DeadListReply
		require.Eventually(t, func() bool {
			list = query.DeadListReply{}
			w.ask(query.DeadList+"."+who, query.DeadListRequest{}, &list)
			return len(list.Letters) == n
		}, eventually, tick, "%s has not %d letters", who, n)
		return list.Letters
	}
	require.Equal(t, events.Succeeded, w.follow(w.publishAs("agent-7", jobs.TaskRun, run("mine", "s7"))).Kind)

	// A stranger was there first.
	his := w.publishAs("evil", jobs.TaskRun, run("j1", "s7"))
	require.Equal(t, "not_found", w.follow(his).Class)
	before := w.history(his)
	require.Equal(t, "evil", before.Claimed.Value.Owner)
	w.publishAs("agent-7", jobs.TaskRun, run("j1", "s7"))
	l := shelf("agent-7", 1)[0]
	require.Equal(t, "duplicate", l.Class)
	require.Equal(t, "session s7 has a job j1 of another owner: publish it with another id, as a replay of this letter does", l.Reason)
	require.Equal(t, before, w.history(his), "something was written to another's job")
	var again query.DeadReplayReply
	w.ask(query.DeadReplay+".agent-7", query.DeadRequest{Seq: l.Seq}, &again)
	require.Equal(t, events.Succeeded, w.follow(events.Job{Session: "s7", ID: again.Job}).Kind)
	shelf("agent-7", 0)

	// The owner was there first: of jobs that run and that have ended.
	hold := w.publishAs("agent-7", jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "runs", Session: "s7"}, Shell: "echo up; while ! [ -e go ]; do sleep 0.05; done"})
	w.until(hold, 1)
	for _, who := range []string{"evil", "eve"} {
		w.publishAs(who, jobs.TaskRun, run("runs", "s7"))
		w.publishAs(who, jobs.TaskRun, run("mine", "s7"))
		w.follow(w.publishAs(who, jobs.TaskRun, run("free-"+who, "s7")))
	}
	w.publishAs("eve", jobs.TaskRun, run("runs", "s7"))
	free := func(letters []query.DeadLetter) (words []string) {
		for _, l := range letters {
			words = append(words, fmt.Sprint(l.Class, l.Attempts, l.Reason))
		}
		slices.Sort(words)
		return slices.Compact(words)
	}
	require.Len(t, free(shelf("eve", 4)), 1, "%v", shelf("eve", 4))
	require.Len(t, free(shelf("evil", 4)), 1)
	require.Equal(t, free(shelf("eve", 4)), free(shelf("evil", 4)))
	require.False(t, w.history(hold).Ended())

	// The same job once more is the same job.
	w.publishAs("agent-7", jobs.TaskRun, run("mine", "s7"))
	require.Equal(t, events.Succeeded, w.follow(w.publishAs("agent-7", jobs.FileUpload, w.uploadOf("go", "s7"))).Kind)
	require.Equal(t, events.Succeeded, w.follow(hold).Kind)
	w.follow(w.publishAs("agent-7", jobs.TaskRun, run("last", "s7")))
	shelf("agent-7", 0)
}

// An owner's jobs are listed for him, and again when Redis was wiped; those that only a
// body says are his are not.
func TestOwnersJobsListedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	run := func(c jobs.Common) jobs.Payload { return &jobs.Run{Common: c, Argv: []string{"true"}} }
	for i, a := range append([]asker{theOwner, theOwner}, strangers...) {
		w.as(a, jobs.TaskRun, run, jobs.Common{ID: fmt.Sprintf("j%d", i), Session: fmt.Sprintf("s%d", i)})
	}
	list := func(who string) (ids []string) {
		var reply query.JobListReply
		w.ask(query.JobList+"."+who, query.JobListRequest{}, &reply)
		for _, j := range reply.Jobs {
			ids = append(ids, j.Job)
		}
		return ids
	}
	both := func() bool { return fmt.Sprint(list("agent-7"), list("evil")) == "[j1 j0] [j2]" }
	require.Eventually(t, both, eventually, tick, "not all are listed")
	w.flushRedis()
	view := w.view(w.redis.URL())
	require.Eventually(t, func() bool {
		g, err := view.Generation(t.Context())
		return err == nil && g.Listed
	}, eventually, tick, "the jobs are not listed again")
	require.True(t, both(), "%s %s", list("agent-7"), list("evil"))
}

// Redis comes back from the stream with what was proven.
func TestRebuiltViewKnowsTheProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	run := func(c jobs.Common) jobs.Payload { return &jobs.Run{Common: c, Argv: []string{"true"}} }
	require.Equal(t, events.Succeeded, w.as(theOwner, jobs.TaskRun, run, jobs.Common{Session: "s1"}).Kind)
	w.flushRedis()
	w.filled(w.redis.URL())
	view := w.view(w.redis.URL())
	require.Eventually(t, func() bool {
		rec, _, err := view.Session(context.WithoutCancel(t.Context()), "s1")
		return err == nil && rec.OwnerProven && rec.Owner == "agent-7"
	}, eventually, tick)
	_, err := view.Enter(t.Context(), store.Entry{Session: "s1", Job: "x", Origin: 1, Exclusive: true}, time.Minute)
	require.ErrorIs(t, err, store.ErrStranger)
}
