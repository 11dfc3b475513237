package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Position is the last delivery of a consumer of JOBS.
type Position struct {
	Durable          string
	Consumer, Stream uint64 // its sequences; 0 if nothing was delivered
}

// Positions asks the server how far the consumers of JOBS have got.
func (q *Queue) Positions(ctx context.Context) ([]Position, error) {
	var all []Position
	for _, s := range q.sources() {
		if s.stream != q.ns.Stream(StreamJobs) {
			continue
		}
		c, err := q.js.Consumer(ctx, s.stream, s.config.Durable)
		if err != nil {
			return nil, fmt.Errorf("position of consumer %s: %w", s.config.Durable, err)
		}
		d := c.CachedInfo().Delivered
		all = append(all, Position{s.config.Durable, d.Consumer, d.Stream})
	}
	return all, nil
}

// Durable names the consumer that brings jobs of a priority from JOBS.
func (p Priority) Durable() string {
	switch p {
	case High:
		return DurableHigh
	case Low:
		return DurableLow
	}
	return DurableNormal
}

// Underway calls f with the jobs that JOBS holds behind the sequence after, up to
// upto, in any order, one call at a time. Messages that are no jobs are left out.
// It reads from the stream's leader, past all consumers, so nothing is delivered.
func (q *Queue) Underway(ctx context.Context, after, upto uint64, f func(*Job) error) error {
	s, err := q.js.Stream(ctx, q.ns.Stream(StreamJobs))
	if err != nil {
		return fmt.Errorf("look into %s: %w", q.ns.Stream(StreamJobs), err)
	}
	from := max(after+1, s.CachedInfo().State.FirstSeq)
	err = readAll(ctx, s, from, upto, func(m *jetstream.RawStreamMsg) error {
		j, err := Decode(Raw{
			Subject: m.Subject, Header: m.Header, Data: m.Data, Stream: q.ns.Stream(StreamJobs), StreamSeq: m.Sequence, Time: m.Time,
		}, q.ns)
		if err != nil {
			return nil // it is no job, or not one of ours to run
		}
		return f(j)
	})
	if err != nil {
		return fmt.Errorf("look into %s: %w", q.ns.Stream(StreamJobs), err)
	}
	return nil
}

// Holds reports whether a stream still has a message: nobody has acknowledged it.
func (q *Queue) Holds(ctx context.Context, stream string, seq uint64) (bool, error) {
	s, err := q.js.Stream(ctx, stream)
	if err == nil {
		_, err = s.GetMsg(ctx, seq)
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", stream, err)
	}
	return true, nil
}

// Waiting is a job in SCHEDULES.
type Waiting struct {
	*Job
	At time.Time // when it is due; zero if it has come back and nobody has finished it
	// Lane says that it waits for its turn in its session's lane.
	Lane bool
}

// Scheduled calls f with the jobs in SCHEDULES, one call at a time. A job that
// comes back or is put back meanwhile may be shown twice; none is left out that was
// there all the time.
func (q *Queue) Scheduled(ctx context.Context, f func(Waiting) error) error {
	s, err := q.js.Stream(ctx, q.ns.Stream(StreamSchedules))
	if err != nil {
		return fmt.Errorf("look into %s: %w", q.ns.Stream(StreamSchedules), err)
	}
	state := s.CachedInfo().State
	show := func(m *jetstream.RawStreamMsg) error {
		w, ok := q.waiting(m)
		if !ok {
			return nil
		}
		return f(w)
	}
	err = readAll(ctx, s, state.FirstSeq, state.LastSeq, show)
	if err == nil {
		// A job that moved while we read stands behind what was the end.
		err = readOn(ctx, s, state.LastSeq+1, noEnd, show)
	}
	if err != nil {
		return fmt.Errorf("look into %s: %w", q.ns.Stream(StreamSchedules), err)
	}
	return nil
}

// waiting reads a message of SCHEDULES. A schedule has the form of what it fires,
// but for its subject.
func (q *Queue) waiting(m *jetstream.RawStreamMsg) (w Waiting, ok bool) {
	raw := Raw{Subject: m.Subject, Header: m.Header, Data: m.Data, Stream: q.ns.Stream(StreamSchedules), StreamSeq: m.Sequence, Time: m.Time}
	if target := m.Header.Get(jetstream.ScheduleTargetHeader); target != "" {
		raw.Subject = target
		w.Lane = Class(m.Header.Get(HeaderWaits)) == ClassLane
		if at, ok := strings.CutPrefix(m.Header.Get(jetstream.ScheduleHeader), "@at "); ok {
			w.At, _ = time.Parse(time.RFC3339Nano, at) // ours, or a schedule nobody can read
		}
	}
	j, err := Decode(raw, q.ns)
	w.Job = j
	return w, err == nil
}

// readers is how many requests for messages are under way at a time.
const readers = 16

// noEnd is behind any sequence.
const noEnd = 1<<64 - 1

// readAll calls f for every message of s from one sequence to another, in any
// order, one call at a time.
func readAll(ctx context.Context, s jetstream.Stream, from, to uint64, f func(*jetstream.RawStreamMsg) error) error {
	if from > to {
		return nil
	}
	var mu sync.Mutex
	one := func(m *jetstream.RawStreamMsg) error {
		mu.Lock()
		defer mu.Unlock()
		return f(m)
	}
	part := (to-from)/readers + 1
	group, ctx := errgroup.WithContext(ctx)
	for at := from; at <= to && at >= from; at += part {
		group.Go(func() error { return readOn(ctx, s, at, min(to, at+part-1), one) })
	}
	return group.Wait()
}

// readOn calls f for the messages of s one after the other.
func readOn(ctx context.Context, s jetstream.Stream, from, to uint64, f func(*jetstream.RawStreamMsg) error) error {
	for from <= to {
		m, err := s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Sequence > to {
			return nil
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", from, err)
		}
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		if err := f(m); err != nil {
			return err
		}
		from = m.Sequence + 1
	}
	return nil
}
