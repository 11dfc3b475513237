package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/chaos/rig"
)

// SoakOptions says how long to soak.
type SoakOptions struct {
	Seed  uint64
	For   time.Duration
	Every time.Duration // between two looks
	Out   io.Writer
}

// soakRate is the load: jobs that are published in a minute, at most.
const soakRate = 90

// Soak runs a steady load with mild faults, looks at what the processes hold, and
// reports whether that stays flat.
func Soak(ctx context.Context, o SoakOptions) (flat bool, err error) {
	bin, err := os.MkdirTemp("", "sandjet-soak-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(bin)
	worker, err := rig.Build(bin)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := max(20, int(o.For.Minutes()*soakRate))
	c, err := prepare(Options{
		Plan: plan.Options{
			Seed: o.Seed, Jobs: n, Faults: n / 20, Loud: 1 << 20, Open: 8,
			Kinds: []string{"redis-wipe", "e2b-5xx", "e2b-rate", "e2b-cut-stream", "sandbox-dies", "slow-worker-nats", "cut-worker-redis"},
		},
		Nodes: 1, Workers: 2, Window: 16, Binary: worker, Out: o.Out, Quiet: true,
		Pace: o.For / time.Duration(n),
	})
	if err != nil {
		return false, err
	}
	defer func() { cancel(); c.close() }()
	if err := c.start(ctx); err != nil {
		return false, fmt.Errorf("soak: %w", err)
	}
	series := c.watch(ctx, o.Every)
	if err := c.work(ctx); err != nil {
		return false, fmt.Errorf("soak: %w", err)
	}
	return c.verdict(o.Out, series()), ctx.Err()
}

// watch reads what is held, again and again, until the returned func is called.
func (c *Campaign) watch(ctx context.Context, every time.Duration) (stop func() []check.Series) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan []check.Series)
	go func() {
		book := check.NewBook()
		for ctx.Err() == nil {
			c.measure(ctx, book)
			pause(ctx, every)
		}
		done <- book.All()
	}()
	return func() []check.Series {
		cancel()
		return <-done
	}
}

// measure takes one look.
func (c *Campaign) measure(ctx context.Context, book *check.Book) {
	now := time.Now()
	for _, w := range c.rig.Workers {
		p := w.Process()
		book.Add("memory of "+w.Name+" in MiB", now, float64(p.Memory())/(1<<20), 32)
		book.Add("threads of "+w.Name, now, float64(p.Threads()), 16)
		book.Add("files of "+w.Name, now, float64(p.Files()), 64)
	}
	r := c.rig.Redis.Client()
	defer r.Close()
	if info, err := r.Info(ctx, "memory").Result(); err == nil {
		var used float64
		for line := range strings.Lines(info) {
			if rest, ok := strings.CutPrefix(line, "used_memory:"); ok {
				_, _ = fmt.Sscan(rest, &used)
			}
		}
		book.Add("memory of redis in MiB", now, used/(1<<20), 16)
	}
	for _, name := range []string{"JOBS", "SCHEDULES"} {
		if s, err := c.js.Stream(ctx, name); err == nil {
			book.Add("messages in "+name, now, float64(s.CachedInfo().State.Msgs), 40)
		}
	}
}

// verdict prints what was seen and whether it stayed flat.
func (c *Campaign) verdict(out io.Writer, all []check.Series) bool {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nwhat\tlooks\tfirst\tlast\tmost\ta quarter later\t")
	flat := true
	for _, s := range all {
		word := "flat"
		if !s.Flat() {
			word, flat = "GROWS", false
		}
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%.0f\t%+.1f\t%s\n", s.What, len(s.Points), s.First(), s.Last(), s.Most(), s.Growth(), word)
	}
	_ = t.Flush()
	_, ended, _ := c.board.state()
	word := "PASS"
	if !flat {
		word = "FAIL"
	}
	fmt.Fprintf(out, "%s  %d jobs ended, %d faults\n", word, ended, len(c.rec.Faults))
	return flat
}
