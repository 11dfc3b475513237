package events

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Cancel records the wish that a job end. It is not fenced: it works before the job
// is taken up, while it runs and whoever runs it. Several wishes do no harm.
func (l *Log) Cancel(ctx context.Context, j Job, r CancelRequested) error {
	if err := j.check(); err != nil {
		return err
	}
	e := l.envelope(j, KindCancelRequested, "cancel.", nuid.Next())
	defer e.free()
	if err := e.payload(KindCancelRequested, r); err != nil {
		return err
	}
	if _, err := l.pub.Publish(ctx, at(KindCancelRequested), &e.msg); err != nil {
		return fmt.Errorf("cancel job %s: %w", j, err)
	}
	return nil
}

// WatchCancels calls fn for every job that somebody wants cancelled: first for the
// stored wishes, newest of each job, then for each that comes, until ctx ends or the
// Log is closed. It returns once the stored ones are through. fn is called from one
// goroutine and must not block for long. The watch survives lost connections.
func (l *Log) WatchCancels(ctx context.Context, fn func(Job, CancelRequested)) error {
	js, err := jetstream.New(l.nc)
	if err != nil {
		return fmt.Errorf("watch cancels: %w", err)
	}
	// The consumer is a copy of a configuration, so it counts its own progress.
	cons, err := js.OrderedConsumer(ctx, l.stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{l.ns.Subject("event", "*", "*", string(KindCancelRequested))},
		DeliverPolicy:  jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		return fmt.Errorf("watch cancels: %w", err)
	}
	ready := make(chan struct{})
	var once sync.Once
	caughtUp := func() { once.Do(func() { close(ready) }) }
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 {
		caughtUp()
	}
	cc, err := cons.Consume(func(m jetstream.Msg) {
		l.cancelled(m, fn)
		if meta, err := m.Metadata(); err == nil && meta.NumPending == 0 {
			caughtUp()
		}
	})
	if err != nil {
		return fmt.Errorf("watch cancels: %w", err)
	}
	l.group.Go(func() {
		select {
		case <-ctx.Done():
		case <-l.life.Done():
		}
		cc.Stop()
		<-cc.Closed()
	})
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("watch cancels: %w", context.Cause(ctx))
	case <-l.life.Done():
		return fmt.Errorf("watch cancels: %w", context.Cause(l.life))
	}
}

// cancelled hands one wish to fn. What cannot be read is no wish of ours.
func (l *Log) cancelled(m jetstream.Msg, fn func(Job, CancelRequested)) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	e, err := parse(l.ns, meta.Sequence.Stream, m.Subject(), meta.Timestamp, m.Headers(), m.Data())
	if err != nil || wish(e) != nil {
		return
	}
	var r CancelRequested
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &r) != nil {
		r = CancelRequested{} // who asks by hand may leave the body away
	}
	fn(e.Job, r)
}
