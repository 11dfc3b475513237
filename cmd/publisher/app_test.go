package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// ran is what one command line did.
type ran struct {
	code           int
	stdout, stderr string
}

// publisher runs a command line in this process. Signals stand for Ctrl-C.
func (d *deployment) publisher(ctx context.Context, change func(*App), args ...string) ran {
	var out, err bytes.Buffer
	app := &App{
		Env: func(k string) (string, bool) {
			if k == "NATS_URL" {
				return d.url, true
			}
			return "", false
		},
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err,
	}
	if change != nil {
		change(app)
	}
	code := app.Run(ctx, append([]string{"publisher"}, args...))
	return ran{code, out.String(), err.String()}
}

// noise is n bytes that are neither text nor lines, but for a few.
func noise(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, seed))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// finished writes a whole job of noise and returns what it wrote.
func (d *deployment) finished(t *testing.T, j events.Job) (stdout, stderr []byte) {
	t.Helper()
	a, err := d.act(t.Context(), j)
	require.NoError(t, err)
	stdout, stderr = noise(1, 300_000), noise(2, 150_000)
	for i := range 3 {
		_, err := a.out[events.Stdout].Write(stdout[i*100_000 : (i+1)*100_000])
		require.NoError(t, err)
		_, err = a.out[events.Stderr].Write(stderr[i*50_000 : (i+1)*50_000])
		require.NoError(t, err)
	}
	require.NoError(t, a.finish(t.Context(), events.Succeeded, ""))
	return stdout, stderr
}

func TestOutputIsByteExact(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	stdout, stderr := d.finished(t, events.Job{Session: "s1", ID: "j1"})

	r := d.publisher(t.Context(), nil, "follow", "--verify", "--session", "s1", "j1")
	require.Equal(t, 0, r.code, r.stderr)
	require.True(t, r.stdout == string(stdout), "stdout differs, %d bytes of %d", len(r.stdout), len(stdout))
	require.True(t, r.stderr == string(stderr), "stderr differs, %d bytes of %d", len(r.stderr), len(stderr))

	r = d.publisher(t.Context(), nil, "follow", "--verify", "--session", "s1", "--from", "123456", "--from-stderr", "150000", "j1")
	require.Equal(t, 0, r.code, r.stderr)
	require.True(t, r.stdout == string(stdout[123456:]), "stdout differs, %d bytes of %d", len(r.stdout), len(stdout)-123456)
	require.Empty(t, r.stderr)
}

func TestJSONHoldsTheSameBytes(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	stdout, stderr := d.finished(t, events.Job{Session: "s1", ID: "j1"})
	r := d.publisher(t.Context(), nil, "follow", "--json", "--session", "s1", "j1")
	require.Equal(t, 0, r.code)
	require.Empty(t, r.stderr)

	got := map[events.Kind][]byte{}
	var last line
	for text := range strings.Lines(r.stdout) {
		last = line{}
		require.NoError(t, json.Unmarshal([]byte(text), &last), text)
		if !last.Kind.Output() {
			continue
		}
		require.Equal(t, int64(len(got[last.Kind])), *last.Offset)
		if last.Text != nil {
			last.Base64 = []byte(*last.Text)
		}
		got[last.Kind] = append(got[last.Kind], last.Base64...)
	}
	require.Equal(t, events.Succeeded, last.Kind)
	require.True(t, bytes.Equal(stdout, got[events.Stdout]))
	require.True(t, bytes.Equal(stderr, got[events.Stderr]))
}

// What the stream no longer holds is said, not skipped.
func TestGapIsAnError(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	ctx := t.Context()
	a, err := d.act(ctx, events.Job{Session: "s1", ID: "j1"})
	require.NoError(t, err)
	for _, s := range []string{"one\n", "two\n", "three\n"} {
		require.NoError(t, a.say(ctx, events.Stdout, s))
	}
	require.NoError(t, a.finish(ctx, events.Succeeded, ""))
	s, err := d.js.Stream(ctx, events.StreamEvents)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(ctx, a.Token()+2), "the second line")

	r := d.publisher(ctx, nil, "follow", "--session", "s1", "j1")
	require.Equal(t, exitNotRun, r.code)
	require.Equal(t, "one\nthree\n", r.stdout)
	require.Contains(t, r.stderr, "stdout bytes 4 to 8 are no longer in the stream\n")
	require.Contains(t, r.stderr, "publisher: job j1 succeeded, but its output is not whole\n")
}

func TestHintWithoutWorker(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	signals := make(chan os.Signal)
	stderr := new(lockedBuffer)
	done := make(chan int, 1)
	go func() {
		done <- d.publisher(ctx, func(a *App) {
			a.hintAfter, a.Stderr, a.Signals = time.Millisecond, stderr, signals
		}, "run", "--id", "j1", "--", "true").code
	}()
	eventually(t, "hint", func() bool {
		return strings.Contains(stderr.String(), "publisher: no worker answers; job j1 stays in the queue until one comes\n")
	})
	// Without a worker the cancel is written down all the same.
	interrupt(t, signals)
	job := events.Job{Session: "j1", ID: "j1"}
	eventually(t, "cancel on record", func() bool {
		h, err := d.log.History(ctx, job)
		return err == nil && h.Cancel.OK()
	})
	interrupt(t, signals)
	require.Equal(t, exitCancelled, next(t, done))
}

// interrupt gives a publisher in this process a Ctrl-C.
func interrupt(t *testing.T, signals chan<- os.Signal) {
	t.Helper()
	select {
	case signals <- os.Interrupt:
	case <-time.After(patience):
		t.Fatal("nobody takes the signal")
	}
}

// next is what comes from a channel.
func next[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("no %T within %s", v, patience)
	}
	return v
}

// A publisher that nobody can store for gives up, and says where to look.
func TestPublishWithoutStreams(t *testing.T) {
	t.Parallel()
	_, url, err := serveNATS(t.TempDir(), t.Cleanup)
	require.NoError(t, err)
	d := &deployment{url: url}
	r := d.publisher(t.Context(), nil, "--timeout", "300ms", "run", "--", "true")
	require.Equal(t, exitNotRun, r.code)
	require.Contains(t, r.stderr, "publish task.run")
	require.Contains(t, r.stderr, "publisher doctor")
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	r := d.publisher(t.Context(), nil, "--namespace", "staging", "--timeout", "300ms", "run", "-d", "--", "true")
	require.Equal(t, exitNotRun, r.code, "another namespace has no streams here")
	s, err := d.js.Stream(t.Context(), jobs.StreamJobs)
	require.NoError(t, err)
	require.Zero(t, s.CachedInfo().State.Msgs)
}

// The publisher reaches neither Redis nor E2B, and carries no server.
func TestLinksOnlyWhatItNeeds(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, banned := range []string{
		"github.com/redis/go-redis", "github.com/alicebob/miniredis", "github.com/nats-io/nats-server",
		"github.com/stretchr/testify", "github.com/creack/pty", "connectrpc.com/",
		"sandjet/internal/store", "sandjet/internal/e2b", "sandjet/internal/spool", "sandjet/internal/worker",
		"sandjet/internal/ops", "sandjet/internal/stack",
	} {
		for pkg := range strings.Lines(string(out)) {
			require.NotContains(t, pkg, banned)
		}
	}
}
