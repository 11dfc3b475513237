package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
)

// control is a campaign that goes without a mechanism and must see what it is
// worth.
type control struct {
	off     string
	promise int // that is broken without it
	what    string
	plan    plan.Options
	pace    time.Duration
}

// spread is the time between two jobs of a control whose faults come when all jobs
// are published: by then some have run for a while, and none has ended.
const spread = 250 * time.Millisecond

// controls are small: each makes much of the one trouble that its mechanism is for.
var controls = []control{
	{"fence", 4, "events are published against the claim", plan.Options{
		Jobs: 10, Faults: 2, Calm: 10, Kinds: []string{"worker-freeze"}, Only: []plan.Flavour{plan.Long},
	}, spread},
	{"join", 2, "who comes next joins the running command", plan.Options{
		Jobs: 10, Faults: 2, Calm: 10, Kinds: []string{"worker-restart"}, Only: []plan.Flavour{plan.Long},
	}, spread},
	{"offsets", 3, "output goes on from where the stream has it", plan.Options{
		Jobs: 10, Faults: 3, Calm: 10, Kinds: []string{"worker-restart", "worker-kill"}, Only: []plan.Flavour{plan.Long},
	}, spread},
	{"lane", 5, "exclusive jobs of a session have the turn one at a time", plan.Options{
		Jobs: 16, Open: 3, Only: []plan.Flavour{plan.Steady, plan.Silent},
	}, 0},
	{"adopt", 7, "a creation without an answer is looked for", plan.Options{
		Jobs: 24, Faults: 3, Kinds: []string{"e2b-lost-create"}, Only: []plan.Flavour{plan.Quick, plan.Alone},
	}, 0},
	{"history", 1, "a job's log is read before it is taken up", plan.Options{
		Jobs: 24, Only: []plan.Flavour{plan.Duplicate},
	}, 0},
	{"rebuild", 9, "a view that was wiped is filled again", plan.Options{
		Jobs: 16, Only: []plan.Flavour{plan.Quick},
	}, 0},
	{"waits", 8, "quota, rate and outages spend no attempt", plan.Options{
		Jobs: 24, Faults: 4, Kinds: []string{"e2b-quota", "e2b-rate"}, Only: []plan.Flavour{plan.Quick, plan.Alone},
	}, 0},
	{"idleguard", 6, "nothing is paused while a job runs or waits", plan.Options{
		Jobs: 8, Idle: time.Second, Only: []plan.Flavour{plan.Long},
	}, 0},
	{"beat", 2, "a message in hand is kept from being delivered again", plan.Options{
		Jobs: 8, Only: []plan.Flavour{plan.Long},
	}, 0},
}

// abreast is how many controls run at a time: they wait more than they work.
const abreast = 4

// Controls runs the negative controls of those names, every one if there is none,
// and reports whether all were noticed.
func Controls(ctx context.Context, o Options, names []string, out io.Writer) (all bool, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(controls, func(c control) bool { return c.off == name }) {
			return false, fmt.Errorf("no control %q", name)
		}
	}
	const row = "%-10s %-8v %-12v %-8v %-8v %-8v %s\n"
	fmt.Fprintf(out, "\n"+row, "without", "promise", "violations", "of", "others", "took", "the mechanism")
	var mu sync.Mutex
	var group sync.WaitGroup
	places := make(chan struct{}, abreast)
	var errs []error
	missed := 0
	for _, c := range controls {
		if len(names) > 0 && !slices.Contains(names, c.off) {
			continue
		}
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			r, err := c.run(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("control %s: %w", c.off, err))
				return
			}
			n := r.Result.Count(c.promise)
			word := fmt.Sprint(n)
			if n == 0 {
				word = "0: NOT NOTICED"
				missed++
			}
			fmt.Fprintf(out, row, c.off, c.promise, word, r.Result.Checked[c.promise],
				len(r.Result.Violations)-n, r.Took.Round(100*time.Millisecond), c.what)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	if missed == 0 {
		fmt.Fprintf(out, "every control was noticed, seed %d\n", o.Plan.Seed)
	}
	return missed == 0, nil
}

// run runs one control.
func (c control) run(ctx context.Context, o Options) (*Report, error) {
	p := c.plan
	p.Seed, p.AckWait, p.Loud = o.Plan.Seed, o.Plan.AckWait, 1<<20
	return Run(ctx, Options{
		Plan: p, Nodes: 1, Workers: 2, Window: 24, Pace: c.pace, Off: c.off, Binary: o.Binary, Out: o.Out, Quiet: true,
	})
}
