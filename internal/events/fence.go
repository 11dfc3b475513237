package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
)

// falseAlarms bounds how often a write is repeated that the server refuses although
// the claim stands, as a new leader may for a moment.
const falseAlarms = 50

// errOver is a job that has a terminal event already.
var errOver = fmt.Errorf("%w already", ErrEnded)

// write publishes e against the fence. The caller holds the turn.
//
// The fence of most events is the claim record. That of the terminal one is the
// job's newest event, whatever it is, as it is for a claim by Succeed: replicas know
// of what is on its way by the subject that it is checked on, and of an end and a
// claim that are checked on different ones both may be stored.
func (c *Claim) write(ctx context.Context, kind Kind, e *envelope) (natsx.Ack, error) {
	alarms := 0
	for try := 0; ; try++ {
		switch {
		case point.Off(point.Fence):
		case kind.Terminal():
			e.set(slotExpectSubject, c.log.subject(c.job, "*"))
			e.set(slotExpectSeq, strconv.FormatUint(c.last, 10))
			e.set(slotClaim, c.seq)
		default:
			e.set(slotExpectSubject, c.subject)
			e.set(slotExpectSeq, c.seq)
		}
		ack, err := c.log.pub.Publish(ctx, at(kind), &e.msg)
		switch {
		case err == nil:
			c.last = max(c.last, ack.Seq)
			return ack, nil
		case errors.Is(err, natsx.ErrBusy): // a claim, or an earlier send of this
		case errors.Is(err, natsx.ErrStale):
			if alarms++; alarms > falseAlarms {
				return ack, err
			}
			if err := c.refresh(ctx, kind); err != nil {
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

// refresh is called when the fence refused an event of that kind. If nil is returned
// the write may be repeated. The newest event is read before the claim is examined: if
// that stands then, nobody else's comes after the one that was read but refuses
// the write again.
func (c *Claim) refresh(ctx context.Context, kind Kind) error {
	if !kind.Terminal() {
		return c.examine(ctx)
	}
	s, err := c.log.newest(ctx, c.job)
	if err != nil {
		return fmt.Errorf("read the newest event: %w", err)
	}
	if err := c.examine(ctx); err != nil {
		return err
	}
	e, err := c.log.event(s)
	switch {
	case err != nil: // none of ours, or none at all
	case e.Kind.Terminal():
		return errOver
	case e.Token() > c.Token(): // a claim that the examined replica did not have yet
		return nil
	}
	c.last = max(c.last, s.Seq)
	return nil
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
	last, rec, err := c.record(ctx)
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
