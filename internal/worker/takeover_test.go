package worker_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/spool"
	"github.com/sandjet/sandjet/internal/worker"
)

// lines is a command that prints n numbered lines in chunks, and counts its own
// starts in the sandbox.
func lines(n, chunks int) string {
	return fmt.Sprintf(`echo start >>starts; i=0; while [ $i -lt %d ]; do seq $((i*%d+1)) $(((i+1)*%d)); i=$((i+1)); sleep 0.05; done`,
		chunks, n/chunks, n/chunks)
}

func wantLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// until follows a job until it has shown that many bytes of stdout.
func (w *world) until(job events.Job, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*eventually)
	defer cancel()
	for ev, err := range w.facts.Follow(ctx, job, events.FollowOptions{}) {
		require.NoError(w.t, err)
		if ev.Kind == events.Stdout && ev.End() >= int64(n) {
			return
		}
	}
	w.t.Fatalf("job %s ended before %d bytes", job, n)
}

func (w *world) shell(session, line string) events.Job {
	return w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: session}, Shell: line})
}

// onceAndWhole checks what a takeover promises.
func (w *world) onceAndWhole(job events.Job, n int) ended {
	w.t.Helper()
	e := w.follow(job)
	require.Equal(w.t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(w.t, wantLines(n), string(e.Stdout))
	sum := sha256.Sum256([]byte(wantLines(n)))
	require.Equal(w.t, hex.EncodeToString(sum[:]), e.StdoutSHA256)
	require.Equal(w.t, 1, e.Attempts)
	require.Equal(w.t, 1, e.count(events.KindStarted))
	require.Equal(w.t, "start\n", string(w.follow(w.run(job.Session, "cat", "starts")).Stdout))
	return e
}

// A worker is killed in the middle of a command; the next one joins it.
func TestTakeoverAfterKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.spawn("first", "WORKER_ACK_WAIT=2s")
	job := w.shell("s1", lines(200_000, 80))
	w.until(job, 300_000)
	first.Kill()
	w.spawn("second", "WORKER_ACK_WAIT=2s")

	e := w.onceAndWhole(job, 200_000)
	require.Equal(t, 1, e.count(events.KindReattached))
	require.Equal(t, 2, e.count(events.KindClaimed))
}

// A worker is frozen for longer than AckWait and wakes as a zombie: it can
// write nothing any more.
func TestZombieWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.spawn("first", "WORKER_ACK_WAIT=2s")
	job := w.shell("s1", lines(100_000, 160))
	w.until(job, 50_000)
	first.Signal(syscall.SIGSTOP)
	w.spawn("second", "WORKER_ACK_WAIT=2s")
	require.Eventually(t, func() bool {
		h, err := w.facts.History(t.Context(), job)
		return err == nil && h.Reattached.OK()
	}, eventually, 50*time.Millisecond)
	first.Signal(syscall.SIGCONT)

	e := w.onceAndWhole(job, 100_000)
	// Every event after the second claim is under it.
	claims := 0
	var token uint64
	for _, ev := range e.Events {
		if ev.Kind == events.KindClaimed {
			claims, token = claims+1, ev.Seq
		} else if claims > 0 {
			require.Equal(t, token, ev.Token(), "%s at %d", ev.Kind, ev.Seq)
		}
	}
	require.Equal(t, 2, claims)
}

// A deploy: the worker stops in good order, its successor joins at once, and no
// attempt is spent.
func TestDeployInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.worker()
	job := w.shell("s1", lines(50_000, 50))
	w.until(job, 30_000)
	first.Stop()
	w.worker()

	e := w.onceAndWhole(job, 50_000)
	require.Equal(t, 1, e.count(events.KindInterrupted))
	require.Equal(t, 1, e.count(events.KindReattached))
}

// The command ends while nobody looks.
func TestEndedWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.worker()
	job := w.shell("s1", lines(20_000, 20))
	w.until(job, 1000)
	first.Stop()
	w.ended("s1.1." + job.ID + ".1") // by the sandbox's own word
	w.worker()
	w.onceAndWhole(job, 20_000)
}

// E2B's own timeout pauses the sandbox while no worker is there; the successor
// wakes it and the command goes on.
func TestPausedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.worker()
	job := w.shell("s1", lines(50_000, 50))
	w.until(job, 30_000)
	first.Stop()
	require.NoError(t, w.pauseAtE2B(w.state("s1", session.Active).SandboxID))
	w.worker()
	w.onceAndWhole(job, 50_000)
}

// The stream of a running command breaks, again and again.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	w.cut("start", 4)
	w.onceAndWhole(w.shell("s1", lines(50_000, 40)), 50_000)
}

// The sandbox dies under the command: a new attempt, in a new sandbox.
func TestSandboxDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	job := w.shell("s1", gate+"; echo off")
	w.until(job, len("on\n"))
	first := w.state("s1", session.Active)
	require.True(t, w.e2b.KillSandbox(first.SandboxID))
	w.until(job, len("on\non\n"))
	w.open("", "s1")

	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 2, e.Attempts)
	require.Equal(t, "on\non\noff\n", string(e.Stdout))
	require.Equal(t, 1, e.count(events.KindRetrying))
	second := w.state("s1", session.Active)
	require.Equal(t, first.Generation+1, second.Generation)
	require.NotEqual(t, first.SandboxID, second.SandboxID)
}

// The same job id is the same job, also after the server forgot its own
// memory of ids.
func TestSameIDAfterRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.worker()
	payload := func() *jobs.Run {
		return &jobs.Run{Common: jobs.Common{ID: "same", Session: "s1"}, Shell: "echo x >>runs; cat runs"}
	}
	require.Equal(t, "x\n", string(w.follow(w.publish(jobs.TaskRun, payload())).Stdout))
	r.Stop()
	w.restartNATS()
	w.worker()
	w.publish(jobs.TaskRun, payload())
	require.Equal(t, "x\n", string(w.follow(w.run("s1", "cat", "runs")).Stdout))
}

// A sandbox in which no run can begin: the attempts are spent, and the job ends.
func TestRunThatCannotBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.SandboxProvision, &jobs.Provision{Common: jobs.Common{Session: "s1"}})).Kind)
	// Where the directories of the runs belong there is a file.
	box := w.box("s1")
	require.NoError(t, box.Write(t.Context(), "/tmp/.sandjet-default", strings.NewReader("in the way"), e2b.WriteOptions{}))
	e := w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", MaxAttempts: 2}, Argv: []string{"true"}}))
	require.Equal(t, events.Dead, e.Kind)
	require.Equal(t, "transport", e.Class)
	require.Equal(t, 2, e.Attempts)
}

// A job that takes down its workers is given up, and so is its command.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var job events.Job
	for i := range 2 {
		p := w.spawn(fmt.Sprintf("w%d", i), "WORKER_ACK_WAIT=1s")
		if i == 0 {
			job = w.shell("s1", "echo begun; sleep 300")
			w.until(job, 1)
		}
		require.Eventually(t, func() bool {
			h, err := w.facts.History(t.Context(), job)
			return err == nil && h.Claimed.OK() && h.Claimed.Value.Worker == fmt.Sprintf("w%d", i)
		}, eventually, tick)
		p.Kill()
	}
	w.worker(func(c *worker.Config) { c.AckWait = time.Second })
	e := w.follow(job)
	require.Equal(t, events.Dead, e.Kind)
	require.Equal(t, "quarantined", e.Class)
	require.Empty(t, w.live("s1"))
}

// A job is cancelled while nobody has it, and Redis has forgotten the order of the lanes: a
// job that begins would wait for that. Its command runs, and is followed to its end.
func TestCancelBeforeTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.spawn("first", "WORKER_ACK_WAIT=1s")
	job := w.shell("s1", "echo begun; sleep 300")
	w.until(job, 1)
	p.Kill()
	require.NoError(t, w.facts.Cancel(t.Context(), job, events.CancelRequested{Reason: "enough"}))
	w.flushRedis()
	_, ok, err := w.view(w.redis.URL()).BeginLanes(t.Context(), "dead", 3*time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	w.worker(func(c *worker.Config) { c.AckWait = time.Second })
	e := w.follow(job)
	require.Equal(t, events.Cancelled, e.Kind)
	require.NotNil(t, e.ExitCode, "the command was not followed to its end")
	require.Equal(t, 1, e.Attempts)
	require.Empty(t, w.live("s1"))
}

// live are the runs that go on in a session's sandbox.
func (w *world) live(session string) []string {
	w.t.Helper()
	live, err := spool.Live(w.t.Context(), w.box(session))
	require.NoError(w.t, err)
	return live
}

// An attempt that fails while its command runs on: the next attempt ends that command
// before it starts its own, and the last one's is ended with the job.
func TestFailedAttemptsLeaveNothingRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	job := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", MaxAttempts: 2}, Shell: "echo begun; sleep 300"})
	for attempt := 1; attempt <= 2; attempt++ {
		require.Eventually(t, func() bool {
			h, err := w.facts.History(t.Context(), job)
			return err == nil && h.Started.Value.Attempt == attempt && h.Stdout.Offset == int64(attempt*len("begun\n"))
		}, eventually, tick)
		live := w.live("s1")
		require.Len(t, live, 1)
		require.True(t, strings.HasSuffix(live[0], fmt.Sprintf(".%d", attempt)), "%s runs in attempt %d", live[0], attempt)
		// The stream breaks, and the sandbox has no disk to join the command with.
		w.e2b.Faults().Add(local.Fault{Op: "start", Action: local.Status{Code: 507, Message: "not enough disk space"}})
		w.e2b.CutStreams()
	}
	e := w.follow(job)
	require.Equal(t, events.Dead, e.Kind)
	require.Equal(t, "internal", e.Class)
	require.Equal(t, 2, e.Attempts)
	require.Empty(t, w.live("s1"))
}
