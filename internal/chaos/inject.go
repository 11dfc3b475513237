package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/chaos/plan"
)

// beside is how many faults of a class are under way at once, where it is not one.
// Those of the sandbox server wait for calls, each for its own, and do not disturb
// each other.
var beside = map[string]int{plan.Sandboxes: 6}

// injector does faults, those of most classes one after the other.
type injector struct {
	c      *Campaign
	lines  map[string]chan *plan.Fault
	group  sync.WaitGroup
	expert map[string]expert
}

// hit is what became of a fault.
type hit struct {
	target    string
	from      time.Time // when it took hold, if not at once
	effective bool
	note      string
}

// An expert does one kind of fault, and returns when what was broken is whole
// again.
type expert func(ctx context.Context, f *plan.Fault) hit

func (c *Campaign) injector(ctx context.Context) *injector {
	in := &injector{c: c, lines: map[string]chan *plan.Fault{}, expert: map[string]expert{}}
	for _, more := range []map[string]expert{c.workerFaults(), c.natsFaults(), c.redisFaults(), c.boxFaults(), c.wayFaults()} {
		for name, e := range more {
			in.expert[name] = e
		}
	}
	for _, class := range []string{plan.Workers, plan.NATS, plan.Redis, plan.Sandboxes, plan.Network} {
		line := make(chan *plan.Fault, 1)
		in.lines[class] = line
		for range max(1, beside[class]) {
			in.group.Go(func() {
				for f := range line {
					in.do(ctx, f)
				}
			})
		}
	}
	c.beside.Go(func() { c.supervise(ctx) })
	return in
}

// hand gives a fault to its class; it waits while that class is behind.
func (in *injector) hand(ctx context.Context, f *plan.Fault) {
	select {
	case in.lines[f.Class] <- f:
	case <-ctx.Done():
	}
}

// done waits until all faults are over.
func (in *injector) done() {
	for _, line := range in.lines {
		close(line)
	}
	in.group.Wait()
}

func (in *injector) do(ctx context.Context, f *plan.Fault) {
	if ctx.Err() != nil {
		return
	}
	from := time.Now()
	h := in.expert[f.Kind](ctx, f)
	if !h.from.IsZero() {
		from = h.from
	}
	done := check.Fault{
		N: f.N, Kind: f.Kind, Class: f.Class, Target: h.target, From: from, To: time.Now(), Effective: h.effective, Note: h.note,
	}
	in.c.mu.Lock()
	in.c.rec.Faults = append(in.c.rec.Faults, done)
	in.c.mu.Unlock()
	word := "done"
	if !h.effective {
		word = "NOT effective"
	}
	in.c.say("fault %d %s of %s: %s after %s %s", f.N, f.Kind, h.target, word, done.To.Sub(from).Round(time.Millisecond), h.note)
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func tokens(subject string) []string { return strings.Split(subject, ".") }

// failed is a fault that could not be done.
func failed(target string, err error) hit { return hit{target: target, note: fmt.Sprint(err)} }
