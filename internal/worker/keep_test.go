package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
)

// E2B's own timeout never comes before the session's idle time is over, also when
// the session is only ever used for moments, and grows with a changed idle time.
func TestTimeoutIsPushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	require.Zero(t, w.e2b.Faults().Count("timeout"), "a fresh sandbox has time enough")

	longer := w.follow(w.publish(jobs.SandboxProvision, &jobs.Provision{
		Common: jobs.Common{Session: "s1"}, IdleTimeout: durationOf(time.Hour),
	}))
	require.Equal(t, events.Succeeded, longer.Kind)
	require.Equal(t, time.Hour, w.state("s1", session.Active).IdleTimeout.D())
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	require.Eventually(t, func() bool {
		left := time.Until(w.e2b.Sandboxes()[0].EndAt)
		return left > time.Hour
	}, eventually, tick)
}
