package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/lmittmann/tint"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/stack"
)

type demoOptions struct {
	logLevel string
}

// none is an environment without anything: a demo is the same everywhere.
func none(string) string { return "" }

// demoLimit is the longest a demo may take. It takes about fifteen seconds, where the
// machine has nothing else to do.
const demoLimit = 3 * time.Minute

// demo tells the main job once, on a stack of its own. It returns nil only if
// every step was checked true.
func (a app) demo(ctx context.Context, o demoOptions) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo took longer than %s", demoLimit))
	defer cancel()
	shown, err := a.logger(o.logLevel)
	if err != nil {
		return err
	}
	// Kept for the case that a step fails: then the worker's side is shown.
	var kept tail
	defer func() {
		if err != nil {
			kept.print(a.stderr, "The last the worker and the stack had to say:")
		}
	}()
	log := slog.New(slog.NewMultiHandler(shown.Handler(),
		tint.NewTextHandler(&kept, &tint.Options{Level: slog.LevelDebug, NoColor: true, TimeFormat: "15:04:05.000"})))

	t := newTale(a.stdout)
	t.step("start", "a stack of its own: NATS, Redis, sandbox server and a worker, on free ports")
	life := context.WithoutCancel(ctx)
	s, err := stack.Start(life, stack.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(life)) }()
	git, err := startGit(filepath.Join(s.DataDir, "git"), "", log)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer git.Close()
	w, err := startWorker(ctx, workerEnv(s, git.env(none), "off", none), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	t.ok("NATS %s, %s, sandboxes with isolation %q", dependency("github.com/nats-io/nats-server/v2"), s.Redis.Kind, s.E2B.Isolation())

	d, err := newDemo(ctx, t, s.NATSURL(), git)
	if err != nil {
		return err
	}
	defer d.close()
	return d.tell(ctx)
}

// A demoRun is a publisher: it knows NATS and nothing behind it.
type demoRun struct {
	*tale
	git     *repository
	session string

	nc      *nats.Conn
	acks    *natsx.Publisher
	jobs    *jobs.Publisher
	log     *events.Log
	ask     *query.Client
	objects jetstream.ObjectStore

	sandbox string // of the session, once it has one
	file    []byte // that was uploaded
	checked int
}

func newDemo(ctx context.Context, t *tale, natsURL string, git *repository) (_ *demoRun, err error) {
	d := &demoRun{tale: t, git: git, session: "demo"}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.nc, err = natsx.Connect(ctx, natsx.Config{URL: natsURL, Name: "sandjet-demo"}, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	js, err := jetstream.New(d.nc)
	if err != nil {
		return nil, err
	}
	if d.acks, err = natsx.NewPublisher(d.nc); err != nil {
		return nil, err
	}
	if d.log, err = events.Open(d.nc, d.acks, "", "/sandjet/demo"); err != nil {
		return nil, err
	}
	if d.objects, err = js.ObjectStore(ctx, "ARTIFACTS"); err != nil {
		return nil, fmt.Errorf("object bucket: %w", err)
	}
	d.jobs = jobs.NewPublisher(d.acks, "")
	d.ask = query.NewClient(d.nc, "", 0)
	return d, nil
}

func (d *demoRun) close() {
	if d.log != nil {
		_ = d.log.Close()
	}
	if d.acks != nil {
		_ = d.acks.Close()
	}
	if d.nc != nil {
		d.nc.Close()
	}
}

// tell goes through the steps and stops at the first that is not as it should.
func (d *demoRun) tell(ctx context.Context) error {
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"provision", d.provision},
		{"clone", d.clone},
		{"test", d.test},
		{"upload", d.upload},
		{"download", d.download},
		{"idle", d.idle},
		{"resume", d.resume},
		{"destroy", d.destroy},
		{"pull", d.pull},
	}
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			if ctx.Err() != nil {
				err = errors.Join(context.Cause(ctx), err)
			}
			return fmt.Errorf("demo: %s: %w", s.name, err)
		}
	}
	d.step("done", "%d steps, %d checks, all true", len(steps), d.checked)
	return nil
}

// must counts a check and fails with what was wrong.
func (d *demoRun) must(ok bool, format string, args ...any) error {
	if !ok {
		return fmt.Errorf(format, args...)
	}
	d.checked++
	return nil
}
