package worker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	gitlocal "github.com/sandjet/sandjet/internal/git/local"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/internal/worker"
)

// How long tests wait for what must come, and how often they look.
const (
	eventually = 60 * time.Second
	tick       = 20 * time.Millisecond
)

// world is everything outside a worker, real: NATS, Redis, sandboxes.
type world struct {
	t     *testing.T
	dir   string
	nats  *server.Server
	redis *stack.Redis
	e2b   *local.Server
	git   *gitlocal.Server // of a gitWorld
	log   *slog.Logger

	nc    *nats.Conn
	js    jetstream.JetStream
	pub   *natsx.Publisher
	facts *events.Log
	jobs  *jobs.Publisher
}

func newWorld(t *testing.T, change ...func(*local.Config)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), log: testLog(t)}
	var err error
	w.nats, err = stack.StartNATS(stack.NATSOptions{Addr: heldAddr(t), StoreDir: w.dir + "/nats"})
	require.NoError(t, err)
	t.Cleanup(func() { w.nats.Shutdown(); w.nats.WaitForShutdown() })

	w.redis, err = stack.StartRedis(stack.RedisOptions{Addr: heldAddr(t)})
	require.NoError(t, err)
	if os.Getenv("REQUIRE_REAL") == "1" {
		require.Equal(t, "redis-server", w.redis.Kind)
	}
	t.Cleanup(func() { _ = w.redis.Stop() })

	cfg := local.Config{Addr: heldAddr(t), APIKey: "e2b_test", Log: w.log}
	for _, f := range change {
		f(&cfg)
	}
	w.e2b, err = local.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.e2b.Close() })

	w.nc, err = nats.Connect(w.nats.ClientURL())
	require.NoError(t, err)
	t.Cleanup(w.nc.Close)
	w.js, err = jetstream.New(w.nc)
	require.NoError(t, err)
	w.pub, err = natsx.NewPublisher(w.nc)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.pub.Close() })
	w.facts, err = events.Open(w.nc, w.pub, "", "/sandjet/test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.facts.Close() })
	w.jobs = jobs.NewPublisher(w.pub, "")
	return w
}

// heldAddr is an address for a server that may be restarted, while the test runs.
func heldAddr(t *testing.T) string {
	t.Helper()
	addr, release, err := stack.HoldAddr()
	require.NoError(t, err)
	t.Cleanup(release)
	return addr
}

// testLog writes to the test's log, until the test ends.
func testLog(t *testing.T) *slog.Logger {
	out := &testWriter{t: t}
	t.Cleanup(func() {
		out.mu.Lock()
		defer out.mu.Unlock()
		out.t = nil
	})
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu sync.Mutex
	t  *testing.T
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Log(string(bytes.TrimSpace(p)))
	}
	return len(p), nil
}

// env is a worker's environment in this world.
func (w *world) env() map[string]string {
	return map[string]string{
		"NATS_URL": w.nats.ClientURL(), "REDIS_URL": w.redis.URL(),
		"E2B_API_URL": w.e2b.URL(), "E2B_SANDBOX_URL": w.e2b.URL(), "E2B_API_KEY": w.e2b.APIKey(),
		"WORKER_HTTP_ADDR": "off", "WORKER_START_TIMEOUT": "1m",
	}
}

func (w *world) config(change ...func(*worker.Config)) worker.Config {
	w.t.Helper()
	env := w.env()
	cfg, err := worker.ConfigFromEnv(func(k string) string { return env[k] })
	require.NoError(w.t, err)
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// running is a worker at work.
type running struct {
	t    *testing.T
	stop context.CancelFunc
	kill context.CancelFunc
	done chan error
}

func (w *world) worker(change ...func(*worker.Config)) *running {
	w.t.Helper()
	cfg := w.config(change...)
	app, err := worker.New(cfg, w.log)
	require.NoError(w.t, err)
	kill, killNow := context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(kill)
	r := &running{t: w.t, stop: stop, kill: killNow, done: make(chan error, 1)}
	go func() { r.done <- app.Run(ctx, kill) }()
	select {
	case <-app.Ready():
	case err := <-r.done:
		w.t.Fatalf("worker did not start: %v", err)
	case <-time.After(2 * eventually):
		w.t.Fatal("worker not ready")
	}
	w.t.Cleanup(func() { r.Stop(); killNow() })
	return r
}

// Stop stops the worker in good order.
func (r *running) Stop() {
	r.stop()
	select {
	case err := <-r.done:
		require.NoError(r.t, err)
		r.done <- nil
	case <-time.After(2 * eventually):
		r.t.Fatal("worker did not stop")
	}
}

// publish puts a job into the queue.
func (w *world) publish(kind jobs.Kind, p jobs.Payload) events.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), eventually)
	defer cancel()
	got, err := w.jobs.Publish(ctx, kind, p, jobs.PublishOptions{})
	require.NoError(w.t, err)
	return events.Job{Session: got.Session, ID: got.Job}
}

// run publishes a command.
func (w *world) run(session string, argv ...string) events.Job {
	return w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: session}, Argv: argv})
}

// ended is a job as its subscriber saw it.
type ended struct {
	events.Outcome
	Kind           events.Kind
	Stdout, Stderr []byte
	Events         []events.Event
}

func (e ended) kinds() []events.Kind {
	var out []events.Kind
	for _, ev := range e.Events {
		out = append(out, ev.Kind)
	}
	return out
}

func (e ended) count(k events.Kind) (n int) {
	for _, ev := range e.Events {
		if ev.Kind == k {
			n++
		}
	}
	return n
}

// follow reads a job to its end and checks what every job promises: output
// without gap or double, sums that agree, one terminal event, the last.
func (w *world) follow(job events.Job) ended {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*eventually)
	defer cancel()
	var e ended
	for ev, err := range w.facts.Follow(ctx, job, events.FollowOptions{Verify: true}) {
		require.NoError(w.t, err, "follow %s after %v", job, e.kinds())
		e.Events = append(e.Events, ev)
		switch {
		case ev.Kind == events.Stdout:
			require.EqualValues(w.t, len(e.Stdout), ev.Offset, "stdout of %s", job)
			e.Stdout = append(e.Stdout, ev.Data...)
		case ev.Kind == events.Stderr:
			require.EqualValues(w.t, len(e.Stderr), ev.Offset, "stderr of %s", job)
			e.Stderr = append(e.Stderr, ev.Data...)
		case ev.Kind.Terminal():
			require.Empty(w.t, e.Kind, "second terminal event of %s", job)
			e.Kind = ev.Kind
			require.NoError(w.t, ev.Decode(&e.Outcome))
		}
	}
	require.True(w.t, e.Kind.Terminal(), "job %s has not ended: %v", job, e.kinds())
	if e.StdoutSHA256 != "" {
		sum := sha256.Sum256(e.Stdout)
		require.Equal(w.t, hex.EncodeToString(sum[:]), e.StdoutSHA256)
	}
	return e
}

// soon waits for what comes on a channel.
func soon[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(eventually):
		require.FailNow(t, "nothing comes", what)
		panic("unreachable")
	}
}

// state waits until a session is in a state.
func (w *world) state(id string, want session.State) session.Record {
	w.t.Helper()
	var rec session.Record
	require.Eventually(w.t, func() bool {
		var err error
		rec, _, err = w.facts.Session(w.t.Context(), id)
		return err == nil && rec.State == want
	}, eventually, tick, "session %s is not %s", id, want)
	return rec
}

func ids(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// pauseAtE2B pauses a sandbox behind the workers' back.
func (w *world) pauseAtE2B(id string) error {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.e2b.URL()+"/sandboxes/"+id+"/pause", nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-API-KEY", w.e2b.APIKey())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("pause: %s", res.Status)
	}
	return nil
}

// cut resets the next n answers of an operation in the middle.
func (w *world) cut(op string, n int) {
	for i := range n {
		w.e2b.Faults().Add(local.Fault{Op: op, Skip: 0, Count: 1, Action: local.CutAfter{Bytes: int64(2000 * (i + 1))}})
	}
}

// restartNATS stops the server and starts another one on the same files.
func (w *world) restartNATS() {
	w.t.Helper()
	addr, before := w.nats.Addr().String(), w.nc.Stats().Reconnects
	w.nats.Shutdown()
	w.nats.WaitForShutdown()
	s, err := stack.StartNATS(stack.NATSOptions{Addr: addr, StoreDir: w.dir + "/nats"})
	require.NoError(w.t, err)
	w.nats = s
	w.t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.Eventually(w.t, func() bool { return w.nc.Stats().Reconnects > before && w.nc.IsConnected() }, eventually, tick)
}

func (w *world) flushRedis() {
	w.t.Helper()
	opt, err := redis.ParseURL(w.redis.URL())
	require.NoError(w.t, err)
	c := redis.NewClient(opt)
	defer c.Close()
	require.NoError(w.t, c.FlushAll(w.t.Context()).Err())
}

// onceAndWhole2 is onceAndWhole for a session that goes on being used.
func (w *world) onceAndWhole2(job events.Job, n int) {
	w.t.Helper()
	e := w.follow(job)
	require.Equal(w.t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(w.t, wantLines(n), string(e.Stdout))
	require.Equal(w.t, 1, e.Attempts)
}

func durationOf(d time.Duration) wire.Duration { return wire.Duration(d) }

// ask asks the workers a question.
func (w *world) ask(subject string, req, res any) {
	w.t.Helper()
	body, err := json.Marshal(req)
	require.NoError(w.t, err)
	m, err := w.nc.Request(subject, body, eventually)
	require.NoError(w.t, err)
	require.Empty(w.t, m.Header.Get("Nats-Service-Error"), subject)
	require.NoError(w.t, json.Unmarshal(m.Data, res))
}

// ask1Dead returns the one dead letter there is.
func (w *world) ask1Dead() query.DeadLetter {
	w.t.Helper()
	var list query.DeadListReply
	w.ask(query.DeadList, query.DeadListRequest{}, &list)
	require.Len(w.t, list.Letters, 1)
	return list.Letters[0]
}

// pausedAfter logs how long after its last use a session was put to sleep.
func (w *world) pausedAfter(t *testing.T, id string, since time.Time) {
	rec := w.state(id, session.Paused)
	t.Logf("session %s: pause recorded %s after its last job, idle timeout %s", id, rec.UpdatedAt.Sub(since).Round(time.Millisecond), rec.IdleTimeout)
}

// box opens the sandbox of a session.
func (w *world) box(id string) *e2b.Box {
	w.t.Helper()
	client, err := e2b.New(e2b.Config{
		APIKey: func() (string, error) { return w.e2b.APIKey(), nil }, APIURL: w.e2b.URL(), SandboxURL: w.e2b.URL(),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(client.Close)
	d, err := client.Get(w.t.Context(), w.state(id, session.Active).SandboxID)
	require.NoError(w.t, err)
	return client.Open(d.Ref())
}

// ended waits until a run of session s1 has recorded its end in the sandbox.
func (w *world) ended(run string) {
	w.t.Helper()
	box := w.box("s1")
	require.Eventually(w.t, func() bool {
		_, err := box.Stat(w.t.Context(), "/tmp/.sandjet-default/"+run+"/exit")
		return err == nil
	}, eventually, tick)
}
