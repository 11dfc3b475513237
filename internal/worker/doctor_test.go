package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/worker"
)

// refused starts a worker that shall not start, and returns why.
func (w *world) refused(change ...func(*worker.Config)) string {
	w.t.Helper()
	app, err := worker.New(w.config(change...), w.log)
	require.NoError(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	err = app.Run(ctx, ctx)
	require.ErrorIs(w.t, err, worker.ErrRefused)
	return err.Error()
}

// found asks the worker's doctor and returns its findings by name.
func (w *world) found() map[string]query.Finding {
	w.t.Helper()
	var reply query.DoctorReply
	w.ask(query.Doctor, struct{}{}, &reply)
	all := map[string]query.Finding{}
	for _, f := range reply.Findings {
		all[f.Name] = f
		require.True(w.t, f.Severity == query.SeverityOK || f.Advice != "", "no advice: %+v", f)
	}
	return all
}

// In production a worker does not start where an acknowledged job may be lost, and
// says so with a line for each reason.
func TestDoctorRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	evicts, err := stack.StartRedis(stack.RedisOptions{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = evicts.Stop() })
	if evicts.Kind != "redis-server" {
		t.Skip("the embedded Redis does not evict")
	}
	production := func(c *worker.Config) { c.Production, c.RedisURL = true, evicts.URL() }
	said := w.refused(production)
	require.Contains(t, said, "NATS_REPLICAS=3")
	require.Contains(t, said, "allkeys-lru")
	require.Contains(t, said, "\n", "a line for each")
	require.NotContains(t, w.refused(production, func(c *worker.Config) { c.NATSSynced = true }), "NATS_REPLICAS")

	w.worker(func(c *worker.Config) { c.Production, c.NATSSynced = true, true })
	w.worker(func(c *worker.Config) { c.RedisURL = evicts.URL() }).Stop() // a warning
}

// What a running worker finds: nothing in a deployment that is well, and each thing
// that is not.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	for name, f := range w.found() {
		require.Equal(t, query.SeverityOK, f.Severity, "%s: %+v", name, f)
	}

	s, err := w.js.Stream(t.Context(), events.StreamEvents)
	require.NoError(t, err)
	cfg := s.CachedInfo().Config
	cfg.MaxAge = time.Hour
	_, err = w.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	drift := w.found()["stream settings"]
	require.Equal(t, query.SeverityWarning, drift.Severity)
	require.Contains(t, drift.What, "EVENTS: max age 1h0m0s (should be 168h0m0s)")

	w.e2b.Faults().Add(local.Fault{Op: "list", Action: local.Status{Code: 401}})
	key := w.found()["e2b"]
	require.Equal(t, query.SeverityRefusal, key.Severity, "%+v", key)
	require.Contains(t, key.Advice, "E2B_API_KEY")
}

// A worker whose NATS user may not do all that a worker does says what is missing.
func TestDoctorMissesPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nc.Close()
	w.nats.Shutdown()
	w.nats.WaitForShutdown()
	var err error
	w.nats, err = server.NewServer(&server.Options{
		ServerName: "sandjet", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Users: []*server.User{
			{Username: "ops", Password: "x"},
			{Username: "worker", Password: "x", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Deny: []string{"dead.>"}},
				Subscribe: &server.SubjectPermission{Deny: []string{"wake.>"}},
			}},
		},
	})
	require.NoError(t, err)
	w.nats.Start()
	require.True(t, w.nats.ReadyForConnections(eventually))
	w.nc, err = nats.Connect(w.nats.ClientURL(), nats.UserInfo("ops", "x"))
	require.NoError(t, err)
	t.Cleanup(w.nc.Close)
	w.worker(func(c *worker.Config) { c.NATS.URL = "nats://worker:x@" + w.nats.Addr().String() })
	f := w.found()["nats permissions"]
	require.Equal(t, query.SeverityWarning, f.Severity)
	require.Equal(t, "not all of what a worker needs: publish dead.>, subscribe wake.>", f.What)
}
