package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// deploymentOf is the script's NATS, as the command "nats" started it.
func deploymentOf(ts *testscript.TestScript) *deployment {
	d, ok := ts.Value(deploymentKey{}).(**deployment)
	if !ok || *d == nil {
		ts.Fatalf("this script has not called nats")
	}
	return *d
}

type deploymentKey struct{}

func startNATS(ts *testscript.TestScript, _ bool, args []string) {
	// The store lies outside the script's work folder, which goes first.
	dir, err := os.MkdirTemp("", "publisher-nats-")
	ts.Check(err)
	ts.Defer(func() { _ = os.RemoveAll(dir) })
	if len(args) > 0 && args[0] == "-bare" {
		_, url, err := serveNATS(dir, ts.Defer)
		ts.Check(err)
		ts.Setenv("NATS_URL", url)
		return
	}
	d, err := deploy(dir, ts.Defer)
	ts.Check(err)
	*ts.Value(deploymentKey{}).(**deployment) = d
	ts.Setenv("NATS_URL", d.url)
}

func startWorker(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(strings.Join(args, ""))
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(deploymentOf(ts).perform(dir, ts.Defer))
}

func queued(ts *testscript.TestScript, _ bool, args []string) {
	s, err := deploymentOf(ts).js.Stream(context.Background(), jobs.StreamJobs)
	ts.Check(err)
	if got := strconv.FormatUint(s.CachedInfo().State.Msgs, 10); len(args) != 1 || got != args[0] {
		ts.Fatalf("%s jobs are queued, want %s", got, args)
	}
}

func objects(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	b, err := deploymentOf(ts).js.ObjectStore(ctx, events.BucketArtifact)
	ts.Check(err)
	all, err := b.List(ctx)
	if !errors.Is(err, jetstream.ErrNoObjectsFound) {
		ts.Check(err)
	}
	if got := strconv.Itoa(len(all)); len(args) != 1 || got != args[0] {
		ts.Fatalf("%s objects in the bucket, want %s", got, args)
	}
}

// playHistory writes the events of a job that nobody runs, one a line:
//
//	claimed
//	stdout TEXT        with Go escapes; stderr alike
//	succeeded [JSON]   or failed, cancelled, dead; JSON amends the outcome
func playHistory(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: history SESSION JOB FILE")
	}
	ctx := context.Background()
	a, err := deploymentOf(ts).act(ctx, events.Job{Session: args[0], ID: args[1]})
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[2])) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch k := events.Kind(kind); {
		case k == events.KindClaimed:
		case k.Output():
			text, err := strconv.Unquote(`"` + rest + `"`)
			ts.Check(err)
			ts.Check(a.say(ctx, k, text))
		case k.Terminal():
			ts.Check(a.finish(ctx, k, rest))
		default:
			ts.Fatalf("history: %q is no event", line)
		}
	}
}

// actor is one claimed job whose events a test writes itself.
type actor struct {
	*events.Claim
	out map[events.Kind]*events.Output
}

func (d *deployment) act(ctx context.Context, j events.Job) (*actor, error) {
	c, err := d.log.Claim(ctx, j, events.Claimed{Worker: "test", Attempt: 1}, 0)
	if err != nil {
		return nil, err
	}
	return &actor{Claim: c, out: map[events.Kind]*events.Output{
		events.Stdout: c.Output(events.Stdout, 0, events.OutputOptions{}),
		events.Stderr: c.Output(events.Stderr, 0, events.OutputOptions{}),
	}}, nil
}

// say writes output and waits until it is stored, as an event of its own.
func (a *actor) say(ctx context.Context, k events.Kind, text string) error {
	if _, err := a.out[k].Write([]byte(text)); err != nil {
		return err
	}
	return a.out[k].Flush(ctx)
}

// finish ends the job, with an outcome that fits what was said.
func (a *actor) finish(ctx context.Context, k events.Kind, amend string) error {
	o := events.Outcome{Class: string(k), Attempts: 1}
	o.StdoutBytes, o.StdoutSHA256 = a.out[events.Stdout].Offset(), a.out[events.Stdout].Sum()
	o.StderrBytes, o.StderrSHA256 = a.out[events.Stderr].Offset(), a.out[events.Stderr].Sum()
	if k == events.Succeeded {
		o.Class = string(jobs.ClassOK)
	}
	if amend != "" {
		if err := json.Unmarshal([]byte(amend), &o); err != nil {
			return err
		}
	}
	for _, out := range a.out {
		if err := out.Close(ctx); err != nil {
			return err
		}
	}
	return a.End(ctx, k, o)
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// eventually waits for what another goroutine or process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 5*time.Millisecond, what)
}
