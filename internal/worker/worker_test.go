package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
)

func TestTaskRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()

	t.Run("output and end", func(t *testing.T) {
		e := w.follow(w.run("s1", "sh", "-c", "echo out; echo err >&2; exit 3"))
		require.Equal(t, events.Failed, e.Kind)
		require.Equal(t, "command_failed", e.Class)
		require.Equal(t, 3, *e.ExitCode)
		require.Equal(t, "out\n", string(e.Stdout))
		require.Equal(t, "err\n", string(e.Stderr))
		require.Equal(t, 1, e.Attempts)
		require.Equal(t, events.KindAccepted, e.Events[0].Kind)
		require.Equal(t, 1, e.count(events.KindStarted))
	})
	t.Run("files stay in the session", func(t *testing.T) {
		require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "echo kept > f")).Kind)
		require.Equal(t, "kept\n", string(w.follow(w.run("s1", "cat", "f")).Stdout))
		require.Equal(t, session.Active, w.state("s1", session.Active).State)
		require.Len(t, w.e2b.Sandboxes(), 1)
	})
	t.Run("environment, directory, stdin", func(t *testing.T) {
		e := w.follow(w.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{Session: "s1"}, Shell: `echo "$A $(pwd)"; cat`, Env: map[string]string{"A": "b c"}, Cwd: "/tmp", Stdin: "from stdin\n",
		}))
		require.Equal(t, "b c /tmp\nfrom stdin\n", string(e.Stdout))
	})
	t.Run("ephemeral", func(t *testing.T) {
		job := w.run("", "echo", "hi")
		require.Equal(t, job.ID, job.Session)
		require.Equal(t, events.Succeeded, w.follow(job).Kind)
		w.state(job.Session, session.Destroyed)
		require.Len(t, w.e2b.Sandboxes(), 1)
	})
}
