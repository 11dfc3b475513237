package worker_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

func watchful(c *worker.Config) { c.WatchEvery = 500 * time.Millisecond }

// A sandbox dies while nobody uses it: that is noticed, its slot is free again,
// and the session begins anew with the next job.
func TestWatchIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(watchful, func(c *worker.Config) { c.SandboxLimit = 1 })
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	first := w.state("s1", session.Active)
	require.True(t, w.e2b.KillSandbox(first.SandboxID))
	lost := w.state("s1", session.Lost)
	require.Contains(t, lost.Reason, "E2B does not know the sandbox")

	require.Equal(t, events.Succeeded, w.follow(w.run("s2", "true")).Kind, "there is one slot, and the lost session holds it")
	w.worker(func(c *worker.Config) { c.Name = "other" })
	e := w.follow(w.run("s1", "true"))
	require.Equal(t, events.Succeeded, e.Kind)
	require.Equal(t, 1, e.Attempts, "the loss was known before")
	require.Equal(t, first.Generation+1, w.state("s1", session.Active).Generation)
}

// E2B pauses a sandbox behind our back: that is no loss.
func TestWatchPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(watchful)
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "echo kept >f")).Kind)
	require.NoError(t, w.pauseAtE2B(w.state("s1", session.Active).SandboxID))
	require.Contains(t, w.state("s1", session.Paused).Reason, "E2B's own timeout")
	require.Equal(t, "kept\n", string(w.follow(w.run("s1", "cat", "f")).Stdout))
}

// E2B's list fails, or shows less than there is: nothing is taken for gone.
func TestWatchTrustsNoList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(watchful)
	for _, id := range ids("s", 8) {
		require.Equal(t, events.Succeeded, w.follow(w.run(id, "true")).Kind)
	}
	lists := w.e2b.Faults().Count("list")
	w.e2b.Faults().Add(local.Fault{Op: "list", Count: 2, Action: local.Status{Code: 200, Body: "[]"}})
	w.e2b.Faults().Add(local.Fault{Op: "list", Count: 2, Action: local.Status{Code: 500}})
	require.Eventually(t, func() bool { return w.e2b.Faults().Count("list") >= lists+6 }, eventually, tick)
	for _, id := range ids("s", 8) {
		rec, _, err := w.facts.Session(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, session.Active, rec.State, id)
	}
}

// The sandbox dies and its streams stay open without a word: the watch calls
// the job long before a keepalive is missed.
func TestWatchCallsTheJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newProxy(t, w.e2b.Addr())
	w.worker(watchful, func(c *worker.Config) { c.E2BSandboxURL = "http://" + p.addr() })
	job := w.shell("s1", gate)
	w.until(job, len("on\n"))
	p.freeze()
	first := w.state("s1", session.Active)
	require.True(t, w.e2b.KillSandbox(first.SandboxID))
	w.state("s1", session.Lost)
	w.until(job, len("on\non\n"))
	w.open("", "s1")

	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 2, e.Attempts)
	var retry events.Retrying
	for _, ev := range e.Events {
		if ev.Kind == events.KindRetrying {
			require.NoError(t, ev.Decode(&retry))
		}
	}
	require.Equal(t, "sandbox_lost", retry.Class)
	require.Equal(t, first.Generation+1, w.state("s1", session.Active).Generation)
}

// proxy stands between a worker and its sandboxes. Frozen, it keeps the
// connections that it has and carries nothing on them any more.
type proxy struct {
	l  net.Listener
	to string

	mu     sync.Mutex
	frozen chan struct{} // of the connections there are
	all    []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{l: l, to: to, frozen: make(chan struct{})}
	t.Cleanup(p.close)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.join(c)
		}
	}()
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) join(a net.Conn) {
	b, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = a.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, a, b)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func(frozen <-chan struct{}) {
			_, _ = io.Copy(way[0], &thaw{way[1], frozen})
			select {
			case <-frozen:
			default:
				_ = way[0].Close()
			}
		}(p.frozen)
	}
}

// thaw reads from a connection until it is frozen.
type thaw struct {
	net.Conn
	frozen <-chan struct{}
}

func (r *thaw) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	select {
	case <-r.frozen:
		return 0, io.EOF
	default:
		return n, err
	}
}

func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.frozen)
	p.frozen = make(chan struct{})
}

func (p *proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		_ = c.Close()
	}
}
