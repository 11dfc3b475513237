package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// pump hands out free slots and asks for more messages. It is called with c.mu
// held, after every change.
func (c *Consumer) pump() {
	for len(c.unparked) > 0 && c.slots.take() {
		u := c.unparked[0]
		c.unparked = slices.Delete(c.unparked, 0, 1)
		c.parked--
		u.d.slot, u.d.parked = true, false
		close(u.ready)
	}
	connected := c.running && !c.stopped && c.nc.IsConnected()
	best := c.pick()
	for len(c.landed) > 0 && c.slots.free() > 0 {
		l := c.firstLanded()
		if connected && best != nil && c.rank(best) < c.rank(l.d.source) {
			break // look there first
		}
		c.slots.take()
		c.takeLanded(l)
		c.passBy(l.d.source)
		c.start(l.d)
	}
	if !connected {
		return
	}
	if c.slots.free() <= 0 {
		c.idle()
		return
	}
	if c.paused() {
		return
	}
	for _, s := range c.sources {
		if !s.maybe && !s.isOpen() {
			c.wait(s)
		}
	}
	if !c.fetching() { // else the free slots join the next fetch
		if s := c.pick(); s != nil {
			c.fetch(s)
		}
	}
}

// rank is a source's place in the order of service; one that was passed by for
// too long goes first.
func (c *Consumer) rank(s *source) int {
	if s.passed >= c.cfg.Guard {
		return -1
	}
	return slices.Index(c.sources, s)
}

// pick returns the source to fetch from, or nil if none may have messages.
func (c *Consumer) pick() (best *source) {
	for _, s := range c.sources {
		if s.blocked || s.isOpen() || !s.maybe {
			continue
		}
		if best == nil || c.rank(s) < c.rank(best) {
			best = s
		}
	}
	return best
}

// passBy notes that a job of s got a slot: those below have waited for it.
func (c *Consumer) passBy(s *source) {
	s.passed = 0
	for _, lower := range c.sources[slices.Index(c.sources, s)+1:] {
		lower.passed++
	}
}

// fetching reports whether a fetch is under way. There is one at a time: what is
// freed meanwhile makes the next one larger.
func (c *Consumer) fetching() bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool {
		return s.isOpen() && s.pull.nowait
	})
}

// idle is for a worker without free slots. After a while it takes its waiting
// pulls back, so that other workers get the messages.
func (c *Consumer) idle() {
	if c.linger != nil || c.slots.promised > 0 {
		return
	}
	c.linger = time.AfterFunc(c.cfg.Linger, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.linger = nil
		if c.stopped || c.slots.free() > 0 || c.slots.promised > 0 {
			return
		}
		for _, s := range c.sources {
			if s.isOpen() {
				c.withdraw(s)
				s.maybe = time.Now().After(s.stalled) // nobody looks from here on
			}
		}
	})
}

// fetch asks s for as many messages as there are free slots; a source whose turn
// it is by the guard alone gets a share of them.
func (c *Consumer) fetch(s *source) {
	n := c.slots.free()
	if s.passed >= c.cfg.Guard {
		n = max(1, n/c.cfg.Guard)
	}
	n = c.pace.most(n, time.Now())
	if !c.request(s, fetchRequest(n), fetchSilence) {
		return
	}
	s.pull.nowait, s.pull.left, s.pull.marked = true, n, n
	s.passed = 0
	c.slots.promise(n)
}

// wait asks s for one message, whenever it comes.
func (c *Consumer) wait(s *source) {
	if !s.blocked && c.request(s, waitRequest(c.terms), c.terms.silence()) {
		s.pull.nowait, s.pull.left = false, 1
	}
}

// request sends a pull request.
func (c *Consumer) request(s *source, body []byte, silence time.Duration) bool {
	if s.pull == nil && !c.subscribe(s) {
		return false
	}
	p := s.pull
	if err := c.nc.PublishRequest(s.next, p.inbox, body); err != nil {
		c.fail(s, "pull not sent", err.Error())
		return false
	}
	p.open = true
	c.expect(p, silence)
	return true
}

// expect sets the time by which the server must have said something.
func (c *Consumer) expect(p *pull, within time.Duration) {
	p.until, p.marked = time.Now().Add(within), p.left
	if p.timer == nil {
		p.timer = time.AfterFunc(within, func() { c.silent(p) })
	} else {
		p.timer.Reset(within)
	}
}

func (c *Consumer) subscribe(s *source) bool {
	p := &pull{src: s, inbox: c.nc.NewInbox()}
	sub, err := c.nc.Subscribe(p.inbox, func(m *nats.Msg) { c.receive(p, m) })
	if err == nil {
		// Bounded by what we ask for; a message the client dropped would be
		// away for AckWait.
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		c.fail(s, "no subscription for pulls", err.Error())
		return false
	}
	p.sub = sub
	s.pull = p
	return true
}

// receive takes what the server sends: a job, or word on the pull.
func (c *Consumer) receive(p *pull, m *nats.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Subject == p.inbox {
		c.told(p, m)
		return
	}
	d := &Delivery{consumer: c, source: p.src, msg: m}
	p.src.maybe = p.nowait || time.Now().After(p.src.stalled)
	c.healthy(p.src)
	promised := p.open && p.nowait && p.left > 0
	if p.left > 0 {
		p.left--
	}
	if p.open && p.left == 0 {
		p.open = false
		p.timer.Stop()
	}
	switch {
	case c.stopped:
		if promised {
			c.slots.withdraw(1)
		}
		c.tasks.Go(func() {
			d.read()
			c.giveBack(d, handBack)
		})
	case promised:
		c.slots.redeem()
		c.passBy(p.src)
		c.start(d)
	default:
		c.land(d)
	}
	if !p.open {
		c.pump()
	}
}

// told reads a status; c.mu is held.
func (c *Consumer) told(p *pull, m *nats.Msg) {
	if p.src.pull != p || !p.open {
		return // of a pull we have given up
	}
	switch st := readStatus(m); st {
	case statusHeartbeat:
		c.expect(p, c.terms.silence())
		return
	case statusEmpty, statusEnded:
		c.end(p)
		p.src.maybe = false
		c.healthy(p.src)
	default:
		what := m.Header.Get("Description")
		// Nobody answers for a consumer that was deleted, nor for one whose
		// leader is being elected: look before it is made again.
		p.src.check = st == statusNobody || strings.Contains(strings.ToLower(what), "deleted")
		c.fail(p.src, "pull refused", st.String()+" "+what)
	}
	c.pump()
}

// silent gives up a pull that the server has not spoken of for too long.
func (c *Consumer) silent(p *pull) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := p.src
	if s.pull != p || !p.open || c.stopped || time.Now().Before(p.until) {
		return // the timer is of an earlier request
	}
	switch {
	case p.nowait && p.left < p.marked: // a large batch is still coming in
		c.expect(p, fetchSilence)
	case p.nowait:
		c.withdraw(s)
		s.maybe, s.stalled = false, time.Now().Add(stallFor)
	default:
		c.fail(s, "server is silent on a pull", "")
	}
	c.pump()
}

// end closes the request and frees the slots it was promised.
func (c *Consumer) end(p *pull) {
	if !p.open {
		return
	}
	p.open = false
	p.timer.Stop()
	if p.nowait {
		c.slots.withdraw(p.left)
	}
	p.left = 0
}

// withdraw takes the source's pull back: the server forgets it, and what it has
// sent already is still received.
func (c *Consumer) withdraw(s *source) {
	p := s.pull
	if p == nil {
		return
	}
	s.pull = nil
	c.end(p)
	closed := make(chan struct{})
	p.sub.SetClosedHandler(func(string) { close(closed) })
	if err := p.sub.Drain(); err != nil {
		return // the connection is closed, nothing comes any more
	}
	c.tasks.Go(func() {
		select {
		case <-closed:
		case <-time.After(2 * time.Second): // no connection: the server forgets by itself
		}
	})
}

// fail withdraws the pull and looks again after a backoff.
func (c *Consumer) fail(s *source, what, why string) {
	c.withdraw(s)
	s.maybe, s.blocked = true, true
	s.fails++
	level := c.log.Debug
	if s.fails%20 == failsToWarn {
		level = c.log.Warn
	}
	level("jobs are not fetched", "consumer", s.name, "stream", s.stream, "reason", what, "err", why)
	delay := Jitter(min(50*time.Millisecond<<min(s.fails, 7), 5*time.Second))
	c.tasks.Go(func() {
		select {
		case <-time.After(delay):
			c.repair(s)
		case <-c.stopping:
		}
	})
}

// failsToWarn is how many looks may fail before it is said aloud: an election
// or a restart is over sooner.
const failsToWarn = 3

// healthy notes that the server answers for s.
func (c *Consumer) healthy(s *source) {
	if s.fails >= failsToWarn {
		c.log.Info("jobs are fetched again", "consumer", s.name, "stream", s.stream)
	}
	s.fails = 0
}

// repair makes a consumer again that is gone, and opens the source.
func (c *Consumer) repair(s *source) {
	c.mu.Lock()
	check := s.check
	c.mu.Unlock()
	var err error
	if check {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err = c.q.ensureConsumer(ctx, s.stream, s.config)
		cancel()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.blocked = false
	if err != nil {
		if !c.stopped {
			c.fail(s, "consumer is missing", err.Error())
		}
		return
	}
	s.check = false
	c.pump()
}

// reconnected gives up every pull: the server has forgotten them.
func (c *Consumer) reconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sources {
		c.withdraw(s)
		s.maybe = true
	}
	c.pump()
}
