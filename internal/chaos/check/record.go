package check

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

// Record is all that was written down of a campaign.
type Record struct {
	AckWait time.Duration
	Idle    time.Duration // of sessions that name none
	Grace   time.Duration // a sandbox younger than this at the end may lack its session

	Jobs    []*Job
	States  map[string][]State // of each session, in the order of the stream
	Runs    []Run
	Boxes   []Box
	Letters []Letter
	Faults  []Fault
	Began   time.Time
	Ended   time.Time

	Truth   map[string]string // the last state of each session, as the stream has it
	View    map[string]string // as Redis had it
	Rebuilt map[string]string // as Redis had it after it was wiped
	Rests   []string          // what else was left in Redis that should not be
	Leaks   []string          // where the API key was found
	Bounds  []Bound
	Calls   map[string]int // to the sandbox server, by operation
	Pulses  []Pulse        // that took long

	// Returns are jobs that a worker gave back to the queue and could not say so, by its
	// own log.
	Returns []Return

	// Silences are when the leader of the queue's consumer gave no answer, from the
	// last one before to the first one after.
	Silences []Pulse
}

// Return is a job that was given back without an event that tells of it.
type Return struct {
	Session, Job, Worker string
	At                   time.Time
}

// Pulse is how long the machine took for what is nothing to do: to wake a sleeper,
// and to store a message in the cluster.
type Pulse struct {
	At   time.Time
	Took time.Duration
}

// Job is one job and all that happened to it.
type Job struct {
	Plan   *plan.Job
	Acked  time.Time // when the queue had taken it; zero if it never did
	Wanted time.Time // when its cancel was recorded; zero if nobody asked
	Events []Event
	Output []string // what was wrong with its output
	Bytes  int64    // of output that were compared
	Object string   // what was wrong with the object it made
}

// Key is "<session>/<job>".
func (j *Job) Key() string { return j.Plan.Session + "/" + j.Plan.ID }

// Event is one event of a job, without the bytes of its output.
type Event struct {
	Seq    uint64
	Time   time.Time
	Kind   events.Kind
	Token  uint64 // the fence it was written under, 0 if none
	Writer string // the worker that wrote it
	Offset int64  // of output
	Size   int    // of output
	Data   []byte // of all others
}

// State is one record of a session.
type State struct {
	Seq  uint64
	Time time.Time
	session.Record
}

// Run is one start of a command, by its own word.
type Run struct {
	Session    string
	Generation int
	Job        string
	Attempt    int
	Start, End time.Time // End is zero if it ran at the very end
}

// Box is a sandbox, by its server's journal.
type Box struct {
	ID, Session, Attempt string
	Born, Gone           time.Time // Gone is zero if it is there
	Killed               bool      // by the campaign
}

// Letter is a dead letter.
type Letter struct{ Session, Job, Class, Reason string }

// Fault is one fault as it was.
type Fault struct {
	N         int
	Kind      string
	Class     string
	Target    string // what it was done to
	From, To  time.Time
	Effective bool
	Note      string
}

// Bound is something that has a limit.
type Bound struct {
	What      string
	Have, May int64
}

// ParseRun reads the name that a command gave of itself.
func ParseRun(name string, start, end time.Time) (Run, error) {
	t := strings.Split(name, ".")
	r := Run{Start: start, End: end}
	if len(t) < 4 {
		return r, fmt.Errorf("run %q: not <session>.<generation>.<job>.<attempt>", name)
	}
	r.Session, r.Job = t[0], t[2]
	if _, err := fmt.Sscanf(t[1]+" "+t[3], "%d %d", &r.Generation, &r.Attempt); err != nil {
		return r, fmt.Errorf("run %q: %w", name, err)
	}
	return r, nil
}

// decode reads an event's payload; what cannot be read is the zero value.
func decode[T any](e Event) (v T) {
	_ = json.Unmarshal(e.Data, &v)
	return v
}

// claims are the job's claims, in order.
func (j *Job) claims() (out []claim) {
	for _, e := range j.Events {
		if e.Kind == events.KindClaimed {
			out = append(out, claim{e, decode[events.Claimed](e)})
		}
	}
	return out
}

type claim struct {
	Event
	events.Claimed
}

// end is the job's first terminal event.
func (j *Job) end() (Event, events.Outcome, bool) {
	for _, e := range j.Events {
		if e.Kind.Terminal() {
			return e, decode[events.Outcome](e), true
		}
	}
	return Event{}, events.Outcome{}, false
}

// of are the job's events of a kind.
func (j *Job) of(k events.Kind) (out []Event) {
	for _, e := range j.Events {
		if e.Kind == k {
			out = append(out, e)
		}
	}
	return out
}

// span is when the job lived.
func (j *Job) span() (from, to time.Time) {
	from = j.Acked
	if n := len(j.Events); n > 0 {
		if from.IsZero() {
			from = j.Events[0].Time
		}
		return from, j.Events[n-1].Time
	}
	return from, from
}

// Show is the job's history, a line an event.
func (j *Job) Show() []string {
	var out []string
	for _, e := range j.Events {
		line := fmt.Sprintf("%s #%d %s", e.Time.Format("15:04:05.000"), e.Seq, e.Kind)
		if e.Kind.Output() {
			line += fmt.Sprintf(" %d bytes at %d", e.Size, e.Offset)
		} else if text := string(e.Data); len(text) > 600 {
			line += " " + text[:600] + "…"
		} else {
			line += " " + text
		}
		if e.Writer != "" {
			line += fmt.Sprintf(" [%s under %d]", e.Writer, e.Token)
		}
		out = append(out, line)
	}
	return out
}
