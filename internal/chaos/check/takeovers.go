package check

import (
	"slices"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
)

// Takeover is how a job came from one worker's hands into another's.
type Takeover struct {
	Job    *Job
	From   string // the worker that held it
	Since  time.Time
	At     time.Time
	Crash  bool          // it counts as one that the job may be to blame for
	Cause  *Fault        // that took the worker; nil if none is known
	After  time.Duration // from the fault to the new claim, if there is one
	Excuse *Fault        // why it may have taken longer than promised, if something else was broken too
	Outage bool          // the queue gave no answer, or had given none shortly before
	Return bool          // the holder gave it back and could not say so, or the one before had
}

// Spare is how much longer than AckWait a job may be without a worker.
const Spare = 2 * time.Second

// refetch is how long after an outage a worker asks for jobs again, at most. What was
// due by then is delivered when it does, beats or not.
const refetch = 5 * time.Second

// trips is how many times a takeover goes to the cluster and back, at most: each may
// be as late as the machine is.
const trips = 10

// Takeovers are all claims that took a job from a worker that had vanished.
func Takeovers(rec *Record) (out []Takeover) {
	for _, j := range rec.Jobs {
		cs := j.claims()
		for i, c := range cs {
			if !c.Takeover || i == 0 {
				continue
			}
			t := Takeover{Job: j, From: cs[i-1].Worker, Since: cs[i-1].Time, At: c.Time, Crash: c.Crashes > 0}
			t.Outage, t.Return = rec.outage(t), rec.returned(t) || i > 1 && rec.crossed(j, cs[i-2], t)
			if t.Cause = rec.cause(t); t.Cause != nil {
				t.After = t.At.Sub(t.Cause.From)
				t.Excuse = rec.excuse(t)
			}
			out = append(out, t)
		}
	}
	return out
}

// cause is the newest fault that kept the holder from saying that it is alive: its
// own death, or its way to the queue. A process that goes on, and a way that is
// healed, lose what was due while they were away, and that alone.
func (r *Record) cause(t Takeover) (cause *Fault) {
	for i := range r.Faults {
		f := &r.Faults[i]
		if f.Target != t.From || f.From.After(t.At) {
			continue
		}
		ended := f.To
		switch f.Kind {
		case "worker-kill", "worker-restart":
			ended = t.At // that process does not come back
		case "worker-freeze", "cut-worker-nats", "slow-worker-nats":
		default:
			continue
		}
		if ended.Add(r.AckWait+Spare).Before(t.At) || ended.Before(t.Since) {
			continue
		}
		if cause == nil || f.From.After(cause.From) {
			cause = f
		}
	}
	return cause
}

// excuse is a fault beside the cause that may have held the takeover up: of NATS or
// Redis while it was due, or of another worker that the job may have come to.
func (r *Record) excuse(t Takeover) *Fault {
	i := slices.IndexFunc(r.Faults, func(f Fault) bool {
		from, to := t.Cause.From, f.To
		switch {
		case f.Target == t.From, f.Kind == "cut-worker-e2b", f.Kind == "narrow-worker-e2b":
			return false
		case f.Class == plan.NATS, f.Class == plan.Redis:
			to = to.Add(Spare)
		case f.Class == plan.Workers, f.Class == plan.Network:
			to = to.Add(r.AckWait)
		default:
			return false
		}
		return f.From.Before(t.At) && from.Before(to)
	})
	if i < 0 {
		return nil
	}
	return &r.Faults[i]
}

// Late is by how much the machine was late at worst in a time, by itself: a pulse
// that NATS was too broken to answer says nothing of the machine.
func (r *Record) Late(from, to time.Time) (worst time.Duration) {
	for _, p := range r.Pulses {
		end := p.At.Add(p.Took)
		if p.At.Before(to) && from.Before(end) && !r.broken(plan.NATS, p.At.Add(-Spare), end) {
			worst = max(worst, p.Took)
		}
	}
	return worst
}

// broken reports whether a fault of a class was under way.
func (r *Record) broken(class string, from, to time.Time) bool {
	return slices.ContainsFunc(r.Faults, func(f Fault) bool {
		return f.Class == class && f.From.Before(to) && from.Before(f.To)
	})
}

// Prompt reports whether a takeover says how fast the product is: its worker died or
// froze, and nothing else was broken.
func (t Takeover) Prompt() bool {
	return t.Cause != nil && t.Excuse == nil && !t.Outage && (t.Cause.Kind == "worker-kill" || t.Cause.Kind == "worker-freeze")
}

// healthy is promise 2 again: no job is taken from a worker that holds it in good
// health, and one whose worker died is in other hands within AckWait and 2 s.
func healthy(r *Result) {
	for _, t := range r.takeovers() {
		r.saw(2, 1, t.At.Add(-r.r.AckWait), t.At)
		late := r.r.Late(t.At.Add(-2*r.r.AckWait), t.At)
		if !t.blameless() && late < r.r.AckWait/3 {
			r.job(2, t.Job, "taken from worker %s at %s, and nothing had befallen that worker", t.From, clock(t.At))
		}
		if limit := r.r.AckWait + Spare + trips*late; t.Prompt() && t.After > limit {
			r.job(2, t.Job, "without a worker for %s after fault %d, %s of %s; %s is the limit", t.After.Round(time.Millisecond), t.Cause.N,
				t.Cause.Kind, t.Cause.Target, limit)
		}
	}
}

// outage reports whether NATS itself was broken, or the queue silent, when the job was
// taken, or so shortly before that beats were lost.
func (r *Record) outage(t Takeover) bool { return r.mute(t.At.Add(-r.AckWait-Spare-refetch), t.At) }

// mute reports whether NATS was broken, or the queue silent, in a time.
func (r *Record) mute(from, to time.Time) bool {
	return r.broken(plan.NATS, from, to) || slices.ContainsFunc(r.Silences, func(p Pulse) bool {
		return p.At.Before(to) && from.Before(p.At.Add(p.Took))
	})
}

// How long a worker tries to write what became of a job, and after how long a job
// comes again that it gives back because it could not.
const (
	writing  = 15 * time.Second
	backThen = 5 * time.Second
)

// returned reports whether the holder gave the job back after it had tried to write its
// end, in vain since NATS was broken.
func (r *Record) returned(t Takeover) bool {
	return slices.ContainsFunc(r.Returns, func(b Return) bool {
		return b.Session == t.Job.Plan.Session && b.Job == t.Job.Plan.ID && b.Worker == t.From && b.At.After(t.Since) &&
			b.At.Before(t.At) && t.At.Before(b.At.Add(backThen+r.AckWait+Spare)) && r.mute(b.At.Add(-writing-Spare), b.At)
	})
}

// crossed reports whether the holder before the last gave the job back in words that
// crossed the delivery to the last one: acknowledgements are not fenced, and a refusal
// of an old delivery brings a new one. Its ways to NATS must have been broken then, or
// the machine late.
func (r *Record) crossed(j *Job, before claim, t Takeover) bool {
	for _, e := range j.Events {
		switch e.Kind {
		case events.KindInterrupted, events.KindWaiting, events.KindRetrying:
		default:
			continue
		}
		if e.Writer != before.Worker || e.Seq < before.Seq || e.Time.Before(t.At.Add(-r.AckWait-Spare)) || e.Time.After(t.At) {
			continue
		}
		held := Takeover{Job: j, From: before.Worker, Since: before.Time, At: e.Time}
		if r.cause(held) != nil || r.outage(held) || r.Late(t.At.Add(-2*r.AckWait), t.At) >= r.AckWait/3 {
			return true
		}
	}
	return false
}

// blameless reports whether a fault, and not the job or the product, took the holder.
func (t Takeover) blameless() bool { return t.Cause != nil || t.Outage || t.Return }

// crashed are the takeovers that made up a job's count of crashes.
func (r *Record) crashed(j *Job) (out []Takeover) {
	for _, t := range Takeovers(&Record{AckWait: r.AckWait, Jobs: []*Job{j}, Faults: r.Faults, Silences: r.Silences, Returns: r.Returns}) {
		if t.Crash {
			out = append(out, t)
		} else {
			out = nil
		}
	}
	return out
}
