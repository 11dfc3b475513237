package events

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
)

// Chain yields all stored events of a job in the order of the stream, without the
// bytes of its output: of stdout and stderr there is the last event only, with its
// end as Offset and no Data.
func (l *Log) Chain(ctx context.Context, j Job) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		all, err := l.chain(ctx, j)
		if err != nil {
			yield(Event{}, fmt.Errorf("chain of job %s: %w", j, err))
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (l *Log) chain(ctx context.Context, j Job) ([]Event, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	last, err := l.lasts(ctx, j, 0)
	if err != nil {
		return nil, err
	}
	var all []Event
	for _, m := range last {
		e, err := l.event(m)
		if err != nil {
			var ok bool
			if e, ok, err = l.before(ctx, m); err != nil {
				return nil, err
			}
			if !ok {
				continue // somebody else's alone
			}
		}
		if e.Kind.Output() {
			e.Offset, e.Data = e.End(), nil
			all = append(all, e)
			continue
		}
		// The newest of a kind is known; read the older ones.
		for m, err := range l.scan(ctx, m.Subject, 1, m.Seq) {
			if err != nil {
				return nil, err
			}
			e, err := l.event(m)
			if err != nil {
				continue
			}
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// scan yields the messages of EVENTS that match filter, from sequence from up to
// and including to, which is known to be stored.
func (l *Log) scan(ctx context.Context, filter string, from, to uint64) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		for try := 0; from <= to; {
			msgs, err := l.get.fetch(ctx, l.stream, request{Seq: from, NextFor: filter, Batch: followBatch, MaxBytes: followBytes})
			if err == nil && len(msgs) == 0 {
				if try++; try > staleTries {
					return // it has left the stream meanwhile
				}
				err = backoff(ctx, try)
			}
			if err != nil {
				yield(stored{}, err)
				return
			}
			for _, m := range msgs {
				if m.Seq > to || !yield(m, nil) {
					return
				}
				from, try = m.Seq+1, 0
			}
		}
	}
}
