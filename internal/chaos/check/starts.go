package check

import (
	"fmt"
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
