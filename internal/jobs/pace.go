package jobs

import "time"

// How a consumer slows down when jobs say that others like them should not be
// fetched now.
const (
	// slowMost is for how long nothing is fetched at most, whatever was asked for.
	slowMost = 2 * time.Second
	// slowStep is between two fetches while the consumer is slow.
	slowStep = 100 * time.Millisecond
	// slowFor is how long a consumer stays slow after it was last asked to.
	slowFor = 10 * time.Second
)

// pace slows fetching down. The consumer's lock guards it.
type pace struct {
	next  time.Time // nothing is fetched before
	until time.Time // one message at a time is fetched until then
	timer *time.Timer
}

// slow moves the next fetch back by d.
func (p *pace) slow(d time.Duration, now time.Time) {
	if p.next.Before(now) {
		p.next = now
	}
	if p.next = p.next.Add(d); p.next.Sub(now) > slowMost {
		p.next = now.Add(slowMost)
	}
	p.until = now.Add(slowFor)
}

// wait returns how long the next fetch has to wait.
func (p *pace) wait(now time.Time) time.Duration { return max(p.next.Sub(now), 0) }

// most is how many messages a fetch may ask for, which it is about to.
func (p *pace) most(n int, now time.Time) int {
	if now.After(p.until) {
		return n
	}
	p.next = now.Add(slowStep)
	return min(n, 1)
}

// Slow says that jobs like this one should not be fetched now, as when what they
// need does not answer: fetching pauses for d, and for as many as say so, up to 2
// s, and goes on with one job at a time until nobody has said so for 10 s. Jobs
// that need something else go on, at that pace.
func (d *Delivery) Slow(by time.Duration) {
	c := d.consumer
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pace.slow(by, time.Now())
}

// paused reports whether nothing may be fetched yet, and sees to it that the pump
// runs when it may; c.mu is held.
func (c *Consumer) paused() bool {
	wait := c.pace.wait(time.Now())
	if wait == 0 {
		return false
	}
	if c.pace.timer == nil {
		c.pace.timer = time.AfterFunc(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.pace.timer = nil
			if !c.stopped {
				c.pump()
			}
		})
	}
	return true
}
