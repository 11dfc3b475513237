package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/wire"
)

// Log writes and reads events. It may be used concurrently.
type Log struct {
	nc     *nats.Conn
	pub    *natsx.Publisher
	ns     wire.Namespace
	source string // ce-source, encoded
	stream string // EVENTS in the namespace
	states string // SESSIONS in the namespace
	get    *getter

	life  context.Context // of what runs in the background
	close context.CancelCauseFunc
	ttl   atomic.Pointer[string] // of a destroyed session's last record
	group sync.WaitGroup
}

var errLogClosed = errors.New("event log closed")

// Open returns a Log that writes as source, for instance "/sandjet/worker/<id>".
// pub is used for all writes; it and nc stay the caller's. Setup must have run at
// some time before the first write.
func Open(nc *nats.Conn, pub *natsx.Publisher, ns wire.Namespace, source string) (*Log, error) {
	get, err := newGetter(nc)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l := &Log{
		nc: nc, pub: pub, ns: ns, get: get,
		source: encodeHeader(source),
		stream: ns.Stream(StreamEvents),
		states: ns.Stream(StreamSessions),
	}
	l.life, l.close = context.WithCancelCause(context.Background())
	return l, nil
}

// Close ends what the Log runs in the background and waits for it. Claims and
// their outputs are to be closed before.
func (l *Log) Close() error {
	l.close(errLogClosed)
	l.group.Wait()
	return l.get.close()
}

// subject is where an event of j is published.
func (l *Log) subject(j Job, kind Kind) string {
	return string(l.appendSubject(nil, j, kind))
}

func (l *Log) appendSubject(b []byte, j Job, kind Kind) []byte {
	if l.ns != "" {
		b = append(b, l.ns...)
		b = append(b, '.')
	}
	b = append(b, "event."...)
	b = append(b, j.Session...)
	b = append(b, '.')
	b = append(b, j.ID...)
	b = append(b, '.')
	return append(b, kind...)
}

// Accept records that a worker has seen the job and found it well-formed. It is
// written once per job; a record that is there already is left as it is.
func (l *Log) Accept(ctx context.Context, j Job, a Accepted) error {
	for try := 0; ; try++ {
		e, err := l.accepted(j, a)
		if err != nil {
			return err
		}
		_, err = l.pub.Publish(ctx, at(KindAccepted), &e.msg)
		e.free()
		switch {
		case err == nil, errors.Is(err, natsx.ErrStale):
			return nil
		case !errors.Is(err, natsx.ErrBusy):
			return fmt.Errorf("accept job %s: %w", j, err)
		}
		if err := backoff(ctx, try); err != nil {
			return fmt.Errorf("accept job %s: %w", j, err)
		}
	}
}

// AcceptAsync is Accept without waiting. done is called once; it must neither block
// nor publish. If AcceptAsync itself returns an error, done is not called.
func (l *Log) AcceptAsync(j Job, a Accepted, done func(error)) error {
	e, err := l.accepted(j, a)
	if err != nil {
		return err
	}
	err = l.pub.PublishAsync(at(KindAccepted), &e.msg, func(_ natsx.Ack, err error) {
		e.free()
		switch {
		case errors.Is(err, natsx.ErrStale):
			err = nil
		case errors.Is(err, natsx.ErrBusy): // another worker writes the very same record
			l.group.Go(func() { done(l.Accept(l.life, j, a)) })
			return
		case err != nil:
			err = fmt.Errorf("accept job %s: %w", j, err)
		}
		done(err)
	})
	if err != nil {
		e.free()
		return fmt.Errorf("accept job %s: %w", j, err)
	}
	return nil
}

func (l *Log) accepted(j Job, a Accepted) (*envelope, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	e := l.envelope(j, KindAccepted, "accepted")
	e.set(slotExpectSeq, "0")
	return e, e.payload(KindAccepted, a)
}

// backoff waits before a write that was told to try again: 1 ms at first, never
// more than 50 ms, with jitter so that two who collide do not collide again.
func backoff(ctx context.Context, try int) error {
	d := time.Millisecond << min(try, 6)
	d = min(d, 50*time.Millisecond)
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
