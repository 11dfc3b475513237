package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
)

// A job runs, the stack is ended with SIGTERM and started again on the same
// folder: the session, its sandbox's files and the job's events are all there.
func TestEverythingSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--data", filepath.Join(dir, "data"), "--env-file", filepath.Join(dir, "env")}

	p := startUp(t, args...)
	c := dial(t, p.env)
	out, kind := c.run(t, "write", "echo kept > file && echo written")
	require.Equal(t, events.Succeeded, kind)
	require.Equal(t, "written\n", out)
	before, err := c.ask.Session(t.Context(), query.SessionRequest{Session: "s1"})
	require.NoError(t, err)
	require.Equal(t, session.Active, before.State)
	p.terminate(t)

	p = startUp(t, args...)
	c = dial(t, p.env)
	out, kind = c.run(t, "read", "cat file")
	require.Equal(t, events.Succeeded, kind)
	require.Equal(t, "kept\n", out)
	after, err := c.ask.Session(t.Context(), query.SessionRequest{Session: "s1"})
	require.NoError(t, err)
	require.Equal(t, before.SandboxID, after.SandboxID)
	out, kind = c.follow(t, "write")
	require.Equal(t, events.Succeeded, kind, "the first job's events are kept")
	require.Equal(t, "written\n", out)
	p.terminate(t)
}

// JetStream reserves what streams may hold: a laptop must have room for it.
func TestStreamsFitALaptop(t *testing.T) {
	t.Parallel()
	p := startUp(t, "--env-file", filepath.Join(t.TempDir(), "env"))
	nc, err := nats.Connect(p.env["NATS_URL"])
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	account, err := js.AccountInfo(t.Context())
	require.NoError(t, err)
	require.NotZero(t, account.ReservedStore)
	require.Less(t, account.ReservedStore, uint64(4<<30))
	p.terminate(t)
}

// upProcess is a devstack of its own process.
type upProcess struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *output
	env    map[string]string
}

// output is what a process says, and may be read while it does.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startUp starts "devstack up" and waits until it is ready.
func startUp(t *testing.T, args ...string) *upProcess {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &upProcess{cmd: exec.Command(self), stderr: &output{}}
	p.cmd.Args = append([]string{"devstack", "up", "--log-level", "info"}, args...)
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	stuck := time.AfterFunc(3*time.Minute, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	t.Cleanup(func() {
		stuck.Stop()
		_ = p.cmd.Process.Kill() // nothing to kill after terminate
		if t.Failed() {
			t.Logf("devstack said:\n%s", p.stderr)
		}
	})
	p.stdout = bufio.NewReader(stdout)
	line, err := p.stdout.ReadString('\n')
	require.NoError(t, err, "no ready: %s", p.stderr)
	require.Equal(t, "ready\n", line)

	p.env = map[string]string{}
	file, err := os.ReadFile(args[len(args)-1])
	require.NoError(t, err)
	for line := range strings.Lines(string(file)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		p.env[k] = v
	}
	return p
}

// terminate sends SIGTERM; the process must end with code 0 and have nothing
// more to say on stdout.
func (p *upProcess) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(p.stdout)
	require.NoError(t, err)
	require.Empty(t, string(rest))
	require.NoError(t, p.cmd.Wait())
}

// client is a publisher of the stack.
type client struct {
	pub *jobs.Publisher
	log *events.Log
	ask *query.Client
}

func dial(t *testing.T, env map[string]string) *client {
	t.Helper()
	nc, err := natsx.Connect(t.Context(), natsx.Config{URL: env["NATS_URL"]}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return newClient(t, nc)
}

func newClient(t *testing.T, nc *nats.Conn) *client {
	t.Helper()
	acks, err := natsx.NewPublisher(nc)
	require.NoError(t, err)
	t.Cleanup(func() { _ = acks.Close() })
	log, err := events.Open(nc, acks, "", "/test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return &client{pub: jobs.NewPublisher(acks, ""), log: log, ask: query.NewClient(nc, "", 0)}
}

func (c *client) run(t *testing.T, id, shell string) (stdout string, end events.Kind) {
	t.Helper()
	_, err := c.pub.Publish(t.Context(), jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{ID: id, Session: "s1"}, Shell: shell,
	}, jobs.PublishOptions{})
	require.NoError(t, err)
	return c.follow(t, id)
}

func (c *client) follow(t *testing.T, id string) (stdout string, end events.Kind) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	for e, err := range c.log.Follow(ctx, events.Job{Session: "s1", ID: id}, events.FollowOptions{Verify: true}) {
		require.NoError(t, err)
		if e.Kind == events.Stdout {
			out.Write(e.Data)
		}
		if e.Kind.Terminal() {
			end = e.Kind
		}
	}
	return out.String(), end
}
