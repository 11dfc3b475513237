package chaos

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
)

// Passed reports whether every promise was kept, and no worker ended by itself.
func (r *Report) Passed() bool { return len(r.Result.Violations)+len(r.Exits) == 0 }

// Reports are those of a campaign's rounds, one or more.
type Reports []*Report

// Passed reports whether every round has.
func (rs Reports) Passed() bool {
	return !slices.ContainsFunc(rs, func(r *Report) bool { return !r.Passed() })
}

// sum adds up what each round has, by name.
func sum[K comparable](rs Reports, of func(*Report) map[K]int) map[K]int {
	all := map[K]int{}
	for _, r := range rs {
		for k, n := range of(r) {
			all[k] += n
		}
	}
	return all
}

// total adds up what each round has.
func total(rs Reports, of func(*Report) int) (n int) {
	for _, r := range rs {
		n += of(r)
	}
	return n
}

// Print writes the report.
func (rs Reports) Print(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("")
	for _, r := range rs {
		p("%s", r.line())
	}
	if len(rs) > 1 {
		p("all: %d jobs in %d sessions, %d faults of %d kinds asked and %d effective, %d violations",
			total(rs, func(r *Report) int { return len(r.Plan.Jobs) }), total(rs, func(r *Report) int { return r.Plan.Sessions() }),
			total(rs, func(r *Report) int { return len(r.Record.Faults) }), len(sum(rs, (*Report).asked)), total(rs, (*Report).effective),
			total(rs, func(r *Report) int { return len(r.Result.Violations) }))
	}
	p("jobs: %s", counts(sum(rs, func(r *Report) map[plan.Flavour]int { return r.Plan.Flavours() })))
	p("ends: %s", counts(sum(rs, (*Report).ends)))
	p("output compared: %d bytes; commands started: %d; sandboxes: %d", total(rs, (*Report).bytes),
		total(rs, func(r *Report) int { return len(r.Record.Runs) }), total(rs, func(r *Report) int { return len(r.Record.Boxes) }))
	p("calls of E2B's: %s", counts(sum(rs, func(r *Report) map[string]int { return r.Record.Calls })))
	rs.printFaults(w)
	rs.printTakeovers(w)
	explained := sum(rs, func(r *Report) map[string]int { return r.Result.Explained })
	for _, why := range slices.Sorted(maps.Keys(explained)) {
		p("explained %d: %s", explained[why], why)
	}
	rs.printVerdict(w)
}

// line is a round in one line.
func (r *Report) line() string {
	word := "PASS"
	if !r.Passed() {
		word = fmt.Sprintf("FAIL, %d violations, %d workers ended by themselves", len(r.Result.Violations), len(r.Exits))
	}
	return fmt.Sprintf("seed %d: %d jobs in %d sessions, %d faults asked and %d effective, %s: %s", r.Options.Plan.Seed, len(r.Plan.Jobs),
		r.Plan.Sessions(), len(r.Record.Faults), r.effective(), r.Took.Round(time.Second), word)
}

func (r *Report) asked() map[string]int { return r.kinds(func(check.Fault) bool { return true }) }
func (r *Report) real() map[string]int {
	return r.kinds(func(f check.Fault) bool { return f.Effective })
}

// kinds counts faults by kind.
func (r *Report) kinds(which func(check.Fault) bool) map[string]int {
	n := map[string]int{}
	for _, f := range r.Record.Faults {
		if which(f) {
			n[f.Kind]++
		}
	}
	return n
}

// effective is how many faults really were.
func (r *Report) effective() (n int) {
	for _, k := range r.real() {
		n += k
	}
	return n
}

func (r *Report) ends() map[events.Kind]int {
	n := map[events.Kind]int{}
	for _, j := range r.Record.Jobs {
		for _, e := range j.Events {
			if e.Kind.Terminal() {
				n[e.Kind]++
			}
		}
	}
	return n
}

// counts is a line of names and numbers, by name.
func counts[K ~string](n map[K]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%s %d", k, n[k]))
	}
	return strings.Join(out, ", ")
}

func (r *Report) bytes() (n int) {
	for _, j := range r.Record.Jobs {
		n += int(j.Bytes)
	}
	return n
}

// printFaults writes the table of faults and promises: how much each promise was
// checked on that lived while such a fault was under way.
func (rs Reports) printFaults(w io.Writer) {
	asked, real := sum(rs, (*Report).asked), sum(rs, (*Report).real)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	row := func(name string, asked, real any, of func(promise int) string) {
		fmt.Fprintf(t, "%s\t%v\t%v\t", name, asked, real)
		for n := 1; n <= check.Promises; n++ {
			fmt.Fprintf(t, "%s\t", of(n))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(w)
	row("fault", "asked", "effective", func(n int) string { return fmt.Sprint("p", n) })
	for _, k := range slices.Sorted(maps.Keys(asked)) {
		row(k, asked[k], real[k], func(n int) string {
			if real[k] == 0 {
				return "-"
			}
			return fmt.Sprint(total(rs, func(r *Report) int {
				if u := r.Result.Under[k]; u != nil {
					return u[n-1]
				}
				return 0
			}))
		})
	}
	row("checked in all", total(rs, func(r *Report) int { return len(r.Record.Faults) }), total(rs, (*Report).effective), func(n int) string {
		return fmt.Sprint(total(rs, func(r *Report) int { return r.Result.Checked[n] }))
	})
	row("violations", "", "", func(n int) string { return fmt.Sprint(total(rs, func(r *Report) int { return r.Result.Count(n) })) })
	_ = t.Flush()
	fmt.Fprintln(w)
}

// printTakeovers says how long jobs were without a worker.
func (rs Reports) printTakeovers(w io.Writer) {
	joined, late := 0, time.Duration(0)
	var all []check.Takeover
	for _, r := range rs {
		all = append(all, check.Takeovers(r.Record)...)
		late = max(late, r.Record.Late(r.Record.Began, r.Record.Ended))
		for _, j := range r.Record.Jobs {
			for _, e := range j.Events {
				if e.Kind == events.KindReattached {
					joined++
				}
			}
		}
	}
	prompt, others := delays(all)
	fmt.Fprintf(w, "takeovers: %d, running commands joined: %d\n", len(all), joined)
	fmt.Fprintf(w, "after a worker's death or freeze, nothing else being broken: %s; something else too: %s; AckWait %s\n",
		quantiles(prompt), quantiles(others), rs[0].Record.AckWait)
	fmt.Fprintf(w, "the machine was late by %s at worst\n", late.Round(time.Millisecond))
	slices.SortFunc(all, func(a, b check.Takeover) int { return cmp.Compare(b.After, a.After) })
	for i, t := range all {
		if t.Cause == nil || i == slowest || t.After <= rs[0].Record.AckWait+check.Spare {
			break
		}
		why := "no answer from the queue"
		if t.Excuse != nil {
			why = fmt.Sprintf("fault %d, %s of %s", t.Excuse.N, t.Excuse.Kind, t.Excuse.Target)
		}
		fmt.Fprintf(w, "  slow: %s was taken %s after fault %d, %s of %s; beside it: %s\n", t.Job.Key(), t.After.Round(10*time.Millisecond),
			t.Cause.N, t.Cause.Kind, t.Cause.Target, why)
	}
}

// slowest is how many slow takeovers are told.
const slowest = 5

// delays are how long jobs were without a worker after its death or freeze, by
// whether anything else was broken meanwhile.
func delays(all []check.Takeover) (prompt, others []time.Duration) {
	for _, t := range all {
		switch {
		case t.Prompt():
			prompt = append(prompt, t.After)
		case t.Cause != nil && (t.Cause.Kind == "worker-kill" || t.Cause.Kind == "worker-freeze"):
			others = append(others, t.After)
		}
	}
	return prompt, others
}

// quantiles says how many there are, and p50 and p99 of them.
func quantiles(d []time.Duration) string {
	n := len(d)
	if n == 0 {
		return "none"
	}
	slices.Sort(d)
	return fmt.Sprintf("%d, p50 %s, p99 %s", n, d[n/2].Round(10*time.Millisecond), d[min(n-1, n*99/100)].Round(10*time.Millisecond))
}

// printVerdict writes PASS, or what was broken in each round, with the history that
// shows the first.
func (rs Reports) printVerdict(w io.Writer) {
	if rs.Passed() {
		fmt.Fprintf(w, "PASS  %s\n", rs.command())
		return
	}
	for _, r := range rs {
		if !r.Passed() {
			fmt.Fprintf(w, "\n%s\n", r.line())
			r.printViolations(w)
		}
	}
	fmt.Fprintf(w, "FAIL  %s\n", rs.command())
}

// most is how many violations of a promise are told.
const most = 8

func (r *Report) printViolations(w io.Writer) {
	told := map[int]int{}
	for _, v := range r.Result.Violations {
		if told[v.Promise]++; told[v.Promise] <= most {
			fmt.Fprintf(w, "  %s\n", v)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(told)) {
		if more := told[n] - most; more > 0 {
			fmt.Fprintf(w, "  … and %d more of promise %d\n", more, n)
		}
	}
	for _, e := range r.Exits {
		fmt.Fprintf(w, "  a worker ended by itself: %s\n", e)
	}
	if vs := r.Result.Violations; len(vs) > 0 {
		r.printHistory(w, vs[0])
	}
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

// command is the command line that runs all rounds.
func (rs Reports) command() string {
	if len(rs) == 1 {
		return rs[0].Command()
	}
	return fmt.Sprintf("make chaos-long SEED=%d JOBS=%d FAULTS=%d ROUNDS=%d", rs[0].Options.Plan.Seed,
		total(rs, func(r *Report) int { return r.Options.Plan.Jobs }), total(rs, func(r *Report) int { return r.Options.Plan.Faults }), len(rs))
}
