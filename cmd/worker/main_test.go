package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/worker"
)

// asWorker makes the test binary be the worker: what is said of a process is
// tested on one.
const asWorker = "SANDJET_TEST_AS_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		main()
	}
	os.Exit(m.Run())
}

// patience is how long tests wait for what must come, on a machine that has much else
// to do.
const patience = 2 * time.Minute

// process is a worker that was started.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr buffer
	done           chan struct{}
}

// start starts a worker with nothing but env around it.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append([]string{asWorker + "=1", "HOME=" + t.TempDir()}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, stack.StartTied(p.cmd, func() { _ = p.cmd.Wait(); close(p.done) }))
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.done })
	return p
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("worker does not end:\n%s", p.stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// says waits until the worker has logged text.
func (p *process) says(text string) {
	p.t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for late, over := time.After(patience), false; !over && !strings.Contains(p.stderr.String(), text); {
		select {
		case <-look.C:
		case <-p.done:
			over = true
		case <-late:
			over = true
		}
	}
	require.Contains(p.t, p.stderr.String(), text)
}

func (p *process) signal(s syscall.Signal) { require.NoError(p.t, p.cmd.Process.Signal(s)) }

type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--help", "-h"} {
		p := start(t, nil, flag)
		require.Zero(t, p.exit())
		require.Empty(t, p.stderr.String())
		out := p.stdout.String()
		for _, s := range worker.Settings() {
			require.Contains(t, out, "$"+s.Env+" ")
			if s.Flag != "" {
				require.Contains(t, out, "--"+s.Flag)
			}
		}
		require.Contains(t, out, "Example:\n   NATS_URL=")
		require.Contains(t, out, "Exit codes:")
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, len(line), 130, line)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--version")
	require.Zero(t, p.exit())
	require.Equal(t, "worker version "+worker.Version+"\n", p.stdout.String())
}

func TestBadCommandLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--concurency", "3"}, "worker: flag provided but not defined: -concurency: see --help\n"},
		{[]string{"--concurrency"}, "worker: flag needs an argument: --concurrency: see --help\n"},
		{[]string{"run"}, "worker: unknown argument \"run\": settings are flags or environment variables, see --help\n"},
		{[]string{"help"}, "worker: unknown argument \"help\": settings are flags or environment variables, see --help\n"},
	} {
		p := start(t, nil, test.args...)
		require.Equal(t, 2, p.exit())
		require.Equal(t, test.want, p.stderr.String())
		require.Empty(t, p.stdout.String())
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"WORKER_CONCURRENCY=3", "WORKER_IDLE_TIMEOUT=secret", "NATS_URL=nats://u:secret@h:x"}, "--concurrency", "secret")
	require.Equal(t, 2, p.exit())
	require.NotContains(t, p.stderr.String(), "secret")
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	require.Len(t, lines, 5)
	for i, name := range []string{"NATS_URL", "REDIS_URL", "E2B_API_KEY", "WORKER_CONCURRENCY", "WORKER_IDLE_TIMEOUT"} {
		require.True(t, strings.HasPrefix(lines[i], "worker: "+name+" is "), lines[i])
	}
}

// heldAddr is an address where nobody listens who is not told to, while the test runs.
func heldAddr(t *testing.T) string {
	t.Helper()
	addr, release, err := stack.HoldAddr()
	require.NoError(t, err)
	t.Cleanup(release)
	return addr
}
