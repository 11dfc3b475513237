package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/events"
)

// Passed reports whether every promise was kept.
func (r *Report) Passed() bool { return len(r.Result.Violations) == 0 }

// Effective is how many faults really were.
func (r *Report) Effective() (n int) {
	for _, f := range r.Record.Faults {
		if f.Effective {
			n++
		}
	}
	return n
}

// Print writes the report.
func (r *Report) Print(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	o := r.Options.Plan
	p("")
	p("seed %d: %d jobs in %d sessions, %d faults asked and %d effective, %s", o.Seed, len(r.Plan.Jobs), r.Plan.Sessions(),
		len(r.Record.Faults), r.Effective(), r.Took.Round(time.Second))
	p("jobs: %s", strings.Join(r.Plan.Counts(), ", "))
	p("ends: %s", r.ends())
	p("output compared: %d bytes; commands started: %d; sandboxes: %d", r.bytes(), len(r.Record.Runs), len(r.Record.Boxes))
	r.printFaults(w)
	r.printTakeovers(w)
	for why, n := range r.Result.Explained {
		p("explained %d: %s", n, why)
	}
	for _, e := range r.Exits {
		p("a worker ended by itself: %s", e)
	}
	r.printVerdict(w)
}

func (r *Report) ends() string {
	n := map[string]int{}
	for _, j := range r.Record.Jobs {
		for _, e := range j.Events {
			if e.Kind.Terminal() {
				n[string(e.Kind)]++
			}
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%s %d", k, n[k]))
	}
	return strings.Join(out, ", ")
}

func (r *Report) bytes() (n int64) {
	for _, j := range r.Record.Jobs {
		n += j.Bytes
	}
	return n
}

// printFaults writes the table of faults and promises: how much each promise was
// checked on that lived while such a fault was under way.
func (r *Report) printFaults(w io.Writer) {
	asked, real := map[string]int{}, map[string]int{}
	for _, f := range r.Record.Faults {
		asked[f.Kind]++
		if f.Effective {
			real[f.Kind]++
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nfault\tasked\teffective\t")
	for n := 1; n <= check.Promises; n++ {
		fmt.Fprintf(t, "p%d\t", n)
	}
	fmt.Fprintln(t)
	for _, k := range slices.Sorted(maps.Keys(asked)) {
		fmt.Fprintf(t, "%s\t%d\t%d\t", k, asked[k], real[k])
		u := r.Result.Under[k]
		for n := range check.Promises {
			if u == nil {
				fmt.Fprint(t, "-\t")
			} else {
				fmt.Fprintf(t, "%d\t", u[n])
			}
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintf(t, "checked in all\t\t\t")
	for n := 1; n <= check.Promises; n++ {
		fmt.Fprintf(t, "%d\t", r.Result.Checked[n])
	}
	fmt.Fprintf(t, "\nviolations\t\t\t")
	for n := 1; n <= check.Promises; n++ {
		fmt.Fprintf(t, "%d\t", r.Result.Count(n))
	}
	fmt.Fprintln(t)
	_ = t.Flush()
	fmt.Fprintln(w)
}

// printTakeovers says how long jobs were without a worker.
func (r *Report) printTakeovers(w io.Writer) {
	var killed []time.Duration
	all := check.Takeovers(r.Record)
	for _, t := range all {
		if t.Cause != nil && (t.Cause.Kind == "worker-kill" || t.Cause.Kind == "worker-freeze") {
			killed = append(killed, t.After)
		}
	}
	joined := 0
	for _, j := range r.Record.Jobs {
		for _, e := range j.Events {
			if e.Kind == events.KindReattached {
				joined++
			}
		}
	}
	slices.Sort(killed)
	fmt.Fprintf(w, "takeovers: %d, running commands joined: %d", len(all), joined)
	if n := len(killed); n > 0 {
		fmt.Fprintf(w, "; after a worker's death or freeze (%d): p50 %s, p99 %s, AckWait %s",
			n, killed[n/2].Round(10*time.Millisecond), killed[min(n-1, n*99/100)].Round(10*time.Millisecond), r.Record.AckWait)
	}
	fmt.Fprintln(w)
}

// printVerdict writes PASS, or the first violation with the history that shows it.
func (r *Report) printVerdict(w io.Writer) {
	if r.Passed() {
		fmt.Fprintf(w, "PASS  %s\n", r.Command())
		return
	}
	vs := r.Result.Violations
	fmt.Fprintf(w, "\nFAIL: %d violations\n", len(vs))
	for i, v := range vs {
		if i == 20 {
			fmt.Fprintf(w, "  … and %d more\n", len(vs)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", v)
	}
	r.printHistory(w, vs[0])
	fmt.Fprintf(w, "again: %s\n", r.Command())
}

// printHistory writes what shows a violation: the job's events, the session's
// states, the commands' own word and the faults of that time.
func (r *Report) printHistory(w io.Writer, v check.Violation) {
	fmt.Fprintf(w, "\nthe history that shows the first, %s\n", v)
	from, to := r.Record.Began, r.Record.Ended
	if v.Job != nil {
		for _, l := range v.Job.Show() {
			fmt.Fprintf(w, "  %s\n", l)
		}
		if n := len(v.Job.Events); n > 0 {
			from, to = v.Job.Events[0].Time.Add(-5*time.Second), v.Job.Events[n-1].Time
		}
	}
	for _, s := range r.Record.States[v.Session] {
		fmt.Fprintf(w, "  %s #%d session %s generation %d sandbox %s by job %s of %s %s\n", s.Time.Format("15:04:05.000"), s.Seq, s.State,
			s.Generation, s.SandboxID, s.Job, s.Worker, s.Reason)
	}
	for _, u := range r.Record.Runs {
		if u.Session == v.Session && (v.Job == nil || u.Job == v.Job.Plan.ID) {
			fmt.Fprintf(w, "  ledger: %s\n", u)
		}
	}
	for _, f := range r.Record.Faults {
		if f.From.Before(to) && from.Before(f.To) {
			fmt.Fprintf(w, "  %s to %s fault %d %s of %s %s\n", f.From.Format("15:04:05.000"), f.To.Format("15:04:05.000"), f.N, f.Kind, f.Target, f.Note)
		}
	}
	if r.Dir != "" {
		fmt.Fprintf(w, "  logs and data: %s\n", r.Dir)
	}
}

// Command is the command line that runs the same campaign.
func (r *Report) Command() string {
	o := r.Options.Plan
	s := fmt.Sprintf("make chaos-long SEED=%d JOBS=%d FAULTS=%d", o.Seed, o.Jobs, o.Faults)
	if len(o.Kinds) > 0 {
		s += fmt.Sprintf(" KINDS=%s", strings.Join(o.Kinds, ","))
	}
	if r.Options.Off != "" {
		s += " OFF=" + r.Options.Off
	}
	return s
}
