package stack

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// The two kinds of Redis that StartRedis starts.
const (
	RedisServer = "redis-server" // the real one, a process of its own
	MiniRedis   = "miniredis"    // embedded; nothing survives a restart
)

// RedisOptions says how Redis runs.
type RedisOptions struct {
	Addr     string   // "127.0.0.1:6379"; empty picks a free port
	Dir      string   // where data is kept, so that it survives a restart; empty keeps none
	Embedded bool     // miniredis, even if there is a redis-server
	Args     []string // further arguments of redis-server
}

// Redis is a running Redis that takes connections from this machine only.
type Redis struct {
	Addr string // host:port
	Kind string // RedisServer or MiniRedis

	mini *miniredis.Miniredis
	proc *os.Process
	out  *tail
	over chan struct{} // closed when the process is gone
	once sync.Once
}

// URL is the address as REDIS_URL takes it.
func (r *Redis) URL() string { return "redis://" + r.Addr }

// StartRedis starts redis-server if it is on PATH, else miniredis, and waits
// until it answers. The process dies with this one, however that ends. The
// caller ends it with Stop.
func StartRedis(o RedisOptions) (*Redis, error) {
	host, port, err := splitAddr(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("redis address: %w", err)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil || o.Embedded {
		return startMini(host, max(port, 0))
	}
	if port > 0 {
		return startServer(path, host, port, o)
	}
	// The port is free now, but anybody may take it before redis-server does.
	var last error
	for range 5 {
		if port, last = freePort(host); last != nil {
			break
		}
		var r *Redis
		if r, last = startServer(path, host, port, o); last == nil {
			return r, nil
		}
	}
	return nil, last
}

func startMini(host string, port int) (*Redis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // else no key ever expires
	if err := m.StartAddr(net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
		return nil, fmt.Errorf("miniredis: %w", err)
	}
	return &Redis{Addr: m.Addr(), Kind: MiniRedis, mini: m}, nil
}

func startServer(path, host string, port int, o RedisOptions) (*Redis, error) {
	args := []string{"--bind", host, "--port", strconv.Itoa(port), "--loglevel", "warning", "--save", ""}
	if o.Dir == "" {
		args = append(args, "--appendonly", "no")
	} else {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		args = append(args, "--dir", o.Dir, "--appendonly", "yes")
	}
	r := &Redis{
		Addr: net.JoinHostPort(host, strconv.Itoa(port)), Kind: RedisServer,
		out: &tail{}, over: make(chan struct{}),
	}
	if err := r.run(exec.Command(path, append(args, o.Args...)...)); err != nil {
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	if err := r.ready(patience); err != nil {
		r.Kill()
		return nil, err
	}
	return r, nil
}

// run starts the process.
func (r *Redis) run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = r.out, r.out
	cmd.SysProcAttr = dieWithParent()
	if err := StartTied(cmd, func() { _ = cmd.Wait(); close(r.over) }); err != nil {
		return err
	}
	r.proc = cmd.Process
	return nil
}

// ready waits until our very process answers: another Redis may have had the
// port before.
func (r *Redis) ready(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: r.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	want := fmt.Sprintf("process_id:%d\r\n", r.proc.Pid)
	for {
		info, err := c.Info(ctx, "server").Result()
		if err == nil && strings.Contains(info, want) && c.Ping(ctx).Err() == nil {
			return nil
		}
		if err == nil && !strings.Contains(info, want) {
			return fmt.Errorf("redis-server: another one answers at %s", r.Addr)
		}
		select {
		case <-r.over:
			return fmt.Errorf("redis-server ended at once: %s", r.out)
		case <-ctx.Done():
			return fmt.Errorf("redis-server: not ready within %s: %s", within, r.out)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop ends Redis; with a Dir its data is on disk when Stop returns. It may be
// called twice.
func (r *Redis) Stop() error {
	if r.mini != nil {
		r.once.Do(r.mini.Close)
		return nil
	}
	_ = r.proc.Signal(syscall.SIGTERM)
	_ = r.proc.Signal(syscall.SIGCONT) // it may be frozen
	select {
	case <-r.over:
		return nil
	case <-time.After(patience):
		r.Kill()
		return fmt.Errorf("redis-server: did not stop within %s, killed", patience)
	}
}

// Kill ends Redis without a word, as a crash does.
func (r *Redis) Kill() {
	if r.mini != nil {
		r.once.Do(r.mini.Close)
		return
	}
	_ = r.proc.Kill()
	<-r.over
}

// Freeze stops redis-server where it stands: connections stay and nothing
// answers. Thaw lets it go on. Neither does anything to miniredis.
func (r *Redis) Freeze() { r.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (r *Redis) Thaw() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) {
	if r.proc != nil {
		_ = r.proc.Signal(s)
	}
}

// tail keeps the end of what a process said.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write takes p and drops the oldest of what was there.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 2000; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String is what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
