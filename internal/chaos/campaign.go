package chaos

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/chaos/rig"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
)

// Options says what campaign to run.
type Options struct {
	Plan    plan.Options
	Nodes   int           // NATS servers; 3
	Workers int           // 3
	Window  int           // jobs under way at a time; 40
	Pace    time.Duration // between two publications; 0 is as fast as there is room
	Off     string        // the mechanism to go without, for a control
	Binary  string        // the worker, built with the tag faultpoints; empty builds one
	Dir     string        // for data and logs; empty is a temporary one
	Keep    bool          // leave the directory there also if every promise was kept
	Tag     string        // stands before each line of progress
	Out     io.Writer
	Quiet   bool // no line of progress
}

// Campaign is one run of a plan.
type Campaign struct {
	o    Options
	plan *plan.Plan
	rig  *rig.Rig
	rec  *check.Record
	dir  string
	out  io.Writer

	nc    *nats.Conn
	js    jetstream.JetStream
	pub   *natsx.Publisher
	facts *events.Log
	jobs  *jobs.Publisher
	board *board

	beside sync.WaitGroup // what runs until the campaign's context ends

	mu               sync.Mutex
	killed           map[string]bool // sandboxes that the campaign has killed
	exits            []string        // workers that ended by themselves
	pulses, silences []check.Pulse
}

// Report is what a campaign came to.
type Report struct {
	Options Options
	Plan    *plan.Plan
	Record  *check.Record
	Result  *check.Result
	Exits   []string
	Took    time.Duration
	Dir     string // where the logs are, if they were kept
}

// Run runs a campaign to its end. An error means that it could not be run; broken
// promises are in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	c, err := prepare(o)
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); c.close() }()
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	c.rec.Began = time.Now()
	if err := c.work(ctx); err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	c.settle(ctx)
	c.rec.Ended = time.Now()
	if err := c.gather(ctx); err != nil {
		return nil, fmt.Errorf("campaign: gather what happened: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Report{Options: o, Plan: c.plan, Record: c.rec, Result: check.All(c.rec), Exits: c.exits, Took: time.Since(begun)}
	if c.o.Keep = o.Keep || o.Off == "" && !r.Passed(); c.o.Keep {
		r.Dir = c.dir
	}
	return r, nil
}

func prepare(o Options) (*Campaign, error) {
	for _, d := range []struct {
		v   *int
		def int
	}{{&o.Nodes, 3}, {&o.Workers, 3}, {&o.Window, 40}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	p, err := plan.New(o.Plan)
	if err != nil {
		return nil, err
	}
	c := &Campaign{o: o, plan: p, dir: o.Dir, out: o.Out, killed: map[string]bool{}, board: newBoard()}
	if c.out == nil {
		c.out = io.Discard
	}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "sandjet-chaos-"); err != nil {
			return nil, err
		}
	}
	c.rec = &check.Record{
		AckWait: p.AckWait, Idle: idleTimeout(p.Options), Grace: orphanGrace,
		States: map[string][]check.State{}, Truth: map[string]string{}, View: map[string]string{}, Rebuilt: map[string]string{},
	}
	return c, nil
}

// idleTimeout is that of sessions that name none.
func idleTimeout(o plan.Options) time.Duration {
	if o.Idle > 0 {
		return o.Idle
	}
	return 5 * time.Second
}

// start brings the rig up, and what the campaign itself needs of it.
func (c *Campaign) start(ctx context.Context) (err error) {
	c.rig, err = rig.Start(rig.Options{
		Dir: c.dir, Nodes: c.o.Nodes, Workers: c.o.Workers, AckWait: c.plan.AckWait, Idle: c.rec.Idle,
		Off: c.o.Off, Binary: c.o.Binary,
	})
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if c.nc, err = natsx.Connect(ctx, natsx.Config{URL: c.rig.NATSURL(), Name: "campaign"}, log); err != nil {
		return err
	}
	if c.js, err = jetstream.New(c.nc); err != nil {
		return err
	}
	if c.pub, err = natsx.NewPublisher(c.nc); err != nil {
		return err
	}
	if c.facts, err = events.Open(c.nc, c.pub, "", "/sandjet/campaign"); err != nil {
		return err
	}
	c.jobs = jobs.NewPublisher(c.pub, "")
	if err := c.probe(ctx); err != nil {
		return err
	}
	if err := c.rig.StartWorkers(); err != nil {
		return err
	}
	c.say("the rig stands: %d NATS, %d workers, in %s", c.o.Nodes, c.o.Workers, c.dir)
	return c.stock(ctx)
}

// probe makes a stream of the campaign's own as soon as the cluster can: where a
// publish to it is taken, and where not, shows which servers are cut off.
func (c *Campaign) probe(ctx context.Context) error {
	return until(ctx, 90*time.Second, func(ctx context.Context) error {
		_, err := c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "PROBE", Subjects: []string{"probe.>"}, Replicas: c.o.Nodes, MaxMsgs: 1000,
		})
		return err
	})
}

// stock puts the files that uploads take into the object bucket.
func (c *Campaign) stock(ctx context.Context) error {
	return until(ctx, time.Minute, func(ctx context.Context) error {
		store, err := c.js.ObjectStore(ctx, events.BucketArtifact)
		if err != nil {
			return err
		}
		for name := range plan.Objects() {
			if _, err := store.PutBytes(ctx, name, plan.ObjectBytes(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// until tries something until it works or the time is over.
func until(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		once, done := context.WithTimeout(ctx, 10*time.Second)
		err := try(once)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("within %s: %w", limit, err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// say prints a line of progress.
func (c *Campaign) say(format string, args ...any) {
	if !c.o.Quiet {
		fmt.Fprintf(c.out, "%s  %s"+format+"\n", append([]any{time.Now().Format("15:04:05"), c.o.Tag}, args...)...)
	}
}

// close ends everything. The context of what runs beside must have ended: who
// starts workers again must not do so now.
func (c *Campaign) close() {
	c.beside.Wait()
	if c.facts != nil {
		_ = c.facts.Close()
	}
	if c.pub != nil {
		_ = c.pub.Close()
	}
	if c.nc != nil {
		c.nc.Close()
	}
	if c.rig != nil {
		c.rig.Stop()
	}
	if !c.o.Keep {
		_ = os.RemoveAll(c.dir)
	}
}
