package main

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

// world is everything outside a worker, real.
type world struct {
	t     *testing.T
	nats  *server.Server
	redis *stack.Redis
	e2b   *local.Server
	js    jetstream.JetStream
	pub   *natsx.Publisher
	facts *events.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	w.nats, err = stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { w.nats.Shutdown(); w.nats.WaitForShutdown() })
	w.redis, err = stack.StartRedis(stack.RedisOptions{})
	require.NoError(t, err)
	if os.Getenv("REQUIRE_REAL") == "1" {
		require.Equal(t, stack.RedisServer, w.redis.Kind)
	}
	t.Cleanup(func() { _ = w.redis.Stop() })
	w.e2b, err = local.Start(context.Background(), local.Config{Addr: heldAddr(t), APIKey: "e2b_right"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.e2b.Close() })

	nc, err := nats.Connect(w.nats.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	w.js, err = jetstream.New(nc)
	require.NoError(t, err)
	w.pub, err = natsx.NewPublisher(nc)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.pub.Close() })
	w.facts, err = events.Open(nc, w.pub, "", "/sandjet/test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.facts.Close() })
	return w
}

// env is a worker's environment in this world, with changes as KEY, value.
func (w *world) env(change ...string) []string {
	env := map[string]string{
		"NATS_URL": w.nats.ClientURL(), "REDIS_URL": w.redis.URL(),
		"E2B_API_URL": w.e2b.URL(), "E2B_SANDBOX_URL": w.e2b.URL(), "E2B_API_KEY": w.e2b.APIKey(),
		"WORKER_HTTP_ADDR": "off", "WORKER_START_TIMEOUT": "10m",
	}
	for pair := range slices.Chunk(change, 2) {
		env[pair[0]] = pair[1]
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// worker starts a worker and waits until it takes jobs.
func (w *world) worker(change ...string) *process {
	w.t.Helper()
	p := start(w.t, w.env(change...))
	p.says("worker takes jobs")
	return p
}

// run publishes a command.
func (w *world) run(session string, argv ...string) events.Job {
	w.t.Helper()
	got, err := jobs.NewPublisher(w.pub, "").Publish(w.t.Context(), jobs.TaskRun,
		&jobs.Run{Common: jobs.Common{Session: session}, Argv: argv}, jobs.PublishOptions{})
	require.NoError(w.t, err)
	return events.Job{Session: got.Session, ID: got.Job}
}

// follow reads a job until stop says so, or to its end.
func (w *world) follow(job events.Job, stop func(events.Event) bool) []events.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 90*time.Second)
	defer cancel()
	var all []events.Event
	for e, err := range w.facts.Follow(ctx, job, events.FollowOptions{}) {
		require.NoError(w.t, err)
		if all = append(all, e); stop(e) {
			break
		}
	}
	return all
}

func kindIs(k events.Kind) func(events.Event) bool {
	return func(e events.Event) bool { return e.Kind == k }
}
