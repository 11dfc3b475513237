package events_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/leaktest"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

func TestMain(m *testing.M) {
	// The server looks for a stream's source in a goroutine that it does not wait for.
	leaktest.Main(m, cluster.stop, "github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3")
}

// site is a server with the streams set up.
type site struct {
	url      string
	replicas int
	srv      *server.Server
	cfg      events.Config
}

func single(t testing.TB, change ...func(*events.Config)) *site {
	t.Helper()
	srv, err := stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	s := &site{url: srv.ClientURL(), replicas: 1, srv: srv, cfg: small()}
	for _, c := range change {
		c(&s.cfg)
	}
	s.setup(t)
	return s
}

func small() events.Config {
	return events.Config{MaxBytes: 256 << 20, SessionBytes: 16 << 20, AuditBytes: 16 << 20, ArtifactBytes: 16 << 20}
}

func (s *site) setup(t testing.TB) {
	t.Helper()
	w := s.join(t)
	require.Eventually(t, func() bool {
		return events.Setup(t.Context(), w.js, s.cfg) == nil
	}, patience, 50*time.Millisecond)
}

// worker is one process as seen from NATS: a connection and what stands on it.
type worker struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	pub *natsx.Publisher
	log *events.Log
}

func (s *site) join(t testing.TB, opts ...natsx.Option) *worker { return joinAt(t, s, s.url, opts...) }

func joinAt(t testing.TB, s *site, url string, opts ...natsx.Option) *worker {
	t.Helper()
	nc, err := natsx.Connect(t.Context(), natsx.Config{URL: url}, nil)
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	pub, err := natsx.NewPublisher(nc, opts...)
	require.NoError(t, err)
	log, err := events.Open(nc, pub, s.cfg.Namespace, "/sandjet/worker/test")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, log.Close())
		require.NoError(t, pub.Close())
		closed := nc.StatusChanged(nats.CLOSED)
		if !nc.IsClosed() {
			nc.Close()
			<-closed
		}
	})
	return &worker{nc, js, pub, log}
}

// cluster is three servers in this process, started by the first test that asks.
var cluster trio

type trio struct {
	once    sync.Once
	dirs    []string
	servers []*server.Server
	err     error
}

func (c *trio) start() {
	var routes []string
	for range 3 {
		addr, err := stack.FreeAddr()
		if err != nil {
			c.err = err
			return
		}
		routes = append(routes, "nats://"+addr)
	}
	for i, r := range routes {
		dir, err := os.MkdirTemp("", "sandjet-cluster")
		if err != nil {
			c.err = err
			return
		}
		c.dirs = append(c.dirs, dir)
		_, port, _ := net.SplitHostPort(r[len("nats://"):])
		n, _ := strconv.Atoi(port)
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: -1, JetStream: true,
			StoreDir: dir, NoLog: true, NoSigs: true,
			// Who connects through a proxy is to come back through it.
			Cluster: server.ClusterOpts{Name: "trio", Host: "127.0.0.1", Port: n, NoAdvertise: true},
			Routes:  server.RoutesFromStr(routes[0] + "," + routes[1] + "," + routes[2]),
		})
		if err != nil {
			c.err = err
			return
		}
		c.servers = append(c.servers, s)
		s.Start()
	}
}

func (c *trio) stop() {
	for _, s := range c.servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
	for _, d := range c.dirs {
		_ = os.RemoveAll(d)
	}
}

// triple is the shared cluster with replicated streams in a namespace of its own.
func triple(t testing.TB) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	cluster.once.Do(cluster.start)
	require.NoError(t, cluster.err)
	s := &site{url: cluster.servers[0].ClientURL(), replicas: 3, cfg: small()}
	s.cfg.Replicas = 3
	s.setup(t)
	return s
}

// patience is how long tests wait for what must come, on a machine that has much else
// to do.
const patience = 60 * time.Second

// next waits for what comes on a channel; more tells whether it was closed instead.
func next[T any](t testing.TB, c <-chan T, what string) (v T, more bool) {
	t.Helper()
	select {
	case v, more = <-c:
		return v, more
	case <-time.After(patience):
		require.FailNow(t, "nothing comes", what)
		return v, false
	}
}

// one is next of a channel that is not closed.
func one[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	v, more := next(t, c, what)
	require.True(t, more, "%s: no more comes", what)
	return v
}

// restartable starts a server that can be started again, on its address and files.
func restartable(t testing.TB) (s *site, restart func(down func())) {
	t.Helper()
	addr, release, err := stack.HoldAddr()
	require.NoError(t, err)
	t.Cleanup(release)
	o := stack.NATSOptions{Addr: addr, StoreDir: t.TempDir()}
	srv, err := stack.StartNATS(o)
	require.NoError(t, err)
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	s = &site{url: srv.ClientURL(), replicas: 1, cfg: small()}
	s.setup(t)
	return s, func(down func()) {
		t.Helper()
		srv.Shutdown()
		srv.WaitForShutdown()
		if down != nil {
			down()
		}
		srv, err = stack.StartNATS(o)
		require.NoError(t, err)
	}
}

// both runs a test on a single server and on a cluster.
func both(t *testing.T, test func(t *testing.T, s *site)) {
	t.Run("R1", func(t *testing.T) { t.Parallel(); test(t, single(t)) })
	t.Run("R3", func(t *testing.T) { t.Parallel(); test(t, triple(t)) })
}

// job returns a key that no other test uses.
func job(t testing.TB) events.Job {
	t.Helper()
	return events.Job{Session: "s" + randomID(), ID: "j" + randomID()}
}

var ids struct {
	sync.Mutex
	n int
}

func randomID() string {
	ids.Lock()
	defer ids.Unlock()
	ids.n++
	return strconv.Itoa(ids.n)
}

func (w *worker) claim(t testing.TB, j events.Job, prev uint64) *events.Claim {
	t.Helper()
	c, err := w.log.Claim(t.Context(), j, events.Claimed{Worker: "w", Attempt: 1}, prev)
	require.NoError(t, err)
	return c
}

// all reads everything EVENTS holds of a job.
func (w *worker) all(t testing.TB, s *site, j events.Job) []events.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h, err := w.log.History(ctx, j)
	require.NoError(t, err)
	var out []events.Event
	if h.Last == 0 {
		return nil
	}
	for e, err := range w.log.Follow(ctx, j, events.FollowOptions{}) {
		require.NoError(t, err)
		out = append(out, e)
		if e.Seq >= h.Last {
			break
		}
	}
	return out
}

func output(all []events.Event, k events.Kind) []byte {
	var b bytes.Buffer
	for _, e := range all {
		if e.Kind == k {
			b.Write(e.Data)
		}
	}
	return b.Bytes()
}

func short(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
