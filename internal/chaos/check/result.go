package check

import (
	"fmt"
	"time"
)

// Promises is how many there are.
const Promises = 11

// Violation is a promise that was not kept.
type Violation struct {
	Promise int
	Job     *Job   // whose history shows it, if it is a job's
	Session string // whose states show it, if it is a session's
	Text    string
}

// String is the violation in one line.
func (v Violation) String() string {
	who := v.Session
	if v.Job != nil {
		who = v.Job.Key()
	}
	return fmt.Sprintf("promise %d: %s: %s", v.Promise, who, v.Text)
}

// Result is what the checks found.
type Result struct {
	Violations []Violation
	Checked    [Promises + 1]int         // how much was looked at, by promise
	Under      map[string]*[Promises]int // the same, of what lived while a fault of a kind was under way
	Explained  map[string]int            // ends that are documented though nobody wants them

	r     *Record
	taken []Takeover
}

// takeovers are those of the record.
func (r *Result) takeovers() []Takeover {
	if r.taken == nil {
		r.taken = Takeovers(r.r)
	}
	return r.taken
}

// Count says how often a promise was broken.
func (r *Result) Count(promise int) (n int) {
	for _, v := range r.Violations {
		if v.Promise == promise {
			n++
		}
	}
	return n
}

// job notes that a promise was broken for a job.
func (r *Result) job(promise int, j *Job, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{Promise: promise, Job: j, Session: j.Plan.Session, Text: fmt.Sprintf(format, args...)})
}

// session notes that a promise was broken for a session.
func (r *Result) session(promise int, id, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{Promise: promise, Session: id, Text: fmt.Sprintf(format, args...)})
}

// saw counts n things that a promise was checked on, and under which faults they
// lived.
func (r *Result) saw(promise, n int, from, to time.Time) {
	r.Checked[promise] += n
	if n == 0 {
		return
	}
	seen := map[string]bool{}
	for _, f := range r.r.Faults {
		if f.Effective && !seen[f.Kind] && f.From.Before(to) && from.Before(f.To) {
			seen[f.Kind] = true
			u := r.Under[f.Kind]
			if u == nil {
				u = new([Promises]int)
				r.Under[f.Kind] = u
			}
			u[promise-1] += n
		}
	}
}

// All checks every promise.
func All(rec *Record) *Result {
	r := &Result{r: rec, Under: map[string]*[Promises]int{}, Explained: map[string]int{}}
	for _, f := range []func(*Result){
		oneEnd, rightEnd, oneStart, healthy, bytes, fence, lanes, idle, awake, replaced, sandboxes, waits, view, letters, leaks, bounds,
	} {
		f(r)
	}
	return r
}
