package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// oneEnd is promise 1: an acknowledged job ends in exactly one terminal event, and
// that is its last.
func oneEnd(r *Result) {
	for _, j := range r.r.Jobs {
		if j.Acked.IsZero() {
			continue
		}
		from, to := j.span()
		r.saw(1, 1, from, to)
		ends := 0
		for _, e := range j.Events {
			switch {
			case e.Kind.Terminal():
				if ends++; ends > 1 {
					r.job(1, j, "a second terminal event, %s at %d", e.Kind, e.Seq)
				}
			case ends > 0 && e.Kind != events.KindCancelRequested && e.Kind != events.KindAccepted:
				r.job(1, j, "%s at %d, after the end", e.Kind, e.Seq)
			}
		}
		if ends == 0 {
			r.job(1, j, "acknowledged and never ended")
		}
	}
}

// waiting are the classes that make a job wait and must never end one.
func waiting(c jobs.Class) bool {
	d := jobs.Decide(c, 1, 1, false)
	return d.Fate == jobs.Wait
}

// rightEnd is the rest of promise 1, and 8: a job ends as what it is, or with a
// reason that the faults and the documents explain.
func rightEnd(r *Result) {
	for _, j := range r.r.Jobs {
		end, out, ok := j.end()
		if !ok || j.Acked.IsZero() {
			continue
		}
		class := jobs.Class(out.Class)
		switch {
		case wanted(j, end.Kind, class, out):
		case class == jobs.ClassQuarantined:
			if why := r.quarantine(j); why != "" {
				r.job(1, j, "quarantined without reason: %s", why)
			} else {
				r.Explained["quarantined: two workers were taken from under it within a beat of their claim"]++
			}
		case r.spent(j, end, class):
			r.Explained["its attempts were used up by "+out.Class]++
		case r.excused(j, end, class):
			r.Explained[string(j.Plan.Flavour)+" that found nothing, because its sandbox or session was gone"]++
		case waiting(class):
			r.job(8, j, "ended as %s by %s, which only makes a job wait: %s", end.Kind, class, out.Reason)
		default:
			r.job(1, j, "a %s job ended as %s by %s: %s", j.Plan.Flavour, end.Kind, class, out.Reason)
		}
	}
}

// wanted reports whether a job ended as its flavour should.
func wanted(j *Job, kind events.Kind, class jobs.Class, out events.Outcome) bool {
	p := j.Plan
	switch p.Flavour {
	case plan.Poisoned:
		return kind == events.Dead && class == jobs.ClassInvalid
	case plan.Missing:
		return kind == events.Dead && class == jobs.ClassNotFound
	case plan.Failing:
		return kind == events.Failed && out.ExitCode != nil && *out.ExitCode == p.Script.Exit
	case plan.Again:
		return kind == events.Succeeded && out.Attempts >= 2
	case plan.Cancelled:
		return !j.Wanted.IsZero() && kind == events.Cancelled
	case plan.Unique:
		if kind == events.Failed && class == jobs.ClassDuplicate {
			return true
		}
	}
	return kind == events.Succeeded && class == jobs.ClassOK
}

// quarantine says what is missing for a quarantine to be right, or nothing: each of
// the workers that the job is said to have taken down must have been taken by a
// fault.
func (r *Result) quarantine(j *Job) string {
	crashes := r.r.crashed(j)
	if len(crashes) < 2 {
		return fmt.Sprintf("its claims tell of %d crashes", len(crashes))
	}
	for _, t := range crashes {
		if !t.blameless() {
			return "nothing had befallen worker " + t.From
		}
	}
	return ""
}

// spent reports whether every attempt failed by the death of its sandbox, and the
// campaign had killed one for each.
func (r *Result) spent(j *Job, end Event, class jobs.Class) bool {
	if class != jobs.ClassSandboxLost {
		return false
	}
	deaths := 0
	for _, b := range r.r.Boxes {
		if b.Killed && b.Session == j.Plan.Session && b.Gone.After(j.Acked) && b.Gone.Before(end.Time) {
			deaths++
		}
	}
	return len(j.of(events.KindRetrying)) >= j.Plan.MaxAttempts()-1 && deaths >= j.Plan.MaxAttempts()
}

// excused reports whether a job did not find what an earlier one had left: the
// session had no sandbox at that moment, or another one than the file was put into.
func (r *Result) excused(j *Job, end Event, class jobs.Class) bool {
	if class != jobs.ClassNotFound {
		return false
	}
	at, states := r.r.at(j.Plan.Session, end.Seq)
	switch j.Plan.Flavour {
	case plan.Pause, plan.Resume, plan.Destroy:
		return !states || !at.State.HasSandbox()
	case plan.Download:
		up, ok := r.uploaded(j)
		if !ok {
			return true
		}
		then, _ := r.r.at(j.Plan.Session, up.Seq)
		return at.Generation != then.Generation || !at.State.HasSandbox()
	}
	return false
}

// at is a session's last state before a place in the stream.
func (r *Record) at(session string, seq uint64) (last State, ok bool) {
	for _, s := range r.States[session] {
		if s.Seq < seq {
			last, ok = s, true
		}
	}
	return last, ok
}

// uploaded is the end of the upload before a download, if it succeeded.
func (r *Result) uploaded(down *Job) (Event, bool) {
	from := strings.TrimPrefix(down.Plan.Object, "out-")
	for _, j := range r.r.Jobs {
		if j.Plan.ID == from && j.Plan.Session == down.Plan.Session {
			end, _, ok := j.end()
			return end, ok && end.Kind == events.Succeeded
		}
	}
	return Event{}, false
}

// letters is promise 1 for the dead: each has its letter, each letter its dead.
func letters(r *Result) {
	type key struct{ session, job string }
	have := map[key]Letter{}
	for _, l := range r.r.Letters {
		have[key{l.Session, l.Job}] = l
	}
	dead := map[key]bool{}
	for _, j := range r.r.Jobs {
		end, out, ok := j.end()
		if !ok || end.Kind != events.Dead {
			continue
		}
		k := key{j.Plan.Session, j.Plan.ID}
		dead[k] = true
		l, ok := have[k]
		from, to := j.span()
		r.saw(1, 1, from, to)
		switch {
		case !ok:
			r.job(1, j, "dead without a letter")
		case l.Class != out.Class:
			r.job(1, j, "its letter says %s, its end %s", l.Class, out.Class)
		}
	}
	for k, l := range have {
		if !dead[k] {
			r.session(1, k.session, "a dead letter of job %s, which is not dead: %s: %s", k.job, l.Class, l.Reason)
		}
	}
}

// waits is promise 8: what makes a job wait spends no attempt.
func waits(r *Result) {
	for _, j := range r.r.Jobs {
		for _, e := range j.Events {
			switch e.Kind {
			case events.KindWaiting:
				r.saw(8, 1, e.Time, e.Time.Add(time.Millisecond))
			case events.KindRetrying:
				v := decode[events.Retrying](e)
				r.saw(8, 1, e.Time, e.Time.Add(time.Millisecond))
				if waiting(jobs.Class(v.Class)) {
					r.job(8, j, "attempt %d was spent on %s, which only makes a job wait: %s", v.Attempt, v.Class, v.Reason)
				}
			}
		}
		if _, out, ok := j.end(); ok && out.Attempts > 0 && len(j.claims()) > 0 {
			if n := len(j.of(events.KindRetrying)) + 1; out.Attempts != n {
				r.job(8, j, "it ended in attempt %d, and its events tell of %d", out.Attempts, n)
			}
		}
	}
}
