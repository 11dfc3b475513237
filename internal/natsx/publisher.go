package natsx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/point"
)

// Option tunes a Publisher.
type Option func(*Publisher)

// MaxInFlight bounds the messages that wait for their ack, 4096 unless told.
// Publishing blocks at the bound.
func MaxInFlight(n int) Option {
	return func(p *Publisher) { p.slots = make(chan struct{}, max(n, 1)) }
}

// AckWait is how long an ack may take before the message is sent again, 1 s unless
// told; it doubles with each send up to eightfold. A stream that changes its leader
// loses what was under way without a word.
func AckWait(d time.Duration) Option { return func(p *Publisher) { p.ackWait = d } }

// AsyncLimit is how long PublishAsync tries before done gets ErrNoAck, 30 s
// unless told. Publish goes by its context instead.
func AsyncLimit(d time.Duration) Option { return func(p *Publisher) { p.limit = d } }

// Publisher publishes to JetStream, many messages at a time, and counts the acks
// on one reply subject. It may be used concurrently.
type Publisher struct {
	nc      *nats.Conn
	prefix  string // of the reply subjects; the rest is the flight's id
	sub     *nats.Subscription
	slots   chan struct{} // one taken for each message in flight
	ackWait time.Duration
	limit   time.Duration
	start   time.Time
	wake    chan struct{}
	quit    chan struct{}
	swept   chan struct{}
	status  chan nats.Status
	stream  string // last stream that acked; reader goroutine only

	mu      sync.Mutex
	flights map[uint64]*flight
	last    uint64 // id of the newest flight
	sent    queue  // flights that wait for an ack, oldest send first
	again   queue  // flights to be sent again, in no order
	asleep  bool   // the sweeper waits for wake
	landing int    // flights taken off the books and not answered yet
	empty   chan struct{}
	closed  bool
}

// NewPublisher starts a Publisher on nc. Close ends it and leaves nc open.
func NewPublisher(nc *nats.Conn, opts ...Option) (*Publisher, error) {
	p := &Publisher{
		nc:      nc,
		prefix:  nc.NewInbox() + ".",
		slots:   make(chan struct{}, 4096),
		ackWait: time.Second,
		limit:   30 * time.Second,
		start:   time.Now(),
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		swept:   make(chan struct{}),
		flights: make(map[uint64]*flight),
	}
	for _, o := range opts {
		o(p)
	}
	sub, err := nc.Subscribe(p.prefix+"*", p.answered)
	if err != nil {
		return nil, fmt.Errorf("subscribe to acks: %w", err)
	}
	// An ack that the client dropped would be a message sent twice.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to acks: %w", err), sub.Unsubscribe())
	}
	p.sub = sub
	p.status = nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	go p.sweep()
	return p, nil
}

// Publish publishes msg and waits for its ack. A send that is not answered is
// repeated until ctx ends, if the message carries a Nats-Msg-Id; so is one that
// finds no stream listening. When ctx ends first the error is ErrNoAck and the
// context's cause. A refusal is an *APIError. msg belongs to the Publisher until
// Publish returns; its Reply is overwritten. at names what is published.
func (p *Publisher) Publish(ctx context.Context, at point.At, msg *nats.Msg) (Ack, error) {
	if err := point.Before(ctx, at); err != nil {
		return Ack{}, fmt.Errorf("publish %s: %w: %w", msg.Subject, ErrUnavailable, err)
	}
	ack, err := p.publish(ctx, msg)
	if err != nil {
		return ack, err
	}
	if err := point.After(ctx, at); err != nil {
		return Ack{}, fmt.Errorf("publish %s: %w: %w", msg.Subject, ErrNoAck, err)
	}
	return ack, nil
}

func (p *Publisher) publish(ctx context.Context, msg *nats.Msg) (Ack, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return Ack{}, fmt.Errorf("publish %s: not sent: %w", msg.Subject, context.Cause(ctx))
	case <-p.quit:
		return Ack{}, ErrClosed
	}
	w := waiters.Get().(*waiter)
	id, err := p.launch(msg, w.fn, forever)
	if err != nil {
		waiters.Put(w)
		return Ack{}, err
	}
	select {
	case r := <-w.ch:
		waiters.Put(w)
		return r.ack, r.err
	case <-ctx.Done():
	}
	if p.forget(id) {
		waiters.Put(w)
		return Ack{}, p.noAck(msg.Subject, context.Cause(ctx))
	}
	r := <-w.ch // the answer is under way
	waiters.Put(w)
	return r.ack, r.err
}

// PublishAsync publishes msg and returns; it blocks only while too many messages
// are in flight. done is called exactly once, from the goroutine that reads all
// acks: it must not block and must not publish itself. If PublishAsync returns an
// error, nothing was sent and done is not called. Sends are repeated as by
// Publish; after the AsyncLimit done gets ErrNoAck. msg belongs to the Publisher
// until done is called.
func (p *Publisher) PublishAsync(at point.At, msg *nats.Msg, done func(Ack, error)) error {
	if err := point.Before(context.Background(), at); err != nil {
		return fmt.Errorf("publish %s: %w: %w", msg.Subject, ErrUnavailable, err)
	}
	if point.Built {
		done = losing(at, done)
	}
	select {
	case p.slots <- struct{}{}:
	case <-p.quit:
		return ErrClosed
	}
	_, err := p.launch(msg, done, p.now()+p.limit)
	return err
}

// losing is done for a message whose answer a fault point may take away.
func losing(at point.At, done func(Ack, error)) func(Ack, error) {
	return func(ack Ack, err error) {
		if err == nil {
			err = point.After(context.Background(), at)
		}
		if errors.Is(err, point.ErrLost) {
			ack, err = Ack{}, fmt.Errorf("%w: %w", ErrNoAck, err)
		}
		done(ack, err)
	}
}

// Flush waits until no message is in flight and every done has returned.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	if len(p.flights) == 0 && p.landing == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.empty == nil {
		p.empty = make(chan struct{})
	}
	empty := p.empty
	p.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("flush publishes: %w", context.Cause(ctx))
	}
}

// Close gives up on what is in flight, which is answered ErrClosed with ErrNoAck,
// and ends the Publisher. It may be called twice.
func (p *Publisher) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.swept
		return nil
	}
	p.closed = true
	close(p.quit)
	p.mu.Unlock()
	<-p.swept
	p.nc.RemoveStatusListener(p.status)
	err := p.sub.Unsubscribe()
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		err = nil
	}
	p.abandon(ErrClosed)
	return err
}

// launch registers msg and sends it. The caller has taken a slot.
func (p *Publisher) launch(msg *nats.Msg, done func(Ack, error), until time.Duration) (uint64, error) {
	f := spare.Get().(*flight)
	f.msg, f.done, f.until = msg, done, until
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.slots
		return 0, ErrClosed
	}
	p.last++
	id := p.last
	f.id = id
	msg.Reply = p.reply(id)
	f.at = p.now()
	p.flights[f.id] = f
	p.sent.push(f)
	wake := p.asleep
	p.asleep = false
	p.mu.Unlock()
	if wake {
		select {
		case p.wake <- struct{}{}:
		default: // a wake is under way
		}
	}
	// From here on f may be answered at any time, and be another message's.
	err := p.nc.PublishMsg(msg)
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		p.retry(id, err) // it was not sent; the server is away
		return id, nil
	}
	if p.forget(id) {
		return 0, fmt.Errorf("publish %s: %w", msg.Subject, err)
	}
	return id, nil // Close was faster and has answered
}

func (p *Publisher) reply(id uint64) string {
	var b [80]byte
	return string(strconv.AppendUint(append(b[:0], p.prefix...), id, 36))
}

// answered reads one answer. It runs on the subscription's goroutine.
func (p *Publisher) answered(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(p.prefix):], 36, 64)
	if err != nil {
		return
	}
	if len(m.Data) == 0 { // 503: no stream listens on that subject, maybe not yet
		p.retry(id, errNoStream)
		return
	}
	ack, refusal, err := parseAck(m.Data, p.stream)
	if refusal != nil && refusal.passing() {
		p.retry(id, refusal)
		return
	}
	f := p.take(id)
	if f == nil {
		return
	}
	p.stream = ack.Stream
	if refusal != nil {
		refusal.Resent = f.unanswered
		err = fmt.Errorf("publish %s: %w", f.msg.Subject, refusal)
	}
	p.land(f, ack, err)
}

// take removes a flight, which makes the caller the one who answers it. It is nil
// if somebody else has done so.
func (p *Publisher) take(id uint64) *flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flights[id]
	if f == nil {
		return nil
	}
	p.drop(f)
	return f
}

// forget removes a flight whose answer nobody waits for.
func (p *Publisher) forget(id uint64) bool {
	f := p.take(id)
	if f != nil {
		p.landed()
	}
	return f != nil
}

func (p *Publisher) takeAll() []*flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*flight, 0, len(p.flights))
	for _, f := range p.flights {
		all = append(all, f)
		p.drop(f)
	}
	return all
}

// drop takes f off the books; p.mu is held. Call landed when it is answered.
func (p *Publisher) drop(f *flight) {
	delete(p.flights, f.id)
	f.in.remove(f)
	p.landing++
	<-p.slots
}

// landed notes that a flight that was taken off the books is answered.
func (p *Publisher) landed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.landing--
	if len(p.flights) == 0 && p.landing == 0 && p.empty != nil {
		close(p.empty)
		p.empty = nil
	}
}

func (p *Publisher) now() time.Duration { return time.Since(p.start) }

// noAck is the error of a message whose answer did not come, with a hint where
// the server gave one.
func (p *Publisher) noAck(subject string, cause error) error {
	err := fmt.Errorf("publish %s: %w: %w", subject, ErrNoAck, cause)
	if last := p.nc.LastError(); last != nil && errors.Is(last, nats.ErrPermissionViolation) {
		return fmt.Errorf("%w (last answer of the server: %w)", err, last)
	}
	return err
}
