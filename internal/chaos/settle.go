package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/session"
)

// How long the end of a campaign may take.
const (
	// stuckLimit is how long nothing may end before those that are left count as
	// never ended: longer than any wait that the worker makes.
	stuckLimit = 75 * time.Second
	// orphanGrace is how old a sandbox may be at the end without its session.
	orphanGrace = 25 * time.Second
	// calmLimit is how long sessions may take to come to rest.
	calmLimit = 60 * time.Second
	// hasty is what takes their place in a control, which is there to be broken.
	hasty = 8 * time.Second
)

// settle waits, with everything whole again, until every job has ended and every
// session has come to rest.
func (c *Campaign) settle(ctx context.Context) {
	stuck, calm := stuckLimit, calmLimit
	if c.o.Off != "" {
		stuck, calm = hasty, hasty
	}
	under, _, _ := c.board.state()
	c.say("all published, all faults over; %d jobs under way", under)
	for ctx.Err() == nil {
		under, _, last := c.board.state()
		if under == 0 || time.Since(last) > stuck && c.idleSince() > stuck {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	deadline := time.Now().Add(calm + c.rec.Idle)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		if what, err := c.restless(ctx); err == nil && what == "" {
			return
		} else if time.Until(deadline) < calm/4 {
			c.say("not at rest yet: %s %v", what, err)
			pause(ctx, 5*time.Second)
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// idleSince is how long ago the campaign had its last fault.
func (c *Campaign) idleSince() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.rec.Faults); n > 0 {
		return time.Since(c.rec.Faults[n-1].To)
	}
	return time.Since(c.rec.Began)
}

// restless says what is not at rest: a session in a state that it must leave, a
// job in the queue, a sandbox without a session.
func (c *Campaign) restless(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, name := range []string{"JOBS", "SCHEDULES"} {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return "", err
		}
		if n := s.CachedInfo().State.Msgs; n > 0 {
			return fmt.Sprintf("%d messages in %s", n, name), nil
		}
	}
	owned := map[string]bool{}
	for f, err := range c.facts.Sessions(ctx) {
		if err != nil {
			return "", err
		}
		r := f.Value
		if r.State.Transitional() || r.State == session.Active {
			return fmt.Sprintf("session %s is %s", r.Session, r.State), nil
		}
		if r.State.HasSandbox() {
			owned[r.SandboxID] = true
		}
	}
	boxes, err := c.rig.Boxes.Journal(ctx)
	if err != nil {
		return "", err
	}
	for _, b := range boxes {
		if b.Gone.IsZero() && !owned[b.ID] {
			return fmt.Sprintf("sandbox %s of session %s has no session", b.ID, b.Metadata["sandjet-session"]), nil
		}
	}
	return "", nil
}
