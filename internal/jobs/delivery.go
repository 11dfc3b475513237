package jobs

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/point"
)

// Delivery is a job in a worker's hands. The handler settles it once, with Ack
// or GiveBack. Its methods may be used concurrently.
type Delivery struct {
	*Job
	// Err is set when the message is no job that could be run: an *Invalid or a
	// *NewerVersion. Job then holds what could be told.
	Err error

	Durable     string // the consumer it came from
	ConsumerSeq uint64 // its number there: deliveries are counted without gaps

	// Note is the worker's own: what ConsumerConfig.Arrived leaves for the handler.
	Note any

	consumer *Consumer
	source   *source
	msg      *nats.Msg
	decoded  sync.Once
	settled  atomic.Bool
	slot     bool // guarded by consumer.mu: it runs in a slot; else it is parked
	parked   bool // guarded by consumer.mu
}

var (
	ackBody        = []byte("+ACK")
	inProgressBody = []byte("+WPI")
)

// Ack takes the message off the queue. It is sent without waiting for the
// server: a lost ack means one more delivery, which the job's log answers.
func (d *Delivery) Ack() error {
	if !d.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	return d.answer(point.Of("jobs", "ack"), ackBody)
}

// minGiveBack keeps a message that nobody can run from spinning.
const minGiveBack = 20 * time.Millisecond

// GiveBack returns the message to the queue, for any worker, after a delay. It
// spends no attempt.
func (d *Delivery) GiveBack(delay time.Duration) error {
	if !d.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	delay = max(delay, minGiveBack)
	return d.answer(point.Of("jobs", "give_back"), []byte(`-NAK {"delay": `+strconv.FormatInt(int64(delay), 10)+`}`))
}

// Abandon lets go of the message without a word to the server: it has another
// holder, whose delivery a late answer of this one would disturb.
func (d *Delivery) Abandon() { d.settled.Store(true) }

// InProgress tells the server that the job is alive, which renews AckWait. It is
// meant for a Wheel. After the delivery is settled it does nothing.
func (d *Delivery) InProgress() error {
	if d.settled.Load() {
		return nil
	}
	return d.answer(point.Of("jobs", "in_progress"), inProgressBody)
}

// Settled reports whether the delivery has been acknowledged or given back.
func (d *Delivery) Settled() bool { return d.settled.Load() }

func (d *Delivery) answer(at point.At, body []byte) error {
	err := point.Before(context.Background(), at)
	if err == nil {
		err = d.consumer.nc.Publish(d.msg.Reply, body)
	}
	if err == nil {
		err = point.After(context.Background(), at)
	}
	if err != nil {
		return fmt.Errorf("answer delivery: %w", err)
	}
	return nil
}

// Park gives the job's slot to others while the job waits for something short.
// The handler keeps the message and its beat. It returns false, and the slot is
// kept, when too many jobs are parked or the consumer stops: then give the
// message back or reschedule it.
func (d *Delivery) Park() bool { return d.consumer.park(d) }

// Unpark takes a slot again, before any job that has not begun. It fails with
// ErrStopping, or with ctx's cause; the job then has no slot, and the handler
// may only settle it.
func (d *Delivery) Unpark(ctx context.Context) error { return d.consumer.unpark(ctx, d) }

// Stopping is closed when the consumer takes up no more work. A handler that
// waits should then give its message back.
func (d *Delivery) Stopping() <-chan struct{} { return d.consumer.Stopping() }

// read decodes the message and says that it has arrived, once.
func (d *Delivery) read() {
	d.decoded.Do(func() {
		d.Job, d.Err = Decode(d.raw(), d.consumer.q.ns)
		if f := d.consumer.cfg.Arrived; f != nil {
			f(d)
		}
	})
}

// raw reads what the server says of the message.
func (d *Delivery) raw() Raw {
	r := Raw{Subject: d.msg.Subject, Header: d.msg.Header, Data: d.msg.Data, Stream: d.source.stream}
	meta, err := d.msg.Metadata()
	if err != nil {
		d.consumer.log.Error("delivery without metadata", "err", err)
		return r
	}
	d.Durable, d.ConsumerSeq = d.source.name, meta.Sequence.Consumer
	r.StreamSeq = meta.Sequence.Stream
	r.Delivered = int(meta.NumDelivered)
	r.Time = meta.Timestamp
	return r
}
