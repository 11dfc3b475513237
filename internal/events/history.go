package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Fact is the newest event of a kind. Seq 0 means that there is none.
type Fact[T any] struct {
	Seq   uint64
	Time  time.Time
	Value T
}

// OK reports whether there is such an event.
func (f Fact[T]) OK() bool { return f.Seq != 0 }

func (f *Fact[T]) take(e Event) error {
	f.Seq, f.Time = e.Seq, e.Time
	return json.Unmarshal(e.Data, &f.Value)
}

// OutputEnd is how far an output is stored.
type OutputEnd struct {
	Seq    uint64 // of the last output event, 0 = none
	Time   time.Time
	Offset int64 // after the last byte
}

// History is what the stream holds of a job: the newest event of each kind, each
// with its sequence, so that one sees what came after what.
type History struct {
	Job  Job
	Last uint64 // sequence of the newest event, 0 = none at all
	// Fence is the newest message on the claim's subject: what the next claim has
	// to be written over. It is Claimed.Seq unless somebody else has published there.
	Fence uint64
	// Foreign are messages on the job's subjects that are no events of ours, of each
	// kind the newest. They count for nothing, but for Last and Fence.
	Foreign []uint64

	Accepted    Fact[Accepted]
	Claimed     Fact[Claimed]
	Waiting     Fact[Waiting]
	Started     Fact[Started]
	Step        Fact[Step]
	Progress    Fact[Progress]
	Reattached  Fact[Reattached]
	Retrying    Fact[Retrying]
	Interrupted Fact[Interrupted]
	Cancel      Fact[CancelRequested]

	Terminal Kind // "" while the job has not ended
	Outcome  Fact[Outcome]

	Stdout, Stderr OutputEnd
}

// Ended reports whether the job has its terminal event.
func (h History) Ended() bool { return h.Terminal != "" }

// History reads the job's history. The answer is not older than any write that was
// acknowledged before the call. A job of which nothing is stored has an empty
// history and no error.
func (l *Log) History(ctx context.Context, j Job) (History, error) {
	return l.history(ctx, j, 0)
}

// history is History that has seen at least the event atLeast.
func (l *Log) history(ctx context.Context, j Job, atLeast uint64) (History, error) {
	h := History{Job: j}
	if err := j.check(); err != nil {
		return h, err
	}
	msgs, err := l.lasts(ctx, j, atLeast)
	if err != nil {
		return h, fmt.Errorf("history of job %s: %w", j, err)
	}
	return h, h.read(ctx, l, msgs)
}

// newest reads the job's newest event from the leader; Seq is 0 if there is none.
func (l *Log) newest(ctx context.Context, j Job) (stored, error) {
	s, err := l.leader(ctx, l.stream, request{LastFor: l.subject(j, "*")})
	if errors.Is(err, ErrNotFound) {
		return stored{}, nil
	}
	return s, err
}

// staleTries is how often a replica is asked again for what the leader has, before
// it is taken as gone from the stream.
const staleTries = 100

// lasts reads the job's newest event of each kind, in the order of the stream, and
// has seen at least the event atLeast. Two requests do: the leader says which event
// is the newest; then any replica that has come so far will do, since what it has
// is a prefix of the log.
func (l *Log) lasts(ctx context.Context, j Job, atLeast uint64) ([]stored, error) {
	last, err := l.newest(ctx, j)
	if err != nil {
		return nil, err
	}
	atLeast = max(atLeast, last.Seq)
	if atLeast == 0 {
		return nil, nil
	}
	for try := 0; ; try++ {
		msgs, err := l.get.fetch(ctx, l.stream, request{MultiLast: []string{l.subject(j, "*")}})
		if err != nil {
			return nil, err
		}
		if n := len(msgs); n > 0 && msgs[n-1].Seq >= atLeast || try == staleTries {
			return msgs, nil
		}
		if err := backoff(ctx, try); err != nil {
			return nil, err
		}
	}
}

// read takes the newest event of each kind, in the order of the stream.
func (h *History) read(ctx context.Context, l *Log, msgs []stored) error {
	for _, m := range msgs {
		h.Last = max(h.Last, m.Seq)
		if m.Subject == l.subject(h.Job, KindClaimed) {
			h.Fence = m.Seq
		}
		e, err := l.event(m)
		if errors.Is(err, errForeign) {
			h.Foreign = append(h.Foreign, m.Seq)
			var ok bool
			if e, ok, err = l.before(ctx, m); err == nil && !ok {
				continue
			}
		}
		if err == nil {
			err = h.take(e)
		}
		if err != nil {
			return fmt.Errorf("history of job %s: event %d: %w", h.Job, m.Seq, err)
		}
	}
	return nil
}

func (h *History) take(e Event) error {
	h.Last = max(h.Last, e.Seq)
	switch e.Kind {
	case KindAccepted:
		return h.Accepted.take(e)
	case KindClaimed:
		return h.Claimed.take(e)
	case KindWaiting:
		return h.Waiting.take(e)
	case KindStarted:
		return h.Started.take(e)
	case KindStep:
		return h.Step.take(e)
	case KindProgress:
		return h.Progress.take(e)
	case KindReattached:
		return h.Reattached.take(e)
	case KindRetrying:
		return h.Retrying.take(e)
	case KindInterrupted:
		return h.Interrupted.take(e)
	case KindCancelRequested:
		_ = h.Cancel.take(e) // by hand it may say anything
		return nil
	case Stdout:
		h.Stdout = OutputEnd{e.Seq, e.Time, e.End()}
	case Stderr:
		h.Stderr = OutputEnd{e.Seq, e.Time, e.End()}
	case Succeeded, Failed, Cancelled, Dead:
		h.Terminal = e.Kind
		return h.Outcome.take(e)
	}
	return nil // a kind of a later version
}
