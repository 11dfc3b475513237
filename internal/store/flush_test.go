package store

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/stack"
)

// spy sees every pipeline that goes to Redis, and may hold it up.
type spy struct {
	flushes, commands atomic.Int64
	mu                sync.Mutex
	seen              []redis.Cmder
	gate              func()
}

func (s *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.note(cmd)
		return next(ctx, cmd)
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.flushes.Add(1)
		s.commands.Add(int64(len(cmds)))
		s.note(cmds...)
		if s.gate != nil {
			s.gate()
		}
		return next(ctx, cmds)
	}
}

func (s *spy) note(cmds ...redis.Cmder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, cmds...)
}

// held lets a store's first flush wait for release.
func held(s *Store) (sp *spy, first chan struct{}, release func()) {
	var once sync.Once
	first, open := make(chan struct{}), make(chan struct{})
	sp = &spy{gate: func() { once.Do(func() { close(first); <-open }) }}
	s.client.AddHook(sp)
	return sp, first, sync.OnceFunc(func() { close(open) })
}

// One flush is in flight; what comes meanwhile goes together in the next.
func TestCallsShareAFlush(t *testing.T) {
	t.Parallel()
	s := open(t, sharedURL(t, onServer)+calm)
	sp, first, release := held(s)
	defer release()

	const n = 200
	var wg sync.WaitGroup
	ask := func(i int) {
		if _, err := s.Enter(t.Context(), job(fmt.Sprintf("s%d", i), "j", 1), long); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { ask(0) })
	next(t, first, "a flush that did not wait for company")
	for i := range n {
		wg.Go(func() { ask(i + 1) })
	}
	soon(t, func() bool { return len(s.flush.queue) == n }, "calls do not pile up")
	release()
	wg.Wait()
	require.EqualValues(t, 2, sp.flushes.Load())
}

func TestFlushHasABound(t *testing.T) {
	t.Parallel()
	s := open(t, sharedURL(t, onServer)+calm, WithQueue(1000, 10))
	sp, first, release := held(s)
	defer release()
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Ping(t.Context()) })
	next(t, first, "a flush")
	for range 100 {
		wg.Go(func() { _ = s.Ping(t.Context()) })
	}
	soon(t, func() bool { return len(s.flush.queue) == 100 }, "calls do not pile up")
	release()
	wg.Wait()
	require.EqualValues(t, 11, sp.flushes.Load())
}

func TestQueueHasABound(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm, WithQueue(1, 1))
	r.Freeze()
	defer r.Thaw()
	ctx, cancel := context.WithCancel(t.Context())
	const n = 5
	errs := make(chan error, n)
	for range n {
		go func() { errs <- s.Ping(ctx) }()
	}
	soon(t, func() bool { return len(s.flush.queue) == 1 }, "the queue does not fill")
	cancel()
	for range n {
		require.ErrorIs(t, next(t, errs, "the end of a call"), context.Canceled)
	}
}

// A frozen Redis costs every caller one timeout, however many wait in line.
func TestFrozenRedis(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm, WithQueue(4096, 1))
	impatient(s, 200*time.Millisecond)
	sp := &spy{}
	s.client.AddHook(sp)
	r.Freeze()
	const n = 100
	errs := make(chan error, n)
	for i := range n {
		go func() {
			_, err := s.Enter(t.Context(), job("s", fmt.Sprintf("j%d", i), 1), long)
			errs <- err
		}()
	}
	for range n {
		require.ErrorIs(t, next(t, errs, "the end of a call"), ErrUnavailable)
	}
	require.Less(t, sp.flushes.Load(), int64(20), "each caller has waited for a timeout of its own")
	r.Thaw()
	soon(t, func() bool { return s.Ping(t.Context()) == nil }, "it does not come back")
}

// Waiting for a timeout a second time would help nobody.
func TestTimeoutIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	impatient(s, 50*time.Millisecond)
	sp := &spy{}
	s.client.AddHook(sp)
	r.Freeze()
	defer r.Thaw()
	require.ErrorIs(t, s.Ping(t.Context()), ErrUnavailable)
	require.EqualValues(t, 1, sp.flushes.Load())
}

// The connection is cut between the command and its answer: once is no reason to
// fail, all commands may be sent twice.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	cut := &cutter{}
	s.client.AddHook(cut)
	require.NoError(t, s.client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "no").Err())
	soon(t, func() bool { return s.Ping(t.Context()) == nil && cut.dialed.Load() }, "no new connection")

	cut.armed.Store(true)
	a, err := s.Enter(t.Context(), job("s", "j", 1), long)
	require.NoError(t, err)
	require.True(t, a.Turn)
	require.False(t, cut.armed.Load(), "nothing was cut")
}

// cutter makes connections that end before the next answer when it is armed.
type cutter struct{ dialed, armed atomic.Bool }

func (c *cutter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		c.dialed.Store(true)
		return &cutConn{conn, c}, err
	}
}

func (c *cutter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *cutter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type cutConn struct {
	net.Conn
	by *cutter
}

// Read ends the connection once, if its cutter is armed.
func (c *cutConn) Read(p []byte) (int, error) {
	if c.by.armed.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

func TestCallerLeavesWithItsContext(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	r.Freeze()
	defer r.Thaw()
	why := fmt.Errorf("the job was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	errs := make(chan error, 1)
	go func() { _, err := s.Enter(ctx, job("s", "j", 1), long); errs <- err }()
	cancel(why)
	err := next(t, errs, "the end of the call")
	require.ErrorIs(t, err, why)
	require.NotErrorIs(t, err, ErrUnavailable)
}

// Redis forgets its scripts at any moment; nobody notices.
func TestScriptsForgotten(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	ctx, stop := context.WithCancel(t.Context())
	var flushed sync.WaitGroup
	flushed.Go(func() {
		for ctx.Err() == nil {
			_ = s.client.ScriptFlush(context.Background()).Err()
		}
	})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for n := range 20 {
				e := job(fmt.Sprintf("s%d", i), fmt.Sprintf("j%d", n), uint64(n))
				a, err := s.Enter(t.Context(), e, long)
				if err != nil || !a.Turn {
					t.Errorf("enter: %+v %v", a, err)
				}
				if _, err := s.Leave(t.Context(), e, time.Minute); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stop()
	flushed.Wait()
}

// Redis is restarted between two calls: the second one does not fail.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	require.True(t, enter(t, s, job("s", "j", 1), long).Turn)
	r.Kill()
	_, err := s.Enter(t.Context(), job("s", "j", 1), long)
	require.ErrorIs(t, err, ErrUnavailable)

	again := own(t, stack.RedisOptions{Addr: r.Addr})
	require.Equal(t, r.Addr, again.Addr)
	a := enter(t, s, job("s", "j2", 2), long)
	require.True(t, a.Turn)
	require.True(t, a.Young)
}

func TestRestartOfAUsedConnection(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	require.NoError(t, s.Ping(t.Context()))
	r.Kill()
	own(t, stack.RedisOptions{Addr: r.Addr})
	require.True(t, enter(t, s, job("s", "j", 1), long).Turn)
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	impatient(s, 100*time.Millisecond)
	r.Freeze()
	errs := make(chan error, 10)
	for range 10 {
		go func() { errs <- s.Ping(t.Context()) }()
	}
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	for range 10 {
		require.Error(t, next(t, errs, "the end of a call"))
	}
	require.ErrorIs(t, s.Ping(t.Context()), ErrClosed)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	addr, err := stack.FreeAddr()
	require.NoError(t, err)
	_, err = Open(t.Context(), "redis://:hidden@"+addr, "")
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotContains(t, err.Error(), "hidden")

	r := own(t, stack.RedisOptions{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	s := open(t, r.URL())
	policy, limited, err := s.Eviction(t.Context())
	require.NoError(t, err)
	require.Equal(t, "allkeys-lru", policy)
	require.True(t, limited)
	policy, limited, err = open(t, sharedURL(t, onServer)+calm).Eviction(t.Context())
	require.NoError(t, err)
	require.Equal(t, "noeviction", policy)
	require.False(t, limited)
	now, err := s.Clock(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now, time.Minute)

	require.True(t, atLeast("6.2.0", 6, 2))
	require.True(t, atLeast("7.0.15", 6, 2))
	require.True(t, atLeast("10.0", 6, 2))
	require.True(t, atLeast("?", 6, 2))
	require.False(t, atLeast("6.0.16", 6, 2))
	require.False(t, atLeast("5.2", 6, 2))
}

// A full Redis says so; that is nothing a job can help.
func TestFullRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	require.NoError(t, s.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := s.Enter(t.Context(), job("s", "j", 1), long)
	require.ErrorIs(t, err, ErrUnavailable)
}

// counter is a spy that keeps nothing.
type counter struct{ spy }

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.flushes.Add(1)
		return next(ctx, cmds)
	}
}
