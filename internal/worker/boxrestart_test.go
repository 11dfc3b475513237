package worker_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

// The sandbox server starts again on its data: what was in memory is gone, as
// after a power cut. A paused session comes back from its disk with all its work;
// a command that ran is known to be lost, and its job spends an attempt.
func TestSandboxServerRestarts(t *testing.T) {
	t.Parallel()
	var cfg local.Config
	w := newWorld(t, func(c *local.Config) {
		c.DataDir = t.TempDir()
		cfg = *c
	})
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("asleep", "sh", "-c", "echo kept >f")).Kind)
	paused := w.pause("asleep")
	require.NotEmpty(t, paused.Canary)
	const twice = `echo start >>starts; if [ "$(wc -l <starts)" = 1 ]; then echo begun; sleep 1000; fi; echo "run $(wc -l <starts)"`
	job := w.run("awake", "sh", "-c", twice)
	w.until(job, len("begun\n"))
	before := w.state("awake", session.Active)

	cfg.Addr = strings.TrimPrefix(w.e2b.URL(), "http://")
	require.NoError(t, w.e2b.Close())
	var err error
	w.e2b, err = local.Start(t.Context(), cfg)
	require.NoError(t, err)

	e := w.follow(w.run("asleep", "cat", "f"))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, "kept\n", string(e.Stdout))
	require.Equal(t, 1, e.Attempts)
	now := w.state("asleep", session.Active)
	require.Equal(t, paused.SandboxID, now.SandboxID)
	require.Equal(t, paused.Generation, now.Generation, "no work is lost, so the session is not")

	e = w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 2, e.Attempts, "nobody can say what the first one did")
	require.Contains(t, string(e.Stdout), "run 2\n", "in the same home")
	require.Equal(t, before.SandboxID, w.state("awake", session.Active).SandboxID)
}
