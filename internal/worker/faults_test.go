package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

// E2B creates the sandbox, and its answer is lost: the sandbox is found by its
// attempt and adopted, and there is one.
func TestLostAnswerOnCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	w.e2b.Faults().Add(local.Fault{Op: "create", Action: local.LostAnswer{}})
	e := w.follow(w.run("s1", "echo", "hi"))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
	require.Len(t, w.e2b.Sandboxes(), 1)
	require.Equal(t, 1, w.e2b.Faults().Count("create"))
	require.Equal(t, w.e2b.Sandboxes()[0].SandboxID, w.state("s1", session.Active).SandboxID)
}

// A worker that is told to stop while E2B makes a sandbox waits for the answer and
// records it: the next worker has nothing to look for.
func TestStopWhileCreating(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.worker()
	w.e2b.Faults().Add(local.Fault{Op: "create", Action: local.Delay(time.Second)})
	job := w.run("s1", "echo", "hi")
	require.Eventually(t, func() bool { return w.e2b.Faults().Count("create") == 1 }, eventually, tick)
	first.Stop()
	made := w.state("s1", session.Active)
	w.worker(func(c *worker.Config) { c.Name = "next" })
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
	require.Equal(t, 1, w.e2b.Faults().Count("create"))
	require.Equal(t, made.SandboxID, w.state("s1", session.Active).SandboxID)
}

// A job is cancelled while it waits to go on with a resume: whoever comes next finishes it.
func TestCancelledInTheMiddleOfAResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	w.done(w.run("s1", "true"))
	w.pause("s1")
	w.e2b.Faults().Add(local.Fault{Op: "connect", Action: local.Status{Code: 503}})
	job := w.run("s1", "true")
	w.waiting(job, events.WaitBreaker)
	require.NoError(t, w.facts.Cancel(t.Context(), job, events.CancelRequested{}))
	require.Equal(t, events.Cancelled, w.follow(job).Kind)
	left := w.state("s1", session.Resuming)
	w.done(w.run("s1", "true"))
	require.True(t, time.Now().Before(left.Deadline), "it has waited for the resume to be given up")
}

// Lost answers of calls that may be repeated.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	w.follow(w.run("s1", "sh", "-c", "echo kept >f"))
	w.e2b.Faults().Add(local.Fault{Op: "pause", Action: local.LostAnswer{}})
	require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s1"}})).Kind)
	w.state("s1", session.Paused)
	w.e2b.Faults().Add(local.Fault{Op: "connect", Action: local.LostAnswer{}})
	require.Equal(t, "kept\n", string(w.follow(w.run("s1", "cat", "f")).Stdout))
	w.e2b.Faults().Add(local.Fault{Op: "kill", Action: local.LostAnswer{}})
	require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.SandboxDestroy, &jobs.Lifecycle{Common: jobs.Common{Session: "s1"}})).Kind)
	w.state("s1", session.Destroyed)
	require.Empty(t, w.e2b.Sandboxes())
}

// Both 429s and an outage make jobs wait; no attempt is spent.
func TestWaitsSpendNoAttempt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		action local.Action
		why    string
	}{
		"rate":   {local.Status{Code: 429, Message: "Rate limit exceeded", RetryAfter: time.Second}, events.WaitRate},
		"outage": {local.Status{Code: 503, ErrorCode: "sandbox_capacity_unavailable"}, events.WaitBreaker},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.worker()
			w.e2b.Faults().Add(local.Fault{Op: "create", Action: tc.action})
			e := w.follow(w.run("s1", "true"))
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			require.Equal(t, 1, e.Attempts)
			require.Equal(t, []string{tc.why}, e.waits())
			require.Len(t, w.e2b.Sandboxes(), 1)
		})
	}
}

func (e ended) waits() []string {
	var why []string
	for _, ev := range e.Events {
		var w events.Waiting
		if ev.Kind == events.KindWaiting && ev.Decode(&w) == nil {
			why = append(why, w.Why)
		}
	}
	return why
}

// The fleet's own limit: the second session waits until the first gives its
// slot back.
func TestSandboxLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.SandboxLimit = 1 })
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	job := w.run("s2", "true")
	require.Eventually(t, func() bool {
		h, err := w.facts.History(t.Context(), job)
		return err == nil && h.Waiting.OK() && h.Waiting.Value.Why == events.WaitQuota
	}, eventually, tick)
	w.publish(jobs.SandboxPause, &jobs.Lifecycle{Common: jobs.Common{Session: "s1"}})
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind)
	require.Equal(t, 1, e.Attempts)
	w.state("s1", session.Paused)
}

// A session is paused when it is idle, not while a silent command runs, and the
// next job wakes it.
func TestIdlePause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.IdleTimeout = 2 * time.Second })
	job := w.run("busy", "sh", "-c", "echo on; sleep 5; echo off")
	require.Equal(t, events.Succeeded, w.follow(w.run("idle", "sh", "-c", "echo kept >f")).Kind)
	w.until(job, 3)
	w.state("idle", session.Paused)
	busy := w.follow(job)
	require.Equal(t, "on\noff\n", string(busy.Stdout))
	require.Zero(t, busy.count(events.KindReattached))
	paused := w.state("busy", session.Paused)
	end := busy.Events[len(busy.Events)-1].Time
	require.True(t, paused.UpdatedAt.After(end), "paused before the command ended")
	w.pausedAfter(t, "busy", end)
	require.Equal(t, "kept\n", string(w.follow(w.run("idle", "cat", "f")).Stdout))
}

func TestStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.MaxAge = 2 * time.Second })
	require.Equal(t, events.Succeeded, w.follow(w.run("old", "true")).Kind)
	w.state("old", session.Destroyed)
	require.Empty(t, w.e2b.Sandboxes())
}

// Exclusive jobs of a session run one at a time, also with two workers; others run
// beside them.
func TestLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	w.worker(func(c *worker.Config) { c.Name = "other" })
	var all []events.Job
	for _, id := range ids("j", 12) {
		all = append(all, w.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{ID: id, Session: "s1"},
			Shell:  `mkdir lock || echo overlap >>log; echo ` + id + ` >>log; sleep 0.05; rmdir lock`,
		}))
	}
	beside := false
	free := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", Exclusive: &beside}, Shell: "echo beside"})
	require.Equal(t, events.Succeeded, w.follow(free).Kind)
	for _, job := range all {
		require.Equal(t, events.Succeeded, w.follow(job).Kind)
	}
	log := string(w.follow(w.run("s1", "cat", "log")).Stdout)
	require.NotContains(t, log, "overlap")
	require.ElementsMatch(t, ids("j", 12), strings.Fields(log))
}

// Jobs that a worker is handed together run in the order of their publication.
func TestLaneOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	first.Stop()
	var all []events.Job
	for _, id := range ids("j", 30) {
		all = append(all, w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: id, Session: "s1"}, Shell: "echo " + id + " >>log"}))
	}
	w.worker()
	for _, job := range all {
		require.Equal(t, events.Succeeded, w.follow(job).Kind)
	}
	log := string(w.follow(w.run("s1", "cat", "log")).Stdout)
	require.Equal(t, ids("j", 30), strings.Fields(log))
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.worker()
	cancel := func(job events.Job) {
		require.NoError(t, w.facts.Cancel(t.Context(), job, events.CancelRequested{Reason: "not needed"}))
	}
	t.Run("while it runs", func(t *testing.T) {
		job := w.shell("s1", "echo on; sleep 601 & sleep 602")
		w.until(job, 3)
		cancel(job)
		e := w.follow(job)
		require.Equal(t, events.Cancelled, e.Kind)
		require.Equal(t, "cancelled: not needed", e.Reason)
		require.Equal(t, "SIGTERM", e.Signal)
		require.Empty(t, string(w.follow(w.shell("s1", "ps -ef | grep 'sleep 60[12]' | grep -v grep || true")).Stdout))
	})
	t.Run("while it waits in the lane", func(t *testing.T) {
		first := w.shell("s1", gate)
		w.until(first, 3)
		job := w.shell("s1", "echo never")
		cancel(job)
		e := w.follow(job)
		require.Equal(t, events.Cancelled, e.Kind)
		require.Empty(t, e.Stdout)
		w.open("", "s1")
		require.Equal(t, events.Succeeded, w.follow(first).Kind)
	})
	t.Run("while it is delayed", func(t *testing.T) {
		job := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", RunAfter: time.Now().Add(time.Hour)}, Argv: []string{"true"}})
		require.Eventually(t, func() bool {
			h, err := w.facts.History(t.Context(), job)
			return err == nil && h.Waiting.OK()
		}, eventually, tick)
		cancel(job)
		require.Equal(t, events.Cancelled, w.follow(job).Kind)
	})
	t.Run("before anybody took it", func(t *testing.T) {
		r.Stop()
		job := w.run("s1", "echo", "never")
		cancel(job)
		w.worker()
		e := w.follow(job)
		require.Equal(t, events.Cancelled, e.Kind)
		require.Zero(t, e.count(events.KindStarted))
	})
	t.Run("across a takeover", func(t *testing.T) {
		r := w.worker()
		job := w.shell("s2", "echo on; sleep 603")
		w.until(job, 3)
		r.Stop()
		cancel(job)
		w.worker()
		require.Equal(t, events.Cancelled, w.follow(job).Kind)
	})
}

func TestLimitsOfACommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.SpoolCap = 1000 })
	run := func(p jobs.Run) ended {
		p.Session = "s1"
		return w.follow(w.publish(jobs.TaskRun, &p))
	}
	e := run(jobs.Run{Argv: []string{"sleep", "600"}, Timeout: durationOf(time.Second)})
	require.Equal(t, "command_timeout", e.Class)
	e = run(jobs.Run{Shell: "echo on; sleep 600", SilentTimeout: durationOf(time.Second)})
	require.Equal(t, "silent_timeout", e.Class)
	e = run(jobs.Run{Argv: []string{"true"}, Cwd: "/nope"})
	require.Equal(t, events.Dead, e.Kind)
	require.Equal(t, "/cwd", e.Pointer)
	e = run(jobs.Run{Argv: []string{"true"}, User: "nobody-here"})
	require.Equal(t, "/user", e.Pointer)
	e = run(jobs.Run{Shell: "yes 0123456789 | head -n 5000; sleep 1.5"})
	require.EqualValues(t, 1000, e.StdoutBytes)
	require.EqualValues(t, 55_000-1000, e.StdoutDropped)
	e = run(jobs.Run{Shell: `echo try >>tries; [ $(wc -l <tries) -ge 2 ] || exit 75; cat tries`, RetryOnExit: []int{75}})
	require.Equal(t, events.Succeeded, e.Kind)
	require.Equal(t, 2, e.Attempts)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	data := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	_, err = bucket.PutString(t.Context(), "in", data)
	require.NoError(t, err)

	up := w.follow(w.publish(jobs.FileUpload, &jobs.File{Common: jobs.Common{Session: "s1"}, Object: "in", Path: "dir/f", Mode: "0640"}))
	require.Equal(t, events.Succeeded, up.Kind, "%+v", up.Outcome)
	require.EqualValues(t, len(data), up.ObjectBytes)
	require.Equal(t, "640\n", string(w.follow(w.run("s1", "stat", "-c", "%a", "dir/f")).Stdout))
	down := w.follow(w.publish(jobs.FileDownload, &jobs.File{Common: jobs.Common{Session: "s1"}, Object: "out", Path: "dir/f"}))
	require.Equal(t, events.Succeeded, down.Kind, "%+v", down.Outcome)
	require.Equal(t, up.ObjectSHA, down.ObjectSHA)
	got, err := bucket.GetString(t.Context(), "out")
	require.NoError(t, err)
	require.True(t, got == data)

	none := w.follow(w.publish(jobs.FileUpload, &jobs.File{Common: jobs.Common{Session: "s1"}, Object: "none", Path: "f"}))
	require.Equal(t, "not_found", none.Class)
	require.Equal(t, "/object", none.Pointer)

	// Once the object is there the dead letter goes back to work, as a job of its
	// own.
	_, err = bucket.PutString(t.Context(), "none", "late")
	require.NoError(t, err)
	var again query.DeadReplayReply
	w.ask(query.DeadReplay, query.DeadRequest{Seq: w.ask1Dead().Seq}, &again)
	require.Equal(t, events.Succeeded, w.follow(events.Job{Session: "s1", ID: again.Job}).Kind)
	require.Equal(t, "late", string(w.follow(w.run("s1", "cat", "f")).Stdout))
}

// What is no job ends as a dead letter with the reason, and its followers hear
// of it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	for name, tc := range map[string]struct{ subject, body, pointer, reason string }{
		"unknown field": {"task.run", `{"id":"bad1","session":"s1","argv":["true"],"tiemout":"5s"}`, "/tiemout", "timeout"},
		"bad duration":  {"task.run", `{"id":"bad2","session":"s1","argv":["true"],"timeout":"-5s"}`, "/timeout", "duration"},
		"no command":    {"task.run", `{"id":"bad3","session":"s1"}`, "", "argv"},
		"secrets":       {"task.run", `{"id":"bad4","session":"s1","argv":["true"],"secrets":{"A":"b c"}}`, "/secrets/A", "want"},
		"bad path":      {"file.upload", `{"id":"bad5","session":"s1","object":"o","path":"../../x"}`, "/path", ""},
		"unknown kind":  {"task.fly", `{"id":"bad7","session":"s1"}`, "", "task.fly"},
		"git":           {"git.clone", `{"id":"bad6","session":"s1","repo":{"url":"ext::sh -c id"}}`, "/repo/url", ""},
		"option ref":    {"git.clone", `{"id":"bad8","session":"s1","repo":{"url":"https://h/a/b","ref":"--upload-pack=id"}}`, "/repo/ref", "dash"},
		"option branch": {"git.clone", `{"id":"bad9","session":"s1","repo":{"url":"https://h/a/b","branch":"-dmain"}}`, "/repo/branch", "dash"},
		"option base":   {"git.publish", `{"id":"bada","session":"s1","repo":{"url":"https://h/a/b","commit":{"type":"feat","subject":"x"},"push":true,"pull_request":{"base":"--all"}}}`, "/repo/pull_request/base", "dash"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, w.nc.Publish(tc.subject, []byte(tc.body)))
			_, id, _ := strings.Cut(tc.body, `"id":"`)
			e := w.follow(events.Job{Session: "s1", ID: id[:len("bad1")]})
			require.Equal(t, events.Dead, e.Kind)
			require.Equal(t, tc.pointer, e.Pointer, e.Reason)
			require.Contains(t, e.Reason, tc.reason)
		})
	}
	t.Run("malformed", func(t *testing.T) {
		msg := nats.NewMsg("task.run")
		msg.Data = []byte(`{"id":"x","session":`)
		msg.Header.Set("Nats-Msg-Id", "torn")
		require.NoError(t, w.nc.PublishMsg(msg))
		e := w.follow(events.Job{Session: "torn", ID: "torn"})
		require.Equal(t, events.Dead, e.Kind)
		require.Contains(t, e.Reason, "JSON")
	})
	// The worker goes on.
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	own := func(owner string) events.Job {
		got, err := w.jobs.Publish(t.Context(), jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "mine"}, Argv: []string{"true"}}, jobs.PublishOptions{Owner: owner})
		require.NoError(t, err)
		return events.Job{Session: got.Session, ID: got.Job}
	}
	require.Equal(t, events.Succeeded, w.follow(own("agent-7")).Kind)
	for _, stranger := range []string{"agent-8", ""} {
		e := w.follow(own(stranger))
		require.Equal(t, events.Dead, e.Kind)
		require.Equal(t, "not_found", e.Class)
	}
}

func TestUnique(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	pub := func(id string) events.Job {
		return w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: id, Session: id, Unique: "key"}, Shell: gate})
	}
	first := pub("a")
	w.until(first, 3)
	require.Equal(t, "duplicate", w.follow(pub("b")).Class)
	w.open("", "a")
	require.Equal(t, events.Succeeded, w.follow(first).Kind)
	last := pub("c")
	w.until(last, 3)
	w.open("", "c")
	require.Equal(t, events.Succeeded, w.follow(last).Kind)
}

// Redis is wiped while a session is idle: its clock is set again from the stream.
func TestRedisWipedWhileIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.IdleTimeout = 3 * time.Second })
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	w.flushRedis()
	w.state("s1", session.Paused)
	var list query.SessionListReply
	w.ask(query.SessionList, query.SessionListRequest{}, &list)
	require.Len(t, list.Sessions, 1)
}

// Redis is wiped while a command runs and others wait behind it.
func TestRedisWiped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.AckWait = 3 * time.Second })
	first := w.shell("s1", lines(30_000, 60))
	w.until(first, 10_000)
	second := w.shell("s1", "echo after >>starts")
	w.flushRedis()
	w.onceAndWhole2(first, 30_000)
	require.Equal(t, events.Succeeded, w.follow(second).Kind)
	require.Equal(t, "start\nafter\n", string(w.follow(w.run("s1", "cat", "starts")).Stdout))
}
