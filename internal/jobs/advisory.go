package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/point"
)

// Exhausted is called for a job whose deliveries are used up, before its letter
// goes on the shelf, to write the job's last event. It may change the letter.
type Exhausted func(ctx context.Context, l *DeadLetter) error

// WatchAdvisories shelves jobs whose deliveries are used up: with MaxDeliver set,
// the server leaves such a message in its stream and tells nobody again. It runs
// until ctx ends and returns nil then; workers share the advisories. When end
// fails, the advisory comes again.
func (q *Queue) WatchAdvisories(ctx context.Context, end Exhausted) error {
	for fails := 1; ; fails++ {
		err := q.watchAdvisories(ctx, end)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, jetstream.ErrConnectionClosed) {
			return fmt.Errorf("watch advisories: %w", err)
		}
		q.log.Warn("max-deliveries advisories are not watched", "err", err)
		select {
		case <-time.After(Delay(min(fails, 5))):
		case <-ctx.Done():
			return nil
		}
	}
}

func (q *Queue) watchAdvisories(ctx context.Context, end Exhausted) error {
	stream := q.ns.Stream(StreamAdvisories)
	s, err := q.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", stream, err)
	}
	c, err := s.CreateOrUpdateConsumer(ctx, q.deadLettersConfig())
	if err != nil {
		return fmt.Errorf("consumer %s: %w", DurableDeadLetters, err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return fmt.Errorf("consume %s: %w", stream, err)
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		switch {
		case ctx.Err() != nil:
			if m != nil {
				return m.NakWithDelay(minGiveBack)
			}
			return ctx.Err()
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue // it asks again by itself
		case err != nil:
			return fmt.Errorf("next of %s: %w", stream, err)
		}
		if err := q.shelve(ctx, m, end); err != nil {
			return fmt.Errorf("answer advisory: %w", err)
		}
	}
}

// shelve deals with one advisory and answers it.
func (q *Queue) shelve(ctx context.Context, m jetstream.Msg, end Exhausted) error {
	if err := q.exhausted(ctx, m.Data(), end); err != nil {
		q.log.Warn("exhausted job not shelved yet", "err", err)
		return m.NakWithDelay(Delay(3))
	}
	at := point.Of("jobs", "ack_advisory")
	if err := point.Before(ctx, at); err != nil {
		return err
	}
	if err := m.Ack(); err != nil {
		return err
	}
	return point.After(ctx, at)
}

// exhausted shelves the job that an advisory is about. Every step may be done
// again.
func (q *Queue) exhausted(ctx context.Context, data []byte, end Exhausted) error {
	var a struct {
		Stream     string `json:"stream"`
		Consumer   string `json:"consumer"`
		StreamSeq  uint64 `json:"stream_seq"`
		Deliveries int    `json:"deliveries"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		q.log.Error("unreadable advisory", "err", err)
		return nil
	}
	s, err := q.js.Stream(ctx, a.Stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", a.Stream, err)
	}
	m, err := s.GetMsg(ctx, a.StreamSeq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil // done, or its last delivery was acknowledged late
	}
	if err != nil {
		return fmt.Errorf("message %d of %s: %w", a.StreamSeq, a.Stream, err)
	}
	if strings.HasPrefix(m.Subject, q.ns.Subject(tokenSchedule)+".") {
		return nil // not a job's own message: no consumer is delivered these
	}
	j, _ := Decode(Raw{
		Subject: m.Subject, Header: m.Header, Data: m.Data, Stream: a.Stream,
		StreamSeq: m.Sequence, Delivered: a.Deliveries, Time: m.Time,
	}, q.ns) // shelved in either case
	l := DeadLetter{
		Job:    j,
		Class:  ClassUndelivered,
		Reason: fmt.Sprintf("delivered %d times by consumer %s and never finished", a.Deliveries, a.Consumer),
	}
	if end != nil {
		if err := end(ctx, &l); err != nil {
			return fmt.Errorf("end job %s: %w", j.ID, err)
		}
	}
	if err := q.Dead(ctx, l); err != nil {
		return err
	}
	if err := drop(ctx, s, m.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return fmt.Errorf("delete message %d of %s: %w", m.Sequence, a.Stream, err)
	}
	return nil
}
