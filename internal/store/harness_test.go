package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/leaktest"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/wire"
)

// The three Redis that every test of the suite runs on. They are started once;
// each test has a namespace of its own.
const (
	onServer  = "redis-server"
	onCluster = "cluster" // one node with all slots: it refuses what crosses slots
	onMini    = "miniredis"
)

// long is a lease that does not end while a test runs.
const long = time.Hour

var shared struct {
	mu      sync.Mutex
	running map[string]*stack.Redis
	count   atomic.Int64
}

func TestMain(m *testing.M) {
	shared.running = map[string]*stack.Redis{}
	leaktest.Main(m, func() {
		for _, r := range shared.running {
			_ = r.Stop()
		}
	})
}

// each runs a test on all three.
func each(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{onServer, onCluster, onMini} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := sharedURL(t, kind)
			if kind == onMini {
				url = miniURL(t) // its SCAN walks all keys: not those of the other tests
			}
			test(t, open(t, url+calm))
		})
	}
}

// open opens a store with a namespace of its own.
func open(t testing.TB, url string, opts ...Option) *Store {
	t.Helper()
	ns := wire.Namespace(fmt.Sprintf("t%d", shared.count.Add(1)))
	s, err := Open(t.Context(), url, ns, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func sharedURL(t testing.TB, kind string) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	r := shared.running[kind]
	if r == nil {
		r = start(t, kind)
		shared.running[kind] = r
	}
	return urlOf(r, kind)
}

func miniURL(t testing.TB) string {
	t.Helper()
	r := start(t, onMini)
	t.Cleanup(r.Kill)
	return r.URL()
}

func urlOf(r *stack.Redis, kind string) string {
	if kind == onCluster {
		return "redis+cluster://" + r.Addr
	}
	return r.URL()
}

// start starts a Redis; the caller stops it.
func start(t testing.TB, kind string) *stack.Redis {
	t.Helper()
	o := stack.RedisOptions{Embedded: kind == onMini}
	if kind != onMini {
		needServer(t)
	}
	if kind == onCluster {
		o.Args = []string{"--cluster-enabled", "yes", "--cluster-config-file", t.TempDir() + "/nodes.conf"}
	}
	var r *stack.Redis
	var err error
	for range 20 { // the cluster bus wants the port 10000 above, which there may not be
		if r, err = stack.StartRedis(o); err == nil {
			break
		}
	}
	require.NoError(t, err)
	if kind == onCluster {
		c := redis.NewClient(&redis.Options{Addr: r.Addr, Protocol: 2})
		defer func() { _ = c.Close() }()
		require.NoError(t, c.ClusterAddSlotsRange(context.Background(), 0, 16383).Err())
		require.Eventually(t, func() bool {
			return errors.Is(c.Get(context.Background(), "x").Err(), redis.Nil)
		}, patience, 10*time.Millisecond, "the cluster has no state")
	}
	return r
}

// own starts a redis-server for one test: for those that wipe it, freeze it or
// take it away.
func own(t testing.TB, o stack.RedisOptions) *stack.Redis {
	t.Helper()
	needServer(t)
	r, err := stack.StartRedis(o)
	require.NoError(t, err)
	t.Cleanup(r.Kill)
	return r
}

func needServer(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("REQUIRE_REAL") == "1" {
			t.Fatal("redis-server is not on PATH and REQUIRE_REAL=1")
		}
		t.Skip("redis-server is not on PATH")
	}
}

// patience is how long tests wait for what must come, on a machine that has much else
// to do.
const patience = 60 * time.Second

// calm is an option of a store's URL for tests that are not about a slow Redis.
const calm = "?read_timeout=60s"

// impatient makes a store wait for d, and no longer. It was opened before, with time
// enough for that.
func impatient(s *Store, d time.Duration) {
	s.client.(*redis.Client).Options().ReadTimeout = d
}

// next waits for what comes on a channel.
func next[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing comes", what)
		panic("unreachable")
	}
}

// soon waits until ok holds. It asks in the test's own goroutine, so that ok may
// end the test.
func soon(t testing.TB, ok func() bool, why string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		require.True(t, time.Now().Before(deadline), why)
		time.Sleep(2 * time.Millisecond)
	}
}

func job(session, id string, origin uint64) Entry {
	return Entry{Session: session, Job: id, Origin: origin, Exclusive: true}
}

func enter(t testing.TB, s *Store, e Entry, lease time.Duration) Admission {
	t.Helper()
	a, err := s.Enter(t.Context(), e, lease)
	require.NoError(t, err)
	return a
}

func leave(t testing.TB, s *Store, e Entry) string {
	t.Helper()
	next, err := s.Leave(t.Context(), e, 0)
	require.NoError(t, err)
	return next.Job
}
