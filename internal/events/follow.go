package events

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
)

// FollowOptions says where to begin and what to check.
type FollowOptions struct {
	FromSeq    uint64 // first stream sequence of interest, 0 = all there is
	StdoutFrom int64  // bytes before these offsets are left out
	StderrFrom int64
	// Verify compares what was read with the lengths and hashes in the terminal
	// event. A hash is compared only if that output was read from 0.
	Verify bool
}

const (
	followBytes = 1 << 20 // of one request's answers
	followBatch = 256     // messages of one request, at most

	// Looking without having been woken: soon after the start, when the interest in
	// the subject may not have spread over a cluster, then rarely.
	firstLook = 250 * time.Millisecond
	lastLook  = 30 * time.Second
)

// Follow yields the events of a job in the order of the stream, from the stored
// ones to those to come, and ends after the terminal event. The job need not exist
// yet. Output is contiguous: what overlaps is cut, and where bytes have left the
// stream a *GapError is yielded, after which the caller may go on. Any other error
// is the last thing yielded; with Verify that may be a *VerifyError, after the
// terminal event.
//
// Nothing but stored events is yielded, and of what is stored on the job's subjects
// nothing that others than workers have published: what passes by on the subject is only a
// reason to look, since the server may refuse it.
func (l *Log) Follow(ctx context.Context, j Job, o FollowOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := j.check(); err != nil {
			yield(Event{}, err)
			return
		}
		f := &follower{log: l, job: j, filter: l.subject(j, "*"), next: max(o.FromSeq, 1), hints: newHints(), verify: o.Verify}
		f.out[0] = newTrack(Stdout, o.StdoutFrom, o.FromSeq)
		f.out[1] = newTrack(Stderr, o.StderrFrom, o.FromSeq)
		if err := f.run(ctx, yield); err != nil {
			yield(Event{}, fmt.Errorf("follow job %s: %w", j, err))
		}
	}
}

// follower is one Follow under way.
type follower struct {
	log    *Log
	job    Job
	filter string
	next   uint64 // stream sequence to read from
	goal   uint64 // sequence that is known to be stored
	hints  *hints
	out    [2]*track
	verify bool
}

// run yields until the end. An error is returned only if yield may be called with it.
func (f *follower) run(ctx context.Context, yield func(Event, error) bool) error {
	sub, err := f.log.nc.Subscribe(f.filter, func(m *nats.Msg) { f.hints.add(m.Header.Get(headerMsgID)) })
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	up := f.log.nc.StatusChanged(nats.CONNECTED)
	defer f.log.nc.RemoveStatusListener(up)

	look, batch := firstLook, 1
	if err := f.sight(ctx); err != nil {
		return err
	}
	for try := 0; ; {
		msgs, err := f.log.get.fetch(ctx, f.log.stream, f.request(batch))
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if more, err := f.emit(m, yield); !more || err != nil {
				return err
			}
		}
		if len(msgs) > 0 {
			try, batch = 0, min(batch*4, followBatch)
			continue
		}
		batch = 1
		if f.goal >= f.next || f.hints.pending() {
			if err := backoff(ctx, try); err != nil { // it is stored, or about to be
				return err
			}
			if try++; try > staleTries {
				f.goal = 0 // it has left the stream meanwhile
			}
			continue
		}
		try = 0
		t := time.NewTimer(look)
		select {
		case <-f.hints.wake:
		case <-t.C:
			look = min(2*look, lastLook)
		case <-up:
			look = firstLook
			err = f.sight(ctx)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if t.Stop(); err != nil {
			return err
		}
	}
}

// sight asks the leader what the job's newest event is.
func (f *follower) sight(ctx context.Context) error {
	s, err := f.log.newest(ctx, f.job)
	f.goal = max(f.goal, s.Seq)
	return err
}

func (f *follower) request(batch int) request {
	r := request{Seq: f.next, NextFor: f.filter}
	if batch > 1 {
		r.Batch, r.MaxBytes = batch, followBytes
	}
	return r
}

// emit yields what m holds. more is false when the follower is done.
func (f *follower) emit(m stored, yield func(Event, error) bool) (more bool, err error) {
	f.next = m.Seq + 1
	f.hints.seen(m.Header.Get(headerMsgID))
	e, err := f.log.event(m)
	if err != nil {
		return true, nil // somebody else's
	}
	for _, t := range f.out {
		if t.kind == e.Kind {
			return t.emit(e, yield), nil
		}
	}
	if !yield(e, nil) {
		return false, nil
	}
	if !e.Kind.Terminal() {
		return true, nil
	}
	if f.verify {
		err = f.check(e)
	}
	return false, err
}

// check compares what was read with the outcome.
func (f *follower) check(e Event) error {
	var o Outcome
	if err := e.Decode(&o); err != nil {
		return err
	}
	if err := f.out[0].check(f.job, o.StdoutBytes, o.StdoutSHA256); err != nil {
		return err
	}
	return f.out[1].check(f.job, o.StderrBytes, o.StderrSHA256)
}
