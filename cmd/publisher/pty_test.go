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

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// terminal is the publisher in a terminal of its own.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File
	done chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer // everything that came, as it came
}

// inTerminal starts the publisher with stdout and stderr on a terminal of 60
// columns.
func inTerminal(t *testing.T, url string, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asPublisher+"=1", "NATS_URL="+url, "TERM=xterm", "NO_COLOR=")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 60})
	require.NoError(t, err)
	x := &terminal{t: t, cmd: cmd, file: f, done: make(chan struct{})}
	go x.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-x.done
		_ = f.Close()
		if t.Failed() {
			t.Logf("screen: %q", x.text())
		}
	})
	return x
}

func (x *terminal) read() {
	defer close(x.done)
	buf := make([]byte, 4096)
	for {
		n, err := x.file.Read(buf)
		x.mu.Lock()
		x.screen.Write(buf[:n])
		x.mu.Unlock()
		if err != nil {
			return // EIO when the process is gone
		}
	}
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

func (x *terminal) shows(s string) {
	x.t.Helper()
	eventually(x.t, "the terminal shows "+s, func() bool { return strings.Contains(x.text(), s) })
}

// press types Ctrl-C, which the terminal turns into a signal.
func (x *terminal) press() {
	x.t.Helper()
	_, err := x.file.Write([]byte{3})
	require.NoError(x.t, err)
}

// ends waits for the process and returns its exit code.
func (x *terminal) ends() int {
	x.t.Helper()
	waited := make(chan struct{})
	go func() { defer close(waited); _ = x.cmd.Wait() }()
	select {
	case <-waited:
	case <-time.After(patience):
		_ = x.cmd.Process.Signal(syscall.SIGQUIT)
		x.t.Fatal("publisher does not end")
	}
	<-x.done // all that it wrote has been read
	return x.cmd.ProcessState.ExitCode()
}

const erase = "\r\x1b[K"

func TestStatusLineOnATerminal(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := newDeployment(t)
	x := inTerminal(t, d.url, "follow", "--session", "s1", "j1")
	x.shows("[0s] queued")
	a, err := d.act(ctx, events.Job{Session: "s1", ID: "j1"})
	require.NoError(t, err)
	require.NoError(t, a.Publish(ctx, events.KindStarted, events.Started{Attempt: 1, SandboxID: "i1"}))
	x.shows("running, sandbox i1")
	require.NoError(t, a.Publish(ctx, events.KindProgress, events.Progress{
		Percent: 50, Message: "evil \x1b[2J" + strings.Repeat("long ", 50),
	}))
	x.shows("50% evil [2J")
	require.NoError(t, a.say(ctx, events.Stdout, "whole line\n"))
	x.shows("whole line\r\n")
	require.NoError(t, a.say(ctx, events.Stdout, "half a "))
	x.shows("half a ")
	require.NoError(t, a.Publish(ctx, events.KindProgress, events.Progress{Message: "unseen"}))
	require.NoError(t, a.say(ctx, events.Stderr, "line\n"))
	x.shows("half a line\r\n")
	require.NoError(t, a.finish(ctx, events.Succeeded, ""))
	require.Equal(t, 0, x.ends())

	text := x.text()
	require.Contains(t, text, erase+"whole line\r\n[", "erased before output, drawn again after it")
	require.Contains(t, text, erase+"half a line", "no status line within a line of output")
	require.NotContains(t, text, "\x1b[2J", "what comes from a job steers no terminal")
	require.True(t, strings.HasSuffix(text, erase), "nothing is left behind")
	for _, status := range strings.Split(text, erase) {
		if strings.HasPrefix(status, "[") {
			require.LessOrEqual(t, len([]rune(status)), 59, status)
		}
	}
}

func TestNoStatusLine(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := newDeployment(t)
	a, err := d.act(ctx, events.Job{Session: "s1", ID: "j1"})
	require.NoError(t, err)
	require.NoError(t, a.Publish(ctx, events.KindProgress, events.Progress{Message: "working"}))
	require.NoError(t, a.say(ctx, events.Stdout, "out\n"))
	require.NoError(t, a.finish(ctx, events.Succeeded, ""))
	x := inTerminal(t, d.url, "follow", "--no-color", "--session", "s1", "j1")
	require.Equal(t, 0, x.ends())
	require.Equal(t, "out\r\n", x.text())
	x = inTerminal(t, d.url, "follow", "--json", "--session", "s1", "j1")
	require.Equal(t, 0, x.ends())
	require.NotContains(t, x.text(), "\x1b")
}

func TestFirstCtrlCCancels(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	require.NoError(t, d.perform(t.TempDir(), t.Cleanup))
	x := inTerminal(t, d.url, "run", "--id", "j1", "--session", "s1", "--", "sh", "-c", "echo begun; exec sleep 1000")
	x.shows("begun")
	x.press()
	x.shows("cancelling job j1; Ctrl-C again lets go of it")
	require.Equal(t, exitCancelled, x.ends())
	x.shows("job j1 was cancelled: somebody asked")
	h, err := d.log.History(t.Context(), events.Job{Session: "s1", ID: "j1"})
	require.NoError(t, err)
	require.Equal(t, events.Cancelled, h.Terminal)
}

func TestSecondCtrlCLetsGo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := newDeployment(t)
	x := inTerminal(t, d.url, "run", "--id", "j1", "--session", "s1", "--", "true")
	x.shows("queued")
	a, err := d.act(ctx, events.Job{Session: "s1", ID: "j1"}) // which minds no cancel
	require.NoError(t, err)
	require.NoError(t, a.say(ctx, events.Stdout, "12345\n"))
	require.NoError(t, a.say(ctx, events.Stderr, "123\n"))
	x.shows("123\r\n")
	x.press()
	x.shows("cancelling job j1")
	x.press()
	require.Equal(t, exitCancelled, x.ends())
	x.shows("publisher follow --session s1 --from 6 --from-stderr 4 j1")
	h, err := d.log.History(ctx, events.Job{Session: "s1", ID: "j1"})
	require.NoError(t, err)
	require.False(t, h.Ended(), "the job goes on")
}

// A Ctrl-C before there is anything to cancel ends the publisher.
func TestCtrlCWhileConnecting(t *testing.T) {
	t.Parallel()
	x := inTerminal(t, "nats://127.0.0.1:1", "--timeout", "1m", "jobs")
	x.shows("connecting")
	x.press()
	require.Equal(t, exitCancelled, x.ends())
	require.Contains(t, x.text(), "interrupted")
}
