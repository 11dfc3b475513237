package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nuid"

	"github.com/sandjet/sandjet/internal/natsx"
)

// Claim is the right to write a job's events, for as long as nobody else claims
// the job. Its methods may be called concurrently; writes take turns, one in
// flight at a time, as replicated streams demand.
type Claim struct {
	log     *Log
	job     Job
	rec     Claimed
	subject string // of the claim record: the fence
	token   atomic.Uint64

	life context.Context // ends when the claim is lost or released
	end  context.CancelCauseFunc
	lost chan struct{}
	once sync.Once // closes lost

	mask func([]byte) []byte // of JSON documents; nil leaves them as they are

	turn chan struct{} // holds one value while somebody writes; that one has:
	id   string        // message id of the claim record
	seq  string        // token as text
	own  []uint64      // all tokens this claim had
	last uint64        // the newest event of the job that this claim knows of
	n    uint64        // events written, for their ids
	over Kind          // the terminal event, once it is stored
}

// Claim claims j for the caller. prev is the stream sequence of the claim it
// replaces, 0 for the first. If another claim than prev is there, or comes first,
// the error is ErrLost (*LostError). A lost answer is resolved: either the
// returned Claim holds, or it was never made.
//
// Takeovers of one job are made by Claim or by Succeed, not by both: in a cluster one
// of each over the same claim may both be stored. Then the later one stands, and the
// other is lost by its first write. Of a Claim and an End the same is true; of a
// Succeed and an End one is stored.
//
// With prev 0 there was no claim before and so no event that matters: nothing need
// be read. Who replaces another holder uses Succeed: with Claim the job may have
// ended by the time that the claim is made.
func (l *Log) Claim(ctx context.Context, j Job, rec Claimed, prev uint64) (*Claim, error) {
	return l.claim(ctx, j, rec, prev, 0)
}

// Succeed claims past's job for the caller if nothing has been written of it since
// past was read. So a holder that comes to itself and ends the job, or writes a
// line more, is not overlooked: past is the whole history, and no event follows a
// terminal one. ErrMoved: something has been written; ErrLost: another claim.
func (l *Log) Succeed(ctx context.Context, past History, rec Claimed) (*Claim, error) {
	return l.claim(ctx, past.Job, rec, past.Fence, past.Last)
}

// claim makes a claim over the one at prev; with newest it must be the sequence of
// the job's newest event.
func (l *Log) claim(ctx context.Context, j Job, rec Claimed, prev, newest uint64) (*Claim, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	rec.Previous = prev
	c := &Claim{
		log: l, job: j, rec: rec,
		lost: make(chan struct{}),
		turn: make(chan struct{}, 1),
	}
	if err := c.make(ctx, prev, newest); err != nil {
		return nil, fmt.Errorf("claim job %s: %w", j, err)
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// make writes the claim record over prev, and over newest unless that is 0. Its
// message id is its own, so that the record is known again whatever became of the
// answer.
func (c *Claim) make(ctx context.Context, prev, newest uint64) error {
	e := c.log.envelope(c.job, KindClaimed, "claim.", nuid.Next())
	defer e.free()
	c.subject, c.id = e.msg.Subject, e.id()
	if err := e.payload(KindClaimed, c.rec); err != nil {
		return err
	}
	if newest > 0 {
		e.set(slotExpectSubject, c.log.subject(c.job, "*"))
	}
	for try := 0; ; try++ {
		e.set(slotExpectSeq, strconv.FormatUint(cmp.Or(newest, prev), 10))
		ack, err := c.log.pub.Publish(ctx, at(KindClaimed), &e.msg)
		if err == nil && !ack.Duplicate {
			c.hold(ack.Seq)
			return nil
		}
		switch {
		case err == nil, errors.Is(err, natsx.ErrStale):
			// Stored by a send whose answer was lost, or not at all.
			var held bool
			if prev, held, err = c.refused(ctx, max(prev, ack.Seq)); err != nil || held {
				return err
			}
			if err := c.overtaken(ctx, newest); err != nil {
				return err
			}
		case !errors.Is(err, natsx.ErrBusy):
			return err
		}
		if err := backoff(ctx, try); err != nil {
			return err
		}
	}
}

// refused finds out why the claim record was not taken. It returns what to expect
// in the next try, unless our record is stored after all (then the claim is held)
// or somebody else's is (ErrLost).
func (c *Claim) refused(ctx context.Context, prev uint64) (next uint64, held bool, err error) {
	last, rec, err := c.record(ctx)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, false, nil // the previous claim is past the stream's limits
	case err != nil:
		return 0, false, err
	case last.Header.Get(headerMsgID) == c.id:
		c.hold(last.Seq) // an earlier send, whose answer was lost
		return 0, true, nil
	case last.Seq > prev:
		return 0, false, &LostError{Job: c.job, Token: last.Seq, By: rec}
	}
	return prev, false, nil // a new leader that has not caught up
}

// overtaken returns ErrMoved if there is a newer event of the job than newest.
func (c *Claim) overtaken(ctx context.Context, newest uint64) error {
	if newest == 0 {
		return nil
	}
	s, err := c.log.newest(ctx, c.job)
	if err == nil && s.Seq != newest {
		err = fmt.Errorf("%w: event %d is there", ErrMoved, s.Seq)
	}
	return err
}

// record reads the newest claim record from the leader.
func (c *Claim) record(ctx context.Context) (stored, Claimed, error) {
	var rec Claimed
	s, err := c.log.leader(ctx, c.log.stream, request{LastFor: c.subject})
	if err != nil {
		return s, rec, err
	}
	_ = json.Unmarshal(s.Data, &rec) // what somebody else has published names nobody
	return s, rec, nil
}

// hold notes that the claim stands at seq.
func (c *Claim) hold(seq uint64) {
	c.seq = strconv.FormatUint(seq, 10)
	c.own = append(c.own, seq)
	c.last = max(c.last, seq)
	c.token.Store(seq)
}

// Token is the stream sequence of the claim record: the fence of every write.
func (c *Claim) Token() uint64 { return c.token.Load() }

// Job is the job that is claimed.
func (c *Claim) Job() Job { return c.job }

// Record is what the claim says.
func (c *Claim) Record() Claimed { return c.rec }

// Lost is closed once a write has found that somebody else holds the job.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Release lets go of the claim: later writes fail with ErrReleased, and an output's
// write that is under way is given up. It writes nothing, and may be called twice.
func (c *Claim) Release() { c.end(ErrReleased) }

// Mask has every JSON event that is written from now on pass through f, which returns
// a document of the same form. It is called before the claim is used by others, once.
func (c *Claim) Mask(f func(doc []byte) []byte) { c.mask = f }

// payload gives an event of this claim its body.
func (c *Claim) payload(e *envelope, kind Kind, v any) error {
	if err := e.payload(kind, v); err != nil {
		return err
	}
	if c.mask != nil {
		e.msg.Data = c.mask(e.msg.Data)
	}
	return nil
}

// History reads the job's history as of the claim or later. If somebody else has
// claimed the job since, the error is ErrLost.
func (c *Claim) History(ctx context.Context) (History, error) {
	token := c.Token()
	h, err := c.log.history(ctx, c.job, token)
	if err != nil {
		return h, err
	}
	if h.Claimed.Seq > c.Token() {
		return h, c.lose(&LostError{Job: c.job, Token: h.Claimed.Seq, By: h.Claimed.Value})
	}
	return h, nil
}

// Publish writes a JSON event under the claim. ErrLost: somebody else holds the
// job. Any other error leaves open whether the event is stored.
func (c *Claim) Publish(ctx context.Context, kind Kind, payload any) error {
	if kind.Terminal() || kind.Output() || kind == KindClaimed || kind == KindAccepted {
		return fmt.Errorf("publish %s of job %s: not an event to publish by itself", kind, c.job)
	}
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("publish %s of job %s: %w", kind, c.job, err)
	}
	defer c.finish()
	c.n++
	e := c.log.envelope(c.job, kind, c.seq, ".", strconv.FormatUint(c.n, 10))
	defer e.free()
	if err := c.payload(e, kind, payload); err != nil {
		return err
	}
	if _, err := c.write(ctx, kind, e); err != nil {
		return fmt.Errorf("publish %s of job %s: %w", kind, c.job, err)
	}
	return nil
}

// End writes the job's terminal event; the claim writes nothing after it, and nobody
// succeeds it. A second
// End is refused with ErrEnded, also when it was another holder who ended the job.
// After an error that is neither ErrLost nor ErrEnded it may be called again.
func (c *Claim) End(ctx context.Context, kind Kind, out Outcome) error {
	if !kind.Terminal() {
		return fmt.Errorf("end job %s: %s is not a terminal event", c.job, kind)
	}
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("end job %s: %w", c.job, err)
	}
	defer c.finish()
	e := c.log.envelope(c.job, kind, "end")
	defer e.free()
	if err := c.payload(e, kind, out); err != nil {
		return err
	}
	ack, err := c.write(ctx, kind, e)
	if errors.Is(err, ErrLost) || errors.Is(err, errOver) || err == nil && ack.Duplicate {
		err = c.ended(ctx, kind, ack.Seq, err)
	}
	if err != nil {
		return fmt.Errorf("end job %s: %w", c.job, err)
	}
	c.over = kind
	return nil
}

// ended finds out whose terminal event it is that the stream holds: an earlier send
// of ours whose answer was lost, or another holder's.
func (c *Claim) ended(ctx context.Context, kind Kind, seq uint64, cause error) error {
	req := request{LastFor: c.log.subject(c.job, kind)}
	if seq > 0 {
		req = request{Seq: seq}
	}
	s, err := c.log.leader(ctx, c.log.stream, req)
	switch {
	case errors.Is(err, ErrNotFound) && cause != nil:
		return cause
	case err != nil:
		return err
	case s.Subject == c.log.subject(c.job, kind) && slices.Contains(c.own, Event{Header: s.Header}.Token()):
		return nil
	case cause != nil:
		return cause
	}
	return fmt.Errorf("%w by event %d", ErrEnded, s.Seq)
}

// begin waits for the turn to write.
func (c *Claim) begin(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.life.Done():
		return context.Cause(c.life)
	}
	if err := context.Cause(c.life); err != nil {
		c.finish()
		return err
	}
	if c.over != "" {
		c.finish()
		return fmt.Errorf("%w: it has %s", ErrEnded, c.over)
	}
	return nil
}

func (c *Claim) finish() { <-c.turn }
