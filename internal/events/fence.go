package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
)

// falseAlarms bounds how often a write is repeated that the server refuses although
// the claim stands, as a new leader may for a moment.
const falseAlarms = 50

// write publishes e against the fence. The caller holds the turn.
func (c *Claim) write(ctx context.Context, kind Kind, e *envelope) (natsx.Ack, error) {
	alarms := 0
	for try := 0; ; try++ {
		if !point.Off(point.Fence) {
			e.set(slotExpectSubject, c.subject)
			e.set(slotExpectSeq, c.seq)
		}
		ack, err := c.log.pub.Publish(ctx, at(kind), &e.msg)
		switch {
		case err == nil:
			return ack, nil
		case errors.Is(err, natsx.ErrBusy): // a claim, or an earlier send of this
		case errors.Is(err, natsx.ErrStale):
			if alarms++; alarms > falseAlarms {
				return ack, err
			}
			if err := c.examine(ctx); err != nil {
				return ack, err
			}
		default:
			return ack, err
		}
		if err := backoff(ctx, try); err != nil {
			return natsx.Ack{}, err
		}
	}
}

// Check asks the leader whether the claim stands. ErrLost: somebody else holds the
// job. Whoever is about to change something that no claim guards asks before. A
// claim under which the job was ended stands.
func (c *Claim) Check(ctx context.Context) error {
	if point.Off(point.Fence) {
		return nil
	}
	switch err := c.begin(ctx); {
	case errors.Is(err, ErrEnded):
		return nil
	case err != nil:
		return fmt.Errorf("check the claim of job %s: %w", c.job, err)
	}
	defer c.finish()
	return c.examine(ctx)
}

// examine is called when the fence refused a write, or somebody asks. It asks the leader who holds
// the job: somebody else, and the claim is lost; nobody, since the record is past
// the stream's limits, and it is written anew; we, and the write may be repeated.
func (c *Claim) examine(ctx context.Context) error {
	last, rec, err := c.last(ctx)
	switch {
	case errors.Is(err, ErrNotFound):
		err := c.make(ctx, 0, 0)
		if errors.Is(err, ErrLost) {
			return c.lose(err)
		}
		return err
	case err != nil:
		return fmt.Errorf("examine the fence: %w", err)
	case last.Seq > c.Token() && last.Header.Get(headerMsgID) == c.id:
		c.hold(last.Seq)
	case last.Seq > c.Token() && c.foreign(last):
		// Somebody else than a worker has published there. Our claim goes over it,
		// unless another worker's does.
		err := c.make(ctx, last.Seq, 0)
		if errors.Is(err, ErrLost) {
			return c.lose(err)
		}
		return err
	case last.Seq > c.Token():
		return c.lose(&LostError{Job: c.job, Token: last.Seq, By: rec})
	}
	return nil
}

// lose marks the claim as lost, for good.
func (c *Claim) lose(err error) error {
	c.end(err)
	c.once.Do(func() { close(c.lost) })
	return err
}

// foreign reports whether a message on the claim's subject is no claim.
func (c *Claim) foreign(m stored) bool {
	_, err := c.log.event(m)
	return err != nil
}
