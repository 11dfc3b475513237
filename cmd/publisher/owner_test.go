package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/worker"
)

// documented is the example of NATS permissions in the documents, and agent-8 with the
// same as agent-7.
func documented(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?ms)^    authorization \{\n.*?^    \}\n`).FindString(string(b))
	require.NotEmpty(t, found, "docs/operations.md has no example of permissions")
	found = regexp.MustCompile(`\$[A-Z0-9_]+_PASSWORD`).ReplaceAllString(found, "secret")
	seven := regexp.MustCompile(`(?ms)^        \{user: agent-7,.*?^        \}\}\n`).FindString(found)
	require.NotEmpty(t, seven)
	return strings.Replace(found, seven, seven+strings.ReplaceAll(seven, "agent-7", "agent-8"), 1)
}

// guarded is a whole deployment whose NATS has users with permissions.
type guarded struct {
	t   *testing.T
	url string // without a user
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(documented(t)), 0o600))
	opts, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	opts.Host, opts.Port, opts.JetStream, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", -1, true, t.TempDir(), true, true
	srv, err := server.NewServer(opts)
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	require.True(t, srv.ReadyForConnections(30*time.Second))
	g := &guarded{t: t, url: srv.Addr().String()}

	redis, err := stack.StartRedis(stack.RedisOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = redis.Stop() })
	e2b, err := stack.StartE2B(t.Context(), stack.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e2b.Stop(context.WithoutCancel(t.Context())) })
	env := map[string]string{
		"NATS_URL": g.as("worker"), "REDIS_URL": redis.URL(), "WORKER_HTTP_ADDR": "127.0.0.1:0", "WORKER_START_TIMEOUT": "1m",
	}
	for _, v := range e2b.E2BEnv() {
		env[v.Name] = v.Value
	}
	cfg, err := worker.ConfigFromEnv(func(k string) string { return env[k] })
	require.NoError(t, err)
	app, err := worker.New(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	life, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(life, life) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, next(t, done)) })
	select {
	case <-app.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("worker ended at once: %v", err)
	}
	return g
}

func (g *guarded) as(user string) string { return "nats://" + user + ":secret@" + g.url }

// publisher runs a command line as a user of NATS who is that owner.
func (g *guarded) publisher(user string, args ...string) ran {
	g.t.Helper()
	d := &deployment{url: g.as(user)}
	if user != "worker" {
		args = append([]string{"--as", user}, args...)
	}
	return d.publisher(g.t.Context(), nil, args...)
}

// With the permissions that the documents give, an owner does all with what is his, and
// nothing of it is there for another.
func TestPermissionsOfAnOwner(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	ok := func(user string, args ...string) string {
		t.Helper()
		r := g.publisher(user, args...)
		require.Equal(t, 0, r.code, "%s %v: %s%s", user, args, r.stdout, r.stderr)
		return r.stdout
	}
	ended := func(id, state string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return strings.Contains(g.publisher("agent-7", "jobs", "--json", id).stdout, `"state":"`+state+`"`)
		}, 60*time.Second, 20*time.Millisecond, "%s is not %s", id, state)
	}
	ok("agent-7", "run", "--detach", "--session", "s7", "--id", "j1", "--", "echo", "hi")
	ended("j1", "succeeded")
	ok("agent-7", "run", "--detach", "--session", "s7", "--id", "bad", "--cwd", "/not/there", "--", "true")
	ended("bad", "dead")
	ok("agent-7", "run", "--detach", "--session", "s7", "--id", "j2", "--", "sleep", "1000")
	ended("j2", "started")

	// What agent-8 sees of it, before anything is changed.
	for _, list := range [][]string{{"sessions"}, {"jobs"}, {"jobs", "--session", "s7"}, {"dead", "list"}} {
		r := g.publisher("agent-8", list...)
		require.Equal(t, 0, r.code, r.stderr)
		require.Empty(t, r.stdout, "%v", list)
	}
	for _, args := range [][]string{
		{"sessions", "s7"},
		{"jobs", "j1"},
		{"jobs", "--session", "s7", "j1"},
		{"why", "j1"},
		{"why", "--session", "s7", "j1"},
		{"cancel", "j2"},
		{"cancel", "--session", "s7", "j2"},
		{"cancel", "--session", "s7", "to-come"},
		{"dead", "get", "1"},
		{"dead", "replay", "1"},
		{"dead", "discard", "1"},
	} {
		r := g.publisher("agent-8", args...)
		require.Equal(t, exitError, r.code, "%v: %s", args, r.stdout)
		require.Empty(t, r.stdout, "%v", args)
		require.Regexp(t, `is not found|no such dead letter`, r.stderr, "%v", args)
		absent := strings.NewReplacer("s7", "s9", "j1", "j9", "j2", "j9", "to-come", "to-come", "1", "9")
		for i := range args {
			args[i] = absent.Replace(args[i])
		}
		none := g.publisher("agent-8", args...)
		require.Equal(t, absent.Replace(r.stderr), absent.Replace(none.stderr), "%v", args)
	}

	// And agent-7 does with it what he likes.
	require.Contains(t, ok("agent-7", "sessions"), "s7")
	require.Regexp(t, `state +active`, ok("agent-7", "sessions", "s7"))
	require.Regexp(t, `(?s)j2 .*bad .*j1 `, ok("agent-7", "jobs"))
	require.Contains(t, ok("agent-7", "why", "j1"), "succeeded")
	require.Contains(t, ok("agent-7", "cancel", "j2"), "cancel requested")
	ended("j2", "cancelled")
	require.Regexp(t, `1 +task.run +bad +s7`, ok("agent-7", "dead", "list"))
	require.Regexp(t, `subject +task.run.agent-7`, ok("agent-7", "dead", "get", "1"))
	require.Contains(t, ok("agent-7", "dead", "replay", "1"), "is back on task.run.agent-7")
	require.Equal(t, "hello\n", ok("agent-9", "run", "--session", "s9", "--", "echo", "hello"), "one who may read events follows")

	// Nobody gets further by asking past the publisher.
	refused := make(chan error, 100)
	nc, err := nats.Connect(g.as("agent-8"), nats.CustomInboxPrefix("_INBOX.agent-8"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	for _, subject := range []string{
		"api.job.get", "api.job.get.agent-7", "api.stats", "task.run", "task.run.agent-7", "high.task.run.agent-8",
		"event.s7.j1.cancel_requested", "$JS.API.STREAM.MSG.GET.EVENTS", "$JS.API.DIRECT.GET.EVENTS", "$JS.API.CONSUMER.CREATE.EVENTS", "again.task.run.agent-8",
	} {
		require.NoError(t, nc.Publish(subject, []byte(`{}`)))
		require.ErrorContains(t, next(t, refused), subject)
	}
	for _, subject := range []string{"event.>", "_INBOX.>", "_INBOX.agent-7.>", ">"} {
		sub, err := nc.SubscribeSync(subject)
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		require.ErrorContains(t, next(t, refused), "Permissions Violation for Subscription", sub.Subject)
	}
}

// --as and SANDJET_OWNER say who publishes and asks; they do not contradict --owner.
func TestAsAnOwner(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	r := d.publisher(t.Context(), nil, "--as", "ann", "run", "-d", "--json", "--", "true")
	require.Contains(t, r.stdout, `"subject":"task.run.ann"`)
	byEnv := func(a *App) {
		env := a.Env
		a.Env = func(k string) (string, bool) {
			if k == "SANDJET_OWNER" {
				return "ann", true
			}
			return env(k)
		}
	}
	r = d.publisher(t.Context(), byEnv, "pause", "-d", "--json", "s1")
	require.Contains(t, r.stdout, `"subject":"sandbox.pause.ann"`)
	r = d.publisher(t.Context(), byEnv, "run", "--owner", "ann", "-d", "--json", "--", "true")
	require.Contains(t, r.stdout, `"subject":"task.run.ann"`)
	r = d.publisher(t.Context(), byEnv, "run", "--owner", "bob", "-d", "--", "true")
	require.Equal(t, exitNotRun, r.code)
	require.Contains(t, r.stderr, "--owner bob is not the owner of --as (SANDJET_OWNER), ann")
	r = d.publisher(t.Context(), nil, "--as", "a.b", "jobs")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "is not an id")
	r = d.publisher(t.Context(), byEnv, "jobs")
	require.Contains(t, r.stderr, "no worker answers on api.job.list.ann")
}

// An owner may write no events: without a worker his cancel is not on record, and he is told.
func TestOwnerCancelsWithoutAWorker(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	signals, stderr, done := make(chan os.Signal), new(lockedBuffer), make(chan int, 1)
	go func() {
		done <- d.publisher(t.Context(), func(a *App) {
			a.hintAfter, a.Stderr, a.Signals = time.Millisecond, stderr, signals
		}, "--as", "ann", "run", "--id", "j1", "--", "true").code
	}()
	eventually(t, "hint", func() bool { return strings.Contains(stderr.String(), "no worker answers; job j1 stays in the queue") })
	interrupt(t, signals)
	eventually(t, "word of the cancel", func() bool {
		return strings.Contains(stderr.String(), "cancel job j1: no worker answers on api.job.cancel.ann")
	})
	h, err := d.log.History(t.Context(), events.Job{Session: "j1", ID: "j1"})
	require.NoError(t, err)
	require.False(t, h.Cancel.OK())
	interrupt(t, signals)
	require.Equal(t, exitCancelled, next(t, done))
}
