package check

import (
	"slices"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

// early is by how much a pause may come before its time: deadlines are looked at
// once a second, in whole milliseconds, and moments pass between a deed and its
// record.
const early = time.Second

// idle is promise 6: a session is put to sleep for being idle only when nothing
// has run in it for its timeout.
func idle(r *Result) {
	runs := map[string][]Run{}
	for _, u := range r.r.Runs {
		runs[u.Session] = append(runs[u.Session], u)
	}
	jobs := map[string][]*Job{}
	for _, j := range r.r.Jobs {
		jobs[j.Plan.Session] = append(jobs[j.Plan.Session], j)
	}
	for id, states := range r.r.States {
		for _, s := range states {
			if s.State != session.Pausing || !strings.HasPrefix(s.Job, "idle-") {
				continue
			}
			r.saw(6, 1, s.Time.Add(-r.timeout(s)), s.Time)
			for _, u := range runs[id] {
				if u.Start.Before(s.Time) && (u.End.IsZero() || u.End.After(s.Time.Add(slack))) && u.Generation == s.Generation {
					r.session(6, id, "put to sleep at %s for being idle, while %s ran", clock(s.Time), u)
				}
			}
			if last, by := lastUse(jobs[id], states, s); !last.IsZero() && s.Time.Sub(last) < r.timeout(s)-early {
				r.session(6, id, "put to sleep at %s, %s after %s; its timeout is %s", clock(s.Time), s.Time.Sub(last).Round(time.Millisecond), by, r.timeout(s))
			}
		}
	}
}

func (r *Result) timeout(s State) time.Duration { return s.IdleTimeout.Or(r.r.Idle) }

// awake is promise 6 from the other side: nothing stays awake for long after its
// timeout. The campaign has waited for that.
func awake(r *Result) {
	for id, states := range r.r.States {
		last := states[len(states)-1]
		r.saw(6, 1, last.Time, r.r.Ended)
		if last.State == session.Active && r.r.Ended.Sub(last.Time) > r.timeout(last)+patience {
			r.session(6, id, "idle since %s and never put to sleep; its timeout is %s", clock(last.Time), r.timeout(last))
		}
		if last.State.Transitional() && r.r.Ended.Sub(last.Time) > patience {
			r.session(6, id, "%s since %s", last.State, clock(last.Time))
		}
	}
}

// patience is how much later than its timeout a session may be put to sleep.
const patience = 20 * time.Second

// lastUse is when the session's sandbox was last used before a state.
func lastUse(jobs []*Job, states []State, s State) (at time.Time, by string) {
	for _, j := range jobs {
		used := len(j.of(events.KindStarted)) > 0
		end, _, ok := j.end()
		if used && ok && end.Seq < s.Seq && end.Time.After(at) {
			at, by = end.Time, "the end of "+j.Plan.ID
		}
	}
	for i, t := range states {
		if t.Seq < s.Seq && t.State == session.Active && i > 0 && states[i-1].State != session.Active && t.Time.After(at) {
			at, by = t.Time, "it became active"
		}
	}
	return at, by
}

// replaced is promise 6 again: a sandbox that is gone is told of, never replaced
// in silence.
func replaced(r *Result) {
	for id, states := range r.r.States {
		box, told := "", true
		for _, s := range states {
			switch s.State {
			case session.Lost, session.Destroying, session.Destroyed, session.Error:
				told = true
			case session.Active:
				r.saw(6, 1, s.Time, s.Time.Add(time.Millisecond))
				if box != "" && s.SandboxID != box && !told {
					r.session(6, id, "sandbox %s took the place of %s without a word", s.SandboxID, box)
				}
				box, told = s.SandboxID, false
			}
		}
	}
}

// sandboxes is promise 7: one sandbox for each intent, and none without a session
// at the end.
func sandboxes(r *Result) {
	owned := map[string]bool{}
	for _, states := range r.r.States {
		if last := states[len(states)-1]; last.SandboxID != "" && last.State.HasSandbox() {
			owned[last.SandboxID] = true
		}
	}
	made := map[string][]Box{}
	for _, b := range r.r.Boxes {
		r.saw(7, 1, b.Born, later(b.Gone, b.Born.Add(time.Millisecond)))
		made[b.Attempt] = append(made[b.Attempt], b)
		if b.Gone.IsZero() && !owned[b.ID] && r.r.Ended.Sub(b.Born) > r.r.Grace {
			r.session(7, b.Session, "sandbox %s of %s is there and nobody's", b.ID, clock(b.Born))
		}
	}
	for intent, copies := range made {
		if len(copies) < 2 {
			continue
		}
		if why := r.twice(copies); why != "" {
			r.session(7, copies[0].Session, "%d sandboxes for the intent %s: %s", len(copies), intent, why)
		} else {
			r.Explained["a second sandbox for an intent whose maker was taken away in the middle, removed as an orphan"]++
		}
	}
}

// twice says what is missing for an intent to have had several sandboxes, or nothing:
// a fault must have taken the job from the worker that was making the sandbox, another
// one must have gone on with the intent, and all copies but one must be gone.
func (r *Result) twice(copies []Box) string {
	var there []string
	for _, b := range copies {
		if b.Gone.IsZero() {
			there = append(there, b.ID)
		}
	}
	if len(there) > 1 {
		return strings.Join(there, " and ") + " are there"
	}
	var makers []State
	for _, s := range r.r.States[copies[0].Session] {
		if s.State == session.Provisioning && s.Attempt == copies[0].Attempt {
			makers = append(makers, s)
		}
	}
	for i := 1; i < len(makers); i++ {
		if r.took(makers[i-1], makers[i]) {
			return ""
		}
	}
	return "no fault took it from its maker"
}

// took reports whether a fault took the job that was making a sandbox, and by that
// the intent, from one holder to another: the first one was lost, or told to stop. A
// worker may be its own heir, when the queue was mute.
func (r *Result) took(from, to State) bool {
	if from.Job != to.Job {
		return false
	}
	since := from.Time.Add(-r.r.AckWait - Spare)
	within := func(at time.Time) bool { return at.After(since) && !at.After(to.Time) }
	if slices.ContainsFunc(r.takeovers(), func(t Takeover) bool {
		return t.Job.Plan.Session == from.Session && t.Job.Plan.ID == from.Job && t.From == from.Worker && t.blameless() && within(t.At)
	}) {
		return true
	}
	// One that waits is handed on without that being called a takeover: its beats were lost.
	if slices.ContainsFunc(r.r.Jobs, func(j *Job) bool {
		cs := j.claims()
		return j.Plan.Session == from.Session && j.Plan.ID == from.Job && slices.ContainsFunc(cs, func(c claim) bool {
			before := slices.ContainsFunc(cs, func(b claim) bool {
				return b.Seq < c.Seq && b.Worker == from.Worker && b.Stream == c.Stream && b.StreamSeq == c.StreamSeq && b.Delivery < c.Delivery
			})
			return before && c.Event.Time.After(from.Time) && within(c.Event.Time) && r.r.outage(Takeover{At: c.Event.Time})
		})
	}) {
		return true
	}
	return slices.ContainsFunc(r.r.Faults, func(f Fault) bool {
		return f.Kind == "worker-restart" && f.Target == from.Worker && f.From.Before(to.Time) && slices.ContainsFunc(r.r.Jobs, func(j *Job) bool {
			return j.Plan.Session == from.Session && j.Plan.ID == from.Job && slices.ContainsFunc(j.of(events.KindInterrupted), func(e Event) bool {
				return e.Writer == from.Worker && within(e.Time)
			})
		})
	})
}

// view is promise 9: at rest Redis holds what the streams say, and holds it again
// after it was wiped.
func view(r *Result) {
	for id, want := range r.r.Truth {
		r.saw(9, 2, r.r.Began, r.r.Ended)
		if got := r.r.View[id]; got != want {
			r.session(9, id, "the view says %q, the stream %q", got, want)
		}
		if got := r.r.Rebuilt[id]; got != want {
			r.session(9, id, "the view that was made anew says %q, the stream %q", got, want)
		}
	}
	for _, what := range r.r.Rests {
		r.session(9, "", "left in Redis: %s", what)
	}
}

// leaks is promise 10, for the one secret that a campaign has: the API key.
func leaks(r *Result) {
	r.saw(10, 1, r.r.Began, r.r.Ended)
	for _, where := range r.r.Leaks {
		r.session(10, "", "the API key is in %s", where)
	}
}

// bounds is promise 11.
func bounds(r *Result) {
	for _, b := range r.r.Bounds {
		r.saw(11, 1, r.r.Began, r.r.Ended)
		if b.Have > b.May {
			r.session(11, "", "%s: %d, and %d is the limit", b.What, b.Have, b.May)
		}
	}
}
