package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/sandjet/sandjet/internal/events"
)

// runs are the ledger's entries by job.
func (r *Result) runs() map[string][]Run {
	out := map[string][]Run{}
	for _, run := range r.r.Runs {
		k := run.Session + "/" + run.Job
		out[k] = append(out[k], run)
	}
	return out
}

// oneStart is promise 2: a command is started at most once an attempt, in the
// sandbox's own count, and an attempt is only ever spent by a retry.
func oneStart(r *Result) {
	runs := r.runs()
	for _, j := range r.r.Jobs {
		count := map[int]int{}
		for _, run := range runs[j.Key()] {
			count[run.Attempt]++
			r.saw(2, 1, run.Start, later(run.End, run.Start))
		}
		for attempt, n := range count {
			if n > 1 {
				r.job(2, j, "attempt %d was started %d times", attempt, n)
			}
		}
		told := map[int]int{}
		for _, e := range j.of(events.KindStarted) {
			told[decode[events.Started](e).Attempt]++
		}
		for attempt, n := range told {
			if n > 1 && j.Plan.Command() {
				r.job(2, j, "attempt %d tells of %d starts", attempt, n)
			}
		}
		if end, out, ok := j.end(); ok && end.Kind == events.Succeeded && j.Plan.Command() && count[out.Attempts] == 0 {
			r.job(2, j, "attempt %d succeeded and was never started", out.Attempts)
		}
		r.attempts(j)
	}
}

// attempts checks that a claim has the attempt of the one before, or the next one
// after a retry.
func (r *Result) attempts(j *Job) {
	attempt, retried := 1, false
	for _, e := range j.Events {
		switch e.Kind {
		case events.KindRetrying:
			retried = true
		case events.KindClaimed:
			c := decode[events.Claimed](e)
			want := attempt
			if retried {
				want++
			}
			if c.Attempt != want {
				r.job(2, j, "the claim at %d is of attempt %d, want %d", e.Seq, c.Attempt, want)
			}
			attempt, retried = c.Attempt, false
		}
	}
}

// Takeover is how a job came from one worker's hands into another's.
type Takeover struct {
	Job   *Job
	From  string
	At    time.Time
	Cause *Fault        // that took the worker; nil if none is known
	After time.Duration // from the fault to the new claim, if there is one
}

// Takeovers are all claims that took a job from a worker that had vanished.
func Takeovers(rec *Record) (out []Takeover) {
	for _, j := range rec.Jobs {
		cs := j.claims()
		for i, c := range cs {
			if !c.Takeover || i == 0 {
				continue
			}
			t := Takeover{Job: j, From: cs[i-1].Worker, At: c.Time}
			for k := range rec.Faults {
				f := &rec.Faults[k]
				if f.Target == t.From && f.From.Before(t.At) && f.From.After(cs[i-1].Time.Add(-time.Second)) {
					t.Cause, t.After = f, t.At.Sub(f.From)
				}
			}
			out = append(out, t)
		}
	}
	return out
}

// takeovers is promise 2 again: no job is taken from a worker that holds it in
// good health. Whatever may keep a beat from the queue explains one.
func takeovers(r *Result) {
	for _, t := range Takeovers(r.r) {
		r.saw(2, 1, t.At.Add(-r.r.AckWait), t.At)
		if t.Cause == nil && !r.troubled(t.At.Add(-4*r.r.AckWait), t.At) {
			r.job(2, t.Job, "taken from worker %s at %s, and nothing had befallen that worker", t.From, clock(t.At))
		}
	}
}

// troubled reports whether a fault between a worker and the queue was under way,
// or had just been.
func (r *Result) troubled(from, to time.Time) bool {
	return slices.ContainsFunc(r.r.Faults, func(f Fault) bool {
		switch f.Class {
		case "worker", "nats", "network":
			return f.From.Before(to) && from.Before(f.To)
		}
		return false
	})
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// String names the start.
func (u Run) String() string {
	return fmt.Sprintf("%s of generation %d, attempt %d (%s to %s)", u.Job, u.Generation, u.Attempt, clock(u.Start), clock(u.End))
}
