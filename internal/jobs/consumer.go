package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ConsumerConfig says how much a worker takes on.
type ConsumerConfig struct {
	Slots     int // jobs that run at a time; required
	MaxParked int // jobs that wait without a slot; 1000
	// Patience is how long a message that landed without a slot waits for one
	// before it is given back; a third of AckWait, at most 1 s.
	Patience time.Duration
	// Guard is how many jobs may go before a source of lower priority until it
	// gets a turn of its own; 16.
	Guard int
	// Linger is how long a worker without a free slot leaves its waiting pulls
	// with the server before it takes them back; 50 ms.
	Linger time.Duration
	// Arrived is called once for every delivery as soon as it has been read, also
	// for those that wait for a slot and those that are given back without one. It
	// comes before the handler, from any goroutine, and must not block.
	Arrived func(d *Delivery)
	Log     *slog.Logger
}

// Handler deals with one delivery and settles it. Its context ends when the
// consumer is killed, never when it stops. What it leaves unsettled is given
// back. It must not panic.
type Handler func(ctx context.Context, d *Delivery)

// Consumer fetches jobs into free slots: high before again before normal before
// low, with a turn for the lower ones now and then. It never polls: a source
// without messages has one pull waiting at the server.
type Consumer struct {
	q      *Queue
	nc     *nats.Conn
	cfg    ConsumerConfig
	log    *slog.Logger
	terms  pullTerms
	handle Handler

	stopping chan struct{}
	stopOnce sync.Once
	kill     context.CancelCauseFunc
	ctx      context.Context // of the handlers; ends with Kill
	handlers sync.WaitGroup
	tasks    sync.WaitGroup // drains and repairs

	mu       sync.Mutex
	running  bool
	stopped  bool
	sources  []*source // in the order in which they are served
	slots    slots
	parked   int
	unparked []*unparker // in the order they asked
	landed   []*landed   // messages without a slot
	linger   *time.Timer
	pace     pace
}

// unparker waits for a slot to go on with its job.
type unparker struct {
	d     *Delivery
	ready chan struct{}
}

// landed is a message that came when there was no slot.
type landed struct {
	d     *Delivery
	timer *time.Timer
}

// handBack is the delay of messages that a stopping worker returns: just enough
// not to be a bare nak.
const handBack = minGiveBack

// NewConsumer returns a consumer on the queue's streams. Setup must have made
// them, here or elsewhere.
func NewConsumer(q *Queue, cfg ConsumerConfig) (*Consumer, error) {
	if cfg.Slots < 1 {
		return nil, errors.New("consumer: slots: want at least 1")
	}
	set(&cfg.MaxParked, 1000)
	set(&cfg.Patience, min(time.Second, q.cfg.AckWait/3))
	set(&cfg.Guard, 16)
	set(&cfg.Linger, 50*time.Millisecond)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Consumer{
		q:        q,
		nc:       q.nc,
		cfg:      cfg,
		log:      cfg.Log,
		terms:    pullTermsFor(q.cfg.AckWait),
		stopping: make(chan struct{}),
		slots:    slots{total: cfg.Slots},
	}
	c.ctx, c.kill = context.WithCancelCause(context.Background())
	for _, s := range q.sources() {
		c.sources = append(c.sources, &source{
			name:   s.config.Durable,
			stream: s.stream,
			config: s.config,
			next:   q.apiSubject("CONSUMER.MSG.NEXT." + s.stream + "." + s.config.Durable),
			maybe:  true, // so that the first look is in order of priority
		})
	}
	return c, nil
}

// Run fetches jobs and calls handle for each, in a goroutine of its own, until
// Stop or Kill is called or ctx ends, which kills. It returns when all handlers
// have returned and their acks have been sent. The error says that the
// connection was closed under it. Run may be called once.
func (c *Consumer) Run(ctx context.Context, handle Handler) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return errors.New("consumer runs already")
	}
	c.running, c.handle = true, handle
	status := c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	c.pump()
	c.mu.Unlock()
	defer c.nc.RemoveStatusListener(status)

	var err error
	for done := false; !done; {
		select {
		case s := <-status:
			if s == nats.CLOSED {
				err = fmt.Errorf("consume jobs: %w", nats.ErrConnectionClosed)
				c.Kill(err)
				done = true
				break
			}
			c.reconnected()
		case <-ctx.Done():
			c.Kill(context.Cause(ctx))
			done = true
		case <-c.stopping:
			done = true
		}
	}
	stopWatch := context.AfterFunc(ctx, func() { c.Kill(context.Cause(ctx)) })
	defer stopWatch()
	c.halt()
	c.tasks.Wait()
	c.handlers.Wait()
	c.kill(nil)
	flush, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if e := c.nc.FlushWithContext(flush); e != nil && err == nil && !c.nc.IsClosed() {
		c.log.Warn("acks may not have been sent", "err", e)
	}
	return err
}

// Stop ends fetching and gives back what has landed and not begun, at once.
// Handlers go on. It may be called twice, and before Run.
func (c *Consumer) Stop() { c.stopOnce.Do(func() { close(c.stopping) }) }

// Kill stops and ends the handlers' context with that cause.
func (c *Consumer) Kill(cause error) {
	c.Stop()
	c.kill(cause)
}

// Stopping is closed once the consumer takes up no more work.
func (c *Consumer) Stopping() <-chan struct{} { return c.stopping }

// Load is what the consumer has in hand.
type Load struct {
	Slots   int // that there are
	Running int // jobs in a slot
	Parked  int // jobs that wait without one
	Landed  int // messages that wait for a slot to begin
}

// Load returns the present load.
func (c *Consumer) Load() Load {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Load{Slots: c.slots.total, Running: c.slots.used, Parked: c.parked, Landed: len(c.landed)}
}

// halt takes back all pulls and gives back what waits for a slot.
func (c *Consumer) halt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, s := range c.sources {
		c.withdraw(s)
	}
	for _, l := range c.landed {
		l.timer.Stop()
		c.giveBack(l.d, handBack)
	}
	c.landed = nil
	for _, u := range c.unparked {
		close(u.ready) // without a slot: they see that the consumer stops
	}
	c.unparked = nil
	if c.linger != nil {
		c.linger.Stop()
		c.linger = nil
	}
	if c.pace.timer != nil {
		c.pace.timer.Stop()
	}
}

// start runs the handler of a delivery that has a slot; c.mu is held.
func (c *Consumer) start(d *Delivery) {
	d.slot = true
	c.handlers.Add(1)
	go c.run(d)
}

func (c *Consumer) run(d *Delivery) {
	defer c.handlers.Done()
	d.read()
	c.handle(c.ctx, d)
	if !d.Settled() {
		c.log.Warn("handler left a job unsettled, it is given back", "job_id", d.ID, "session_id", d.Session)
		c.giveBack(d, time.Second)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case d.slot:
		c.slots.release()
	case d.parked:
		c.parked--
	}
	d.slot, d.parked = false, false
	c.pump()
}

func (c *Consumer) giveBack(d *Delivery, delay time.Duration) {
	if err := d.GiveBack(delay); err != nil && !errors.Is(err, ErrSettled) {
		c.log.Debug("message not given back, the server delivers it after AckWait", "err", err)
	}
}

func (c *Consumer) park(d *Delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.parked {
		return true
	}
	if !d.slot || c.stopped || c.parked >= c.cfg.MaxParked {
		return false
	}
	c.parked++
	d.slot, d.parked = false, true
	c.slots.release()
	c.pump()
	return true
}

func (c *Consumer) unpark(ctx context.Context, d *Delivery) error {
	c.mu.Lock()
	if d.slot {
		c.mu.Unlock()
		return nil
	}
	if c.stopped {
		c.mu.Unlock()
		return ErrStopping
	}
	u := &unparker{d: d, ready: make(chan struct{})}
	c.unparked = append(c.unparked, u)
	c.pump()
	c.mu.Unlock()
	select {
	case <-u.ready:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.slot { // also when ctx ended in the same moment
		return nil
	}
	c.unparked = slices.DeleteFunc(c.unparked, func(o *unparker) bool { return o == u })
	if c.stopped {
		return ErrStopping
	}
	return context.Cause(ctx)
}

// land takes a message that came without a promised slot, for the pump to start
// or for the timer to give back; c.mu is held.
func (c *Consumer) land(d *Delivery) {
	l := &landed{d: d}
	l.timer = time.AfterFunc(c.cfg.Patience, func() { c.lostPatience(l) })
	c.landed = append(c.landed, l)
	c.tasks.Go(d.read)
}

// lostPatience gives back a message that found no slot.
func (c *Consumer) lostPatience(l *landed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.takeLanded(l) {
		c.giveBack(l.d, Jitter(c.cfg.Patience))
	}
}

// firstLanded returns the message to start first; c.mu is held and there is one.
func (c *Consumer) firstLanded() *landed {
	return slices.MinFunc(c.landed, func(a, b *landed) int {
		return cmp.Compare(c.rank(a.d.source), c.rank(b.d.source))
	})
}

// takeLanded takes a message off the list. ok is false if it is not there.
func (c *Consumer) takeLanded(l *landed) (ok bool) {
	i := slices.Index(c.landed, l)
	if i < 0 {
		return false
	}
	c.landed = slices.Delete(c.landed, i, i+1)
	l.timer.Stop()
	return true
}
