package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/worker"
)

// whole is a real worker with all its guarantees, in this process.
type whole struct{ *world }

func newWhole(w *world) *whole {
	w.grownUp()
	env := map[string]string{
		"NATS_URL": w.nats.addr, "REDIS_URL": w.redis.URL(),
		"E2B_API_URL": w.e2b.addr, "E2B_SANDBOX_URL": w.e2b.addr, "E2B_API_KEY": "e2b_bench",
		"WORKER_HTTP_ADDR": "off", "WORKER_START_TIMEOUT": "1m", "WORKER_IDLE_TIMEOUT": "1h",
	}
	cfg, err := worker.ConfigFromEnv(func(k string) string { return env[k] })
	require.NoError(w, err)
	cfg.Concurrency = slots
	app, err := worker.New(cfg, quiet())
	require.NoError(w, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, context.Background()) }()
	select {
	case <-app.Ready():
	case err := <-done:
		stop()
		w.Fatalf("worker did not start: %v", err)
	}
	w.Cleanup(func() { stop(); require.NoError(w, <-done) })

	// Every session has its sandbox before anything is measured.
	w.fill(string(jobs.SandboxProvision), sessionCount, `"labels":{"pad":"%"}`)
	require.Equal(w, "ok", w.nats.ask("drained "+jobs.StreamJobs))
	return &whole{w}
}

// grownUp makes Redis look as if it had been up for an hour: in the first half
// minute after a wipe every job asks the streams who runs.
func (w *world) grownUp() {
	c := redis.NewClient(&redis.Options{Addr: w.redis.Addr})
	defer func() { _ = c.Close() }()
	born := time.Now().Add(-time.Hour).UnixMilli()
	require.NoError(w, c.Set(w.Context(), "sandjet:{g}:generation", fmt.Sprintf("bench %d", born), 0).Err())
}

// run works off n jobs of a kind. They are all in the queue before the worker
// gets the first.
func (w *whole) run(kind jobs.Kind, rest string, n int) cost {
	ctx := w.Context()
	_, err := w.js.PauseConsumer(ctx, jobs.StreamJobs, jobs.DurableNormal, time.Now().Add(time.Minute))
	require.NoError(w, err)
	w.fill(string(kind), n-1, rest)
	c := w.measure(jobs.StreamJobs, n, func() func() {
		_, err := w.js.ResumeConsumer(ctx, jobs.StreamJobs, jobs.DurableNormal)
		require.NoError(w, err)
		w.fill(string(kind), 1, rest) // the server looks at a consumer again when something comes
		return func() {}
	})
	w.succeeded(kind, n)
	return c
}

// succeeded makes sure that it was the work that was measured, and not its
// failure.
func (w *whole) succeeded(kind jobs.Kind, n int) {
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	s, err := w.js.Stream(ctx, events.StreamEvents)
	require.NoError(w, err)
	for i := w.jobs - n + 1; i <= w.jobs; i += max(n/10, 1) {
		_, err := s.GetLastMsgForSubject(ctx, "event."+sessionName(i)+"."+jobName(i)+"."+string(events.Succeeded))
		require.NoError(w, err, "%s %s", kind, jobName(i))
	}
}

// latency publishes n jobs, one at a time, and returns the times until the work
// begins, and until a subscriber sees the started event.
func (w *whole) latency(n int) (begun, seen []time.Duration) {
	type word struct{ at, said time.Time }
	words := make(chan word, 1)
	sub, err := w.nc.Subscribe("event.*.*."+string(events.KindStarted), func(m *nats.Msg) {
		at := time.Now()
		a, err := events.AttributesOf(m.Header)
		if err != nil {
			w.Error(err)
		}
		words <- word{at, a.Time}
	})
	require.NoError(w, err)
	defer func() { _ = sub.Unsubscribe() }()
	require.NoError(w, w.nc.Flush())
	for range n {
		_, body := w.body(resumeRest)
		start := time.Now()
		require.NoError(w, w.nc.Publish(string(jobs.SandboxResume), body))
		select {
		case one := <-words:
			begun, seen = append(begun, one.said.Sub(start)), append(seen, one.at.Sub(start))
		case <-time.After(10 * time.Second):
			w.Fatal("no job started")
		}
		time.Sleep(lowLoad)
	}
	return begun, seen
}
