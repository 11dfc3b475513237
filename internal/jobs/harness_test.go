package jobs

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/leaktest"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, nil,
		"github.com/nats-io/nats-server/v2/server.(*Server).Shutdown",
		"github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop",
		"github.com/nats-io/nats-server/v2/server.(*fileStore).expireMsgs",
	)
}

// bench is a server with the streams set up, and one client of it.
type bench struct {
	srv *server.Server
	url string
	nc  *nats.Conn
	js  jetstream.JetStream
	pub *natsx.Publisher
	q   *Queue
}

// patience is how long tests wait for what must come, on a machine that has much else
// to do.
const patience = 60 * time.Second

func startServer(t testing.TB, o stack.NATSOptions) *server.Server {
	t.Helper()
	s, err := stack.StartNATS(o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// restartable starts a server that can be started again, on its address and files.
func restartable(t testing.TB) (srv *server.Server, restart func()) {
	t.Helper()
	addr, release, err := stack.HoldAddr()
	require.NoError(t, err)
	t.Cleanup(release)
	o := stack.NATSOptions{Addr: addr, StoreDir: t.TempDir()}
	srv = startServer(t, o)
	return srv, func() {
		t.Helper()
		srv.Shutdown()
		srv.WaitForShutdown()
		srv = startServer(t, o)
	}
}

func setup(t testing.TB, cfg Config) *bench {
	t.Helper()
	return connect(t, startServer(t, stack.NATSOptions{StoreDir: t.TempDir()}), cfg)
}

// connect opens one more client, as another worker would.
func connect(t testing.TB, srv *server.Server, cfg Config) *bench {
	t.Helper()
	b := &bench{srv: srv, url: srv.ClientURL()}
	var err error
	b.nc, err = nats.Connect(b.url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(b.nc.Close)
	b.js, err = jetstream.New(b.nc)
	require.NoError(t, err)
	b.pub, err = natsx.NewPublisher(b.nc)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.pub.Close() })
	b.q, err = Open(b.js, b.pub, cfg, logger(t))
	require.NoError(t, err)
	require.NoError(t, b.q.Setup(t.Context()))
	return b
}

// logger writes to the test's log, as long as the test runs.
func logger(t testing.TB) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(w.stop)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu sync.Mutex
	t  testing.TB
}

func (w *testWriter) stop() { w.mu.Lock(); w.t = nil; w.mu.Unlock() }

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// send publishes as plain `nats pub` would and returns the sequence.
func (b *bench) send(t testing.TB, subject, body string, header ...string) uint64 {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for i := 0; i+1 < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	ack, err := b.js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
	return ack.Sequence
}

// running is a consumer under test. Deliveries arrive on got; the test settles
// them and then calls done.
type running struct {
	*Consumer
	got  chan *held
	stop func()
}

type held struct {
	*Delivery
	ctx  context.Context
	done func()
}

// consume runs a consumer that hands every delivery to the test.
func (b *bench) consume(t testing.TB, cfg ConsumerConfig) *running {
	t.Helper()
	cfg.Log = logger(t)
	c, err := NewConsumer(b.q, cfg)
	require.NoError(t, err)
	r := &running{Consumer: c, got: make(chan *held, 10_000)}
	ended := make(chan error, 1)
	go func() {
		ended <- c.Run(context.Background(), func(ctx context.Context, d *Delivery) {
			released := make(chan struct{})
			r.got <- &held{Delivery: d, ctx: ctx, done: sync.OnceFunc(func() { close(released) })}
			select {
			case <-released:
			case <-ctx.Done():
			}
		})
	}()
	r.stop = sync.OnceFunc(func() {
		c.Kill(context.Canceled)
		select {
		case err := <-ended:
			if err != nil {
				require.ErrorIs(t, err, nats.ErrConnectionClosed)
			}
		case <-time.After(patience):
			t.Error("Run does not return")
		}
	})
	t.Cleanup(r.stop)
	return r
}

// next waits for a delivery.
func (r *running) next(t testing.TB) *held {
	t.Helper()
	select {
	case h := <-r.got:
		return h
	case <-time.After(patience):
		require.FailNow(t, "no delivery")
		return nil
	}
}

// none asserts that nothing is delivered for a while.
func (r *running) none(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case h := <-r.got:
		require.FailNow(t, "unexpected delivery", "job %s of %s", h.ID, h.Subject)
	case <-time.After(d):
	}
}

// finish acknowledges and ends the handler.
func (h *held) finish(t testing.TB) {
	t.Helper()
	require.NoError(t, h.Ack())
	h.done()
}

// answer waits for what a goroutine has to say.
func answer[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "no answer")
		panic("unreachable")
	}
}

func (b *bench) msgs(t testing.TB, stream string) uint64 {
	t.Helper()
	s, err := b.js.Stream(t.Context(), b.q.ns.Stream(stream))
	require.NoError(t, err)
	return s.CachedInfo().State.Msgs
}

func eventually(t testing.TB, ok func() bool, what string) {
	t.Helper()
	require.Eventually(t, ok, patience, 5*time.Millisecond, what)
}

const echo = `{"session":"s1","argv":["echo","hi"]}`
