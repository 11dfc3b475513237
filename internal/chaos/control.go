package chaos

import (
	"context"
	"fmt"
	"io"
	"slices"
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
}

// controls are small: each makes much of the one trouble that its mechanism is for.
var controls = []control{
	{"fence", 4, "events are published against the claim", plan.Options{
		Jobs: 10, Faults: 2, Kinds: []string{"worker-freeze"}, Only: []plan.Flavour{plan.Long}}},
	{"join", 2, "who comes next joins the running command", plan.Options{
		Jobs: 16, Faults: 2, Kinds: []string{"worker-restart"}, Only: []plan.Flavour{plan.Steady, plan.Silent}}},
	{"offsets", 3, "output goes on from where the stream has it", plan.Options{
		Jobs: 12, Faults: 4, Kinds: []string{"worker-restart", "worker-kill"}, Only: []plan.Flavour{plan.Long}}},
	{"lane", 5, "exclusive jobs of a session have the turn one at a time", plan.Options{
		Jobs: 16, Open: 3, Only: []plan.Flavour{plan.Steady, plan.Silent}}},
	{"adopt", 7, "a creation without an answer is looked for", plan.Options{
		Jobs: 24, Faults: 3, Kinds: []string{"e2b-lost-create"}, Only: []plan.Flavour{plan.Quick, plan.Alone}}},
	{"history", 1, "a job's log is read before it is taken up", plan.Options{
		Jobs: 24, Only: []plan.Flavour{plan.Duplicate}}},
	{"rebuild", 9, "a view that was wiped is filled again", plan.Options{
		Jobs: 16, Only: []plan.Flavour{plan.Quick}}},
	{"waits", 8, "quota, rate and outages spend no attempt", plan.Options{
		Jobs: 24, Faults: 4, Kinds: []string{"e2b-quota", "e2b-rate"}, Only: []plan.Flavour{plan.Quick, plan.Alone}}},
	{"idleguard", 6, "nothing is paused while a job runs or waits", plan.Options{
		Jobs: 8, Idle: time.Second, Only: []plan.Flavour{plan.Long}}},
	{"beat", 2, "a message in hand is kept from being delivered again", plan.Options{
		Jobs: 8, Only: []plan.Flavour{plan.Long}}},
}

// Controls runs the negative controls of those names, every one if there is none,
// and reports whether all were noticed.
func Controls(ctx context.Context, o Options, names []string, out io.Writer) (all bool, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(controls, func(c control) bool { return c.off == name }) {
			return false, fmt.Errorf("no control %q", name)
		}
	}
	all = true
	const row = "%-10s %-8v %-12v %-8v %-8v %-8v %s\n"
	fmt.Fprintf(out, "\n"+row, "without", "promise", "violations", "of", "others", "took", "the mechanism")
	for _, c := range controls {
		if len(names) > 0 && !slices.Contains(names, c.off) {
			continue
		}
		p := c.plan
		p.Seed, p.AckWait, p.Loud = o.Plan.Seed, o.Plan.AckWait, 1<<20
		r, err := Run(ctx, Options{
			Plan: p, Nodes: 1, Workers: 2, Window: 24, Off: c.off, Binary: o.Binary, Out: out, Quiet: true,
		})
		if err != nil {
			return false, fmt.Errorf("control %s: %w", c.off, err)
		}
		n := r.Result.Count(c.promise)
		word := fmt.Sprint(n)
		if n == 0 {
			word, all = "0: NOT NOTICED", false
		}
		fmt.Fprintf(out, row, c.off, c.promise, word, r.Result.Checked[c.promise],
			len(r.Result.Violations)-n, r.Took.Round(100*time.Millisecond), c.what)
	}
	if all {
		fmt.Fprintln(out, "every control was noticed")
	}
	return all, nil
}
