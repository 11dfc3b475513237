package check

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// tale builds the record of a campaign that kept every promise; each test then
// breaks one.
type tale struct {
	*Record
	seq uint64
}

func (t *tale) add(j *Job, s float64, k events.Kind, token uint64, writer string, payload any) uint64 {
	b, _ := json.Marshal(payload)
	t.seq++
	j.Events = append(j.Events, Event{Seq: t.seq, Time: at(s), Kind: k, Token: token, Writer: writer, Data: b})
	return t.seq
}

// job adds a quick command that ran from a second to the next but one.
func (t *tale) job(id string, s float64) *Job {
	j := &Job{Acked: at(s), Plan: &plan.Job{
		Session: "s", ID: id, Flavour: plan.Quick, Exclusive: true, Script: &plan.Script{Lines: 3},
	}}
	t.Jobs = append(t.Jobs, j)
	t.add(j, s, events.KindAccepted, 0, "w1", events.Accepted{})
	c := t.add(j, s, events.KindClaimed, 0, "w1", events.Claimed{Worker: "w1", Attempt: 1, Origin: uint64(len(t.Jobs))})
	t.add(j, s+.1, events.KindStarted, c, "w1", events.Started{Attempt: 1, Generation: 1})
	t.add(j, s+1, events.Succeeded, c, "w1", events.Outcome{Class: "ok", Attempts: 1})
	t.Runs = append(t.Runs, Run{Session: "s", Generation: 1, Job: id, Attempt: 1, Start: at(s + .2), End: at(s + .9)})
	return j
}

func (t *tale) state(s float64, st session.State, job string) {
	t.seq++
	t.States["s"] = append(t.States["s"], State{Seq: t.seq, Time: at(s), Record: session.Record{
		Session: "s", State: st, Generation: 1, SandboxID: "box", Attempt: "a", Job: job, IdleTimeout: wire.Duration(5 * time.Second),
	}})
}

func newTale() (*tale, *Job, *Job) {
	t := &tale{Record: &Record{
		AckWait: 2 * time.Second, Idle: 5 * time.Second, States: map[string][]State{},
		Truth: map[string]string{"s": "paused"}, View: map[string]string{"s": "paused"}, Rebuilt: map[string]string{"s": "paused"},
		Began: at(0), Ended: at(100),
	}}
	t.state(0, session.Provisioning, "one")
	t.state(.1, session.Active, "one")
	one, two := t.job("one", 1), t.job("two", 3)
	t.state(10, session.Pausing, "idle-1-1")
	t.state(10.1, session.Paused, "idle-1-1")
	t.Boxes = []Box{{ID: "box", Session: "s", Attempt: "a", Born: at(0)}}
	t.Bounds = []Bound{{What: "a stream", Have: 1, May: 2}}
	return t, one, two
}

func TestAllKept(t *testing.T) {
	t.Parallel()
	s, _, _ := newTale()
	r := All(s.Record)
	require.Empty(t, r.Violations)
	for promise := 1; promise <= Promises; promise++ {
		if promise != 8 { // nothing waited
			require.NotZero(t, r.Checked[promise], "promise %d was checked on nothing", promise)
		}
	}
}

func TestFaultsAndPromises(t *testing.T) {
	t.Parallel()
	s, _, _ := newTale()
	s.Faults = []Fault{{Kind: "storm", From: at(1.5), To: at(1.6), Effective: true}, {Kind: "calm", From: at(1.5), To: at(1.6)}}
	r := All(s.Record)
	require.Equal(t, 1, r.Under["storm"][0], "one job lived in the storm")
	require.NotContains(t, r.Under, "calm")
}

// Each check can fail: a history that breaks a promise is seen as just that.
func TestEachIsSeen(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		promise int
		want    string
		spoil   func(s *tale, one, two *Job)
	}{
		{"no end", 1, "never ended", func(_ *tale, one, _ *Job) { one.Events = one.Events[:3] }},
		{"two ends", 1, "a second terminal event", func(s *tale, one, _ *Job) {
			s.add(one, 2, events.Failed, one.Events[1].Seq, "w1", events.Outcome{Class: "ok", Attempts: 1})
		}},
		{"after the end", 1, "after the end", func(s *tale, one, _ *Job) {
			s.add(one, 2, events.KindWaiting, one.Events[1].Seq, "w1", events.Waiting{})
		}},
		{"wrong end", 1, "ended as failed by command_failed", func(s *tale, one, _ *Job) {
			s.end(one, events.Failed, events.Outcome{Class: "command_failed", Attempts: 1})
		}},
		{"quarantined by nobody", 1, "quarantined without reason", func(s *tale, one, _ *Job) {
			s.Letters = []Letter{{Session: "s", Job: "one", Class: "quarantined"}}
			s.end(one, events.Dead, events.Outcome{Class: "quarantined", Attempts: 1})
		}},
		{"dead without a letter", 1, "dead without a letter", func(s *tale, one, _ *Job) {
			one.Plan.Flavour = plan.Missing
			s.end(one, events.Dead, events.Outcome{Class: "not_found", Attempts: 1})
		}},
		{"letter of the living", 1, "which is not dead", func(s *tale, _, _ *Job) {
			s.Letters = []Letter{{Session: "s", Job: "one", Class: "internal"}}
		}},
		{"two starts", 2, "started 2 times", func(s *tale, _, _ *Job) {
			s.Runs = append(s.Runs, Run{Session: "s", Generation: 2, Job: "one", Attempt: 1, Start: at(1.2), End: at(1.9)})
		}},
		{"no start", 2, "never started", func(s *tale, _, _ *Job) { s.Runs = s.Runs[1:] }},
		{"attempt out of nothing", 2, "is of attempt 2, want 1", func(s *tale, one, _ *Job) {
			one.Events[1].Data, _ = json.Marshal(events.Claimed{Worker: "w1", Attempt: 2, Origin: 1})
		}},
		{"quarantined, once by nobody", 1, "nothing had befallen worker w2", func(s *tale, one, _ *Job) {
			s.quarantined(one)
			s.Faults = s.Faults[:1]
			s.Pulses = []Pulse{{At: at(0), Took: 9 * time.Second}} // the takeover itself is the machine's
		}},
		{"attempts spent on nothing", 1, "ended as failed by sandbox_lost", func(s *tale, one, _ *Job) {
			s.lose(one)
			s.Boxes[2].Killed = false
		}},
		{"file of the same sandbox", 1, "ended as dead by not_found", func(s *tale, one, two *Job) {
			s.moved(one, two)
		}},
		{"taken late", 2, "without a worker for 4.4s", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Faults = append(s.Faults, Fault{Kind: "redis-kill", Class: plan.Redis, Target: "redis", From: at(-3), To: at(-1)},
				Fault{Kind: "cut-worker-e2b", Class: plan.Network, Target: "w2", From: at(1), To: at(5)},
				Fault{Kind: "e2b-5xx", Class: plan.Sandboxes, Target: "create", From: at(1), To: at(5)})
		}},
		{"taken from a worker that had come back", 2, "nothing had befallen", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Faults[0] = Fault{Kind: "cut-worker-nats", Class: plan.Network, Target: "w1", From: at(1), To: at(1.4)}
		}},
		{"taken long after a silence", 2, "nothing had befallen", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Faults = nil
			s.Silences = []Pulse{{At: at(-5), Took: 1400 * time.Millisecond}}
		}},
		{"taken after an older delivery came back, for no reason", 2, "taken from worker w2", func(s *tale, one, _ *Job) {
			s.crossed(one)
			s.Faults = nil
		}},
		{"second sandbox, and the maker was told to stop later", 7, "no fault took it from its maker", func(s *tale, one, _ *Job) {
			s.stopped(one)
			s.Faults[0].From = at(3.5)
		}},
		{"second sandbox, and the maker never let go", 7, "no fault took it from its maker", func(s *tale, one, _ *Job) {
			s.stopped(one)
			one.Events[3].Writer = "w3"
			one.Events[3].Kind = events.KindAccepted
		}},
		{"second sandbox, and the maker had waited in good health", 7, "no fault took it from its maker", func(s *tale, one, _ *Job) {
			s.waited(one)
			s.Faults = nil
		}},
		{"second sandbox, after a delivery of its own", 7, "no fault took it from its maker", func(s *tale, one, _ *Job) {
			s.waited(one)
			one.Events[3].Data, _ = json.Marshal(events.Claimed{Worker: "w2", Attempt: 1, Origin: 1, Stream: "JOBS", StreamSeq: 2, Delivery: 1})
		}},
		{"given back for no reason", 2, "nothing had befallen", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Faults = nil
			s.Returns = []Return{{Session: "s", Job: "one", Worker: "w1", At: at(3)}}
		}},
		{"taken from a worker without Redis", 2, "nothing had befallen", func(s *tale, one, _ *Job) {
			s.taken(one, 3)
			s.Faults[0] = Fault{Kind: "cut-worker-redis", Class: plan.Network, Target: "w1", From: at(1), To: at(3)}
		}},
		{"taken from the living", 2, "nothing had befallen", func(s *tale, one, _ *Job) { s.take(one) }},
		{"bytes", 3, "a gap", func(_ *tale, one, _ *Job) { one.Output = []string{"a gap"} }},
		{"object", 3, "differs", func(_ *tale, one, _ *Job) { one.Object = "differs" }},
		{"zombie", 4, "is worker w0's", func(_ *tale, one, _ *Job) { one.Events[2].Writer = "w0" }},
		{"old fence", 4, "was written under 1", func(_ *tale, one, _ *Job) { one.Events[2].Token = 1 }},
		{"order", 5, "started before one", func(_ *tale, one, two *Job) {
			one.Events[2].Seq, two.Events[2].Seq = two.Events[2].Seq, one.Events[2].Seq
		}},
		{"beside each other", 5, "runs beside", func(s *tale, _, _ *Job) { s.Runs[0].End = at(3.5) }},
		{"early pause", 6, "after the end of two", func(s *tale, _, _ *Job) { s.States["s"][2].Time = at(6) }},
		{"pause under a command", 6, "while two", func(s *tale, _, _ *Job) { s.Runs[1].End = at(11) }},
		{"never paused", 6, "never put to sleep", func(s *tale, _, _ *Job) { s.States["s"] = s.States["s"][:2] }},
		{"stuck", 6, "pausing since", func(s *tale, _, _ *Job) { s.States["s"] = s.States["s"][:3] }},
		{"silent loss", 6, "without a word", func(s *tale, _, _ *Job) {
			s.state(20, session.Active, "x")
			s.States["s"][4].SandboxID = "other"
			s.state(40, session.Paused, "x")
			s.Boxes = append(s.Boxes, Box{ID: "other", Attempt: "b"})
			s.States["s"][5].SandboxID, s.Boxes[0].Gone = "other", at(15)
		}},
		{"orphan", 7, "nobody's", func(s *tale, _, _ *Job) { s.Boxes = append(s.Boxes, Box{ID: "b2", Attempt: "a2", Born: at(2)}) }},
		{"second sandbox", 7, "no fault took it from its maker", func(s *tale, _, _ *Job) {
			s.Boxes = append(s.Boxes, Box{ID: "b2", Session: "s", Attempt: "a", Born: at(2), Gone: at(3)})
			s.Faults = []Fault{{Kind: "worker-freeze", Class: plan.Workers, Target: "w1", From: at(0), To: at(3)}}
		}},
		{"second sandbox for another job's intent", 7, "no fault took it from its maker", func(s *tale, one, _ *Job) {
			s.copies(one)
			s.States["s"][0].Job = "another"
		}},
		{"second sandbox, taken from another worker", 7, "no fault took it from its maker", func(s *tale, one, _ *Job) {
			s.copies(one)
			s.States["s"][0].Worker = "w3"
		}},
		{"second sandbox in the same hands", 7, "no fault took it from its maker", func(s *tale, one, _ *Job) {
			s.copies(one)
			s.States["s"][1].Worker = "w1"
			one.Events = one.Events[:3]
			s.add(one, 5.1, events.Succeeded, one.Events[1].Seq, "w1", events.Outcome{Class: "ok", Attempts: 1})
		}},
		{"second sandbox that stays", 7, "box and b2 are there", func(s *tale, one, _ *Job) {
			s.copies(one)
			s.Boxes[1].Gone = time.Time{}
			s.Grace = 200 * time.Second
		}},
		{"wait that costs", 8, "was spent on quota", func(s *tale, one, _ *Job) {
			one.Events = one.Events[:3]
			s.add(one, 2, events.KindRetrying, one.Events[1].Seq, "w1", events.Retrying{Class: "quota", Attempt: 1})
			c := s.add(one, 2.1, events.KindClaimed, 0, "w1", events.Claimed{Worker: "w1", Attempt: 2, Origin: 1})
			s.add(one, 2.2, events.Succeeded, c, "w1", events.Outcome{Class: "ok", Attempts: 2})
			s.Runs = append(s.Runs, Run{Session: "s", Generation: 1, Job: "one", Attempt: 2, Start: at(2.11), End: at(2.12)})
		}},
		{"end by a wait", 8, "only makes a job wait", func(s *tale, one, _ *Job) {
			s.end(one, events.Failed, events.Outcome{Class: "unavailable", Attempts: 1})
		}},
		{"view", 9, "the view says", func(s *tale, _, _ *Job) { s.View["s"] = "active" }},
		{"rebuild", 9, "made anew", func(s *tale, _, _ *Job) { delete(s.Rebuilt, "s") }},
		{"leak", 10, "the API key is in", func(s *tale, _, _ *Job) { s.Leaks = []string{"a log"} }},
		{"bound", 11, "is the limit", func(s *tale, _, _ *Job) { s.Bounds[0].Have = 3 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, one, two := newTale()
			tt.spoil(s, one, two)
			r := All(s.Record)
			var all []string
			for _, v := range r.Violations {
				all = append(all, v.String())
				require.Equal(t, tt.promise, v.Promise, v.String())
			}
			require.NotEmpty(t, all)
			require.Contains(t, strings.Join(all, "\n"), tt.want)
		})
	}
}

// end gives a job another end.
func (t *tale) end(j *Job, k events.Kind, out events.Outcome) {
	last := &j.Events[len(j.Events)-1]
	last.Kind = k
	last.Data, _ = json.Marshal(out)
}

// take has another worker take the job over.
func (t *tale) take(j *Job) {
	j.Events = j.Events[:3]
	c := t.add(j, 1.5, events.KindClaimed, 0, "w2", events.Claimed{Worker: "w2", Attempt: 1, Origin: 1, Takeover: true})
	t.add(j, 2, events.Succeeded, c, "w2", events.Outcome{Class: "ok", Attempts: 1})
}

// taken has another worker take the job over at a time, and a fault that killed
// the first one.
func (t *tale) taken(j *Job, s float64) {
	j.Events = j.Events[:3]
	c := t.add(j, s, events.KindClaimed, 0, "w2", events.Claimed{Worker: "w2", Attempt: 1, Origin: 1, Takeover: true})
	t.add(j, s+.1, events.Succeeded, c, "w2", events.Outcome{Class: "ok", Attempts: 1})
	t.Faults = []Fault{{N: 1, Kind: "worker-kill", Class: plan.Workers, Target: "w1", From: at(1.1), To: at(1.3), Effective: true}}
	// The other job of the tale starts after this one.
	t.Jobs, t.Runs = t.Jobs[:1], t.Runs[:1]
}

// quarantined has two workers taken from a job, each by a fault.
func (t *tale) quarantined(j *Job) {
	j.Events = j.Events[:3]
	for i, w := range []string{"w2", "w3"} {
		t.add(j, 1.2+float64(i)/10, events.KindClaimed, 0, w, events.Claimed{Worker: w, Attempt: 1, Origin: 1, Takeover: true, Crashes: i + 1})
	}
	t.add(j, 2, events.Dead, j.Events[4].Seq, "w3", events.Outcome{Class: "quarantined", Attempts: 1})
	t.Letters = []Letter{{Session: "s", Job: "one", Class: "quarantined"}}
	for _, w := range []string{"w1", "w2"} {
		t.Faults = append(t.Faults, Fault{Kind: "worker-kill", Class: plan.Workers, Target: w, From: at(1.1), To: at(1.15), Effective: true})
	}
}

// lose has every attempt of a job end with its sandbox.
func (t *tale) lose(j *Job) {
	j.Events = j.Events[:3]
	t.add(j, 1.1, events.KindRetrying, j.Events[1].Seq, "w1", events.Retrying{Class: "sandbox_lost", Attempt: 1})
	var c uint64
	for n := 2; n <= 3; n++ {
		c = t.add(j, 1.1, events.KindClaimed, 0, "w1", events.Claimed{Worker: "w1", Attempt: n, Origin: 1})
		t.add(j, 1.2, events.KindStarted, c, "w1", events.Started{Attempt: n, Generation: n})
		if n < 3 {
			t.add(j, 1.2, events.KindRetrying, c, "w1", events.Retrying{Class: "sandbox_lost", Attempt: n})
		}
	}
	t.add(j, 2, events.Failed, c, "w1", events.Outcome{Class: "sandbox_lost", Attempts: 3})
	for _, id := range []string{"x", "y", "z"} {
		t.Boxes = append(t.Boxes, Box{ID: id, Session: "s", Attempt: id, Born: at(0), Gone: at(1.5), Killed: true})
	}
}

// moved makes of the two jobs an upload and a download that finds nothing.
func (t *tale) moved(up, down *Job) {
	t.Runs = nil
	up.Plan = &plan.Job{Session: "s", ID: "one", Flavour: plan.Upload, Exclusive: true}
	down.Plan = &plan.Job{Session: "s", ID: "two", Flavour: plan.Download, Exclusive: true, Object: "out-one"}
	t.end(down, events.Dead, events.Outcome{Class: "not_found", Attempts: 1})
	t.Letters = []Letter{{Session: "s", Job: "two", Class: "not_found"}}
}

// copies makes a second sandbox for the session's intent, which was begun by w1 and
// taken up by w2, and removes it again.
func (t *tale) copies(j *Job) {
	t.taken(j, 3)
	begun := State{Seq: 0, Time: at(.5), Record: session.Record{Session: "s", State: session.Provisioning, Generation: 1, Attempt: "a", Worker: "w1", Job: j.Plan.ID}}
	next := begun
	next.Time, next.Worker = at(3.1), "w2"
	t.States["s"] = append([]State{begun, next}, t.States["s"][1:]...)
	t.Boxes = append(t.Boxes, Box{ID: "b2", Session: "s", Attempt: "a", Born: at(3.2), Gone: at(5)})
}

// stopped is copies with a maker that was told to stop and let go of the job.
func (t *tale) stopped(j *Job) {
	t.copies(j)
	t.Faults[0].Kind = "worker-restart"
	j.Events = j.Events[:3]
	t.add(j, 2, events.KindInterrupted, j.Events[1].Seq, "w1", events.Interrupted{Worker: "w1"})
	c := t.add(j, 2.1, events.KindClaimed, 0, "w2", events.Claimed{Worker: "w2", Attempt: 1, Origin: 1})
	t.add(j, 3.3, events.Succeeded, c, "w2", events.Outcome{Class: "ok", Attempts: 1})
}

// waited is copies with a maker that had waited, and whose beats were lost: the job was
// delivered again, in its first place.
func (t *tale) waited(j *Job) {
	t.copies(j)
	t.Faults = []Fault{{Kind: "nats-restart-all", Class: plan.NATS, Target: "all", From: at(-2), To: at(-1)}}
	j.Events = j.Events[:3]
	j.Events[1].Data, _ = json.Marshal(events.Claimed{Worker: "w1", Attempt: 1, Origin: 1, Stream: "JOBS", StreamSeq: 1, Delivery: 1})
	c := t.add(j, 3, events.KindClaimed, 0, "w2", events.Claimed{Worker: "w2", Attempt: 1, Origin: 1, Stream: "JOBS", StreamSeq: 1, Delivery: 2})
	t.add(j, 3.3, events.Succeeded, c, "w2", events.Outcome{Class: "ok", Attempts: 1})
}

// crossed has a worker with a slow way give a job back after it was delivered to the
// next one, which brings it to a third.
func (t *tale) crossed(j *Job) {
	t.taken(j, 3)
	t.Faults[0].Kind, t.Faults[0].Class = "slow-worker-nats", plan.Network
	j.Events = j.Events[:3]
	t.add(j, 2, events.KindInterrupted, j.Events[1].Seq, "w1", events.Interrupted{Worker: "w1"})
	t.add(j, 2.1, events.KindClaimed, 0, "w2", events.Claimed{Worker: "w2", Attempt: 1, Origin: 1})
	c := t.add(j, 2.2, events.KindClaimed, 0, "w3", events.Claimed{Worker: "w3", Attempt: 1, Origin: 1, Takeover: true})
	t.add(j, 3, events.Succeeded, c, "w3", events.Outcome{Class: "ok", Attempts: 1})
}

// What the documents say of ends that nobody wants, each with its whole reason;
// TestEachIsSeen has them without.
func TestExplained(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		tell func(s *tale, one, two *Job)
		want string
	}{
		{"quarantine", func(s *tale, one, _ *Job) { s.quarantined(one) }, "quarantined"},
		{"quarantine in an outage", func(s *tale, one, _ *Job) {
			s.quarantined(one)
			s.Faults = []Fault{{Kind: "nats-kill", Class: plan.NATS, Target: "n1", From: at(-3), To: at(-2.5)}}
		}, "quarantined"},
		{"attempts", func(s *tale, one, _ *Job) { s.lose(one) }, "used up"},
		{"file of another sandbox", func(s *tale, one, two *Job) {
			s.moved(one, two)
			two.Events[3].Seq = 100
			s.States["s"] = append(s.States["s"], State{Seq: 99, Time: at(90), Record: session.Record{State: session.Paused, Generation: 2, SandboxID: "box"}})
		}, "found nothing"},
		{"second sandbox", func(s *tale, one, _ *Job) { s.copies(one) }, "second sandbox"},
		{"second sandbox, the maker was told to stop", func(s *tale, one, _ *Job) { s.stopped(one) }, "second sandbox"},
		{"second sandbox, the maker's beats were lost while it waited", func(s *tale, one, _ *Job) { s.waited(one) }, "second sandbox"},
		{"taken after an older delivery came back", func(s *tale, one, _ *Job) { s.crossed(one) }, ""},
		{"late takeover on a late machine", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Pulses = []Pulse{{At: at(2), Took: 100 * time.Millisecond}}
		}, ""},
		{"late takeover in an outage", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Faults = append(s.Faults, Fault{Kind: "nats-kill", Class: plan.NATS, Target: "n1", From: at(-1), To: at(0)})
		}, ""},
		{"taken after a silence of the queue", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Faults = nil
			s.Silences = []Pulse{{At: at(0), Took: 2 * time.Second}}
		}, ""},
		{"taken after it was given back", func(s *tale, one, _ *Job) {
			s.taken(one, 15)
			s.Faults = []Fault{{Kind: "nats-kill", Class: plan.NATS, Target: "n1", From: at(-5), To: at(0)}}
			s.Returns = []Return{{Session: "s", Job: "one", Worker: "w1", At: at(9)}}
			s.States["s"] = s.States["s"][:2]
			s.state(30, session.Pausing, "idle-1-1")
			s.state(30.1, session.Paused, "idle-1-1")
		}, ""},
		{"late takeover, the heir died too", func(s *tale, one, _ *Job) {
			s.taken(one, 5.5)
			s.Faults = append(s.Faults, Fault{Kind: "worker-kill", Class: plan.Workers, Target: "w3", From: at(2), To: at(3)})
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, one, two := newTale()
			tt.tell(s, one, two)
			r := All(s.Record)
			require.Empty(t, r.Violations)
			if tt.want != "" {
				require.Len(t, r.Explained, 1)
				for why := range r.Explained {
					require.Contains(t, why, tt.want)
				}
			}
		})
	}
}

func TestTakeovers(t *testing.T) {
	t.Parallel()
	s, one, _ := newTale()
	s.quarantined(one)
	ts := Takeovers(s.Record)
	require.Len(t, ts, 2)
	require.Equal(t, "worker-kill", ts[0].Cause.Kind)
	require.Equal(t, 100*time.Millisecond, ts[0].After.Round(time.Millisecond))
	require.False(t, ts[0].Prompt(), "another worker was killed too")
	s.add(one, 2.1, events.KindClaimed, 0, "w3", events.Claimed{Worker: "w3", Attempt: 1, Origin: 1})
	require.Len(t, All(s.Record).Violations, 1, "a claim after the end")
}

func TestOutput(t *testing.T) {
	t.Parallel()
	j := &plan.Job{ID: "j", Script: &plan.Script{Lines: 3}}
	whole := string(j.Script.Stdout("j", 1))
	sum := func(s string) events.Outcome {
		return events.Outcome{Class: "ok", Attempts: 1, StdoutBytes: int64(len(s)), StdoutSHA256: hexSum(s)}
	}
	begins := map[int]int64{1: 0}
	tests := []struct {
		name  string
		parts [][2]any // offset, text
		out   events.Outcome
		want  string
	}{
		{"whole", [][2]any{{0, whole[:5]}, {5, whole[5:]}}, sum(whole), ""},
		{"gap", [][2]any{{0, whole[:5]}, {6, whole[6:]}}, sum(whole[:5] + whole[6:]), "a gap of 1 bytes"},
		{"double", [][2]any{{0, whole[:5]}, {3, whole[3:]}}, sum(whole[:5] + whole[3:]), "2 bytes twice"},
		{"short", [][2]any{{0, whole[:5]}}, sum(whole[:5]), "subscribers got 5"},
		{"foreign", [][2]any{{0, "x" + whole[1:]}}, sum("x" + whole[1:]), "from its byte 0"},
		{"hash", [][2]any{{0, whole}}, events.Outcome{Class: "ok", Attempts: 1, StdoutBytes: int64(len(whole)), StdoutSHA256: "00"}, "hash"},
		{"count", [][2]any{{0, whole}}, events.Outcome{Class: "ok", Attempts: 1, StdoutBytes: 1, StdoutSHA256: hexSum(whole)}, "tells of 1 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got Collected
			for i, p := range tt.parts {
				got.Add(uint64(i), int64(p[0].(int)), []byte(p[1].(string)))
			}
			faults := strings.Join(Output(j, events.Stdout, got, begins, events.Succeeded, tt.out), "\n")
			if tt.want == "" {
				require.Empty(t, faults)
			} else {
				require.Contains(t, faults, tt.want)
			}
		})
	}
}

// The output of a second attempt follows what the first one wrote.
func TestOutputOfTwoAttempts(t *testing.T) {
	t.Parallel()
	j := &plan.Job{ID: "j", Script: &plan.Script{Lines: 3}}
	first, second := string(j.Script.Stdout("j", 1))[:7], string(j.Script.Stdout("j", 2))
	var got Collected
	got.Add(1, 0, []byte(first+second))
	out := events.Outcome{Class: "ok", Attempts: 2, StdoutBytes: int64(len(got.Data)), StdoutSHA256: hexSum(first + second)}
	require.Empty(t, Output(j, events.Stdout, got, map[int]int64{1: 0, 2: 7}, events.Succeeded, out))
	require.NotEmpty(t, Output(j, events.Stdout, got, map[int]int64{1: 0, 2: 8}, events.Succeeded, out))

	third := string(j.Script.Stdout("j", 3)) // and the second one never began
	got = Collected{}
	got.Add(1, 0, []byte(first+third))
	out.Attempts, out.StdoutSHA256 = 3, hexSum(first+third)
	require.Empty(t, Output(j, events.Stdout, got, map[int]int64{1: 0, 3: 7}, events.Succeeded, out))
	require.NotEmpty(t, Output(j, events.Stdout, got, map[int]int64{1: 0, 3: 8}, events.Succeeded, out))
}

func TestParseRun(t *testing.T) {
	t.Parallel()
	r, err := ParseRun("s.2.j.3", noon, noon)
	require.NoError(t, err)
	require.Equal(t, Run{Session: "s", Generation: 2, Job: "j", Attempt: 3, Start: noon, End: noon}, r)
	_, err = ParseRun("s.2.j", noon, noon)
	require.Error(t, err)
	_, err = ParseRun("s.x.j.3", noon, noon)
	require.Error(t, err)
}
