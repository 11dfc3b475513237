package check

import (
	"slices"
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
		ends, crossed := 0, false
		for i, e := range j.Events {
			switch {
			case ends == 1 && crossedEnd(j.Events, i):
				crossed = true
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
		if crossed {
			r.Explained["a claim that crossed the job's end among the replicas, and wrote nothing"]++
		}
	}
}

// crossedEnd reports whether the event is a claim that was on its way among the
// replicas together with the end: of the two neither could see the other. Its
// holder finds the end, and writes nothing.
func crossedEnd(all []Event, i int) bool {
	return i == len(all)-1 && all[i].Kind == events.KindClaimed && all[i-1].Kind.Terminal() && all[i].Time.Sub(all[i-1].Time) < time.Second
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
			if why := quarantine(j); why != "" {
				r.job(1, j, "quarantined without reason: %s", why)
			} else {
				r.Explained["quarantined: two workers were taken from under it within a beat of their claim"]++
			}
		case spent(j, class):
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

// quarantine says what is missing for a quarantine to be right, or nothing.
func quarantine(j *Job) string {
	crashes := 0
	for _, c := range j.claims() {
		crashes = max(crashes, c.Crashes)
	}
	if crashes < 2 {
		return "no claim tells of two crashes"
	}
	return ""
}

// spent reports whether every attempt failed by something that costs one.
func spent(j *Job, class jobs.Class) bool {
	if class != jobs.ClassSandboxLost && class != jobs.ClassTransport {
		return false
	}
	return len(j.of(events.KindRetrying)) >= j.Plan.MaxAttempts()-1
}

// excused reports whether a job did not find what an earlier one had left: the
// session's sandbox was lost or destroyed on the way, or there never was one.
func (r *Result) excused(j *Job, end Event, class jobs.Class) bool {
	if class != jobs.ClassNotFound {
		return false
	}
	states := slices.DeleteFunc(slices.Clone(r.r.States[j.Plan.Session]), func(s State) bool { return s.Seq > end.Seq })
	switch j.Plan.Flavour {
	case plan.Pause, plan.Resume, plan.Destroy:
		return len(states) == 0 || !states[len(states)-1].State.HasSandbox() || lostOnce(states)
	case plan.Download:
		return lostOnce(states) || !r.uploaded(j)
	}
	return false
}

// uploaded reports whether the upload before a download succeeded.
func (r *Result) uploaded(down *Job) bool {
	from := strings.TrimPrefix(down.Plan.Object, "out-")
	for _, j := range r.r.Jobs {
		if j.Plan.ID == from && j.Plan.Session == down.Plan.Session {
			end, _, ok := j.end()
			return ok && end.Kind == events.Succeeded
		}
	}
	return false
}

func lostOnce(states []State) bool {
	for _, s := range states {
		if s.Generation > 1 || s.State == "lost" || s.State == "error" {
			return true
		}
	}
	return false
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
