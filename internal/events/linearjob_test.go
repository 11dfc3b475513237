package events_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sandjet/sandjet/internal/events"
)

// jobPlayer is a player that may hold a job.
type jobPlayer struct {
	*player
	t     *testing.T
	job   events.Job
	mixed bool // takes over by Claim as well as by Succeed: not in a cluster
	claim *events.Claim
	name  string // of the claim
}

// move takes the job up or looks at it; who holds it writes a line, until it learns
// that the job is another's.
func (p *jobPlayer) move(ends int) (over bool) {
	if p.claim == nil {
		r, h, err := p.look()
		if err != nil || r.End != "" {
			return err == nil
		}
		if r.Holder != "" && p.rng.IntN(3) > 0 {
			return false
		}
		return p.take(r, h)
	}
	return p.write(ends > 0 && p.rng.IntN(ends) == 0)
}

func (p *jobPlayer) look() (register, events.History, error) {
	var r register
	var h events.History
	var err error
	var seen bool
	p.ops.do(p.player, jobOp{op: "read"}, func() (any, bool) {
		if h, err = p.log.History(p.t.Context(), p.job); err != nil {
			return jobAnswer{what: "unknown"}, false
		}
		r, seen = registerOf(h), true
		return jobAnswer{what: "ok", read: r}, true
	})
	if !seen {
		p.t.Error(err)
	}
	return r, h, err
}

// registerOf reads the register out of a history.
func registerOf(h events.History) register {
	r := register{Holder: h.Claimed.Value.Worker, End: h.Outcome.Value.Reason}
	switch h.Last {
	case 0:
	case h.Claimed.Seq:
		r.Last = r.Holder
	case h.Progress.Seq:
		r.Last = h.Progress.Value.Message
	case h.Outcome.Seq:
		r.Last = r.End
	}
	return r
}

// take claims the job over what was read, as a worker does: then it reads whether the
// job has ended, and writes nothing if so.
func (p *jobPlayer) take(r register, h events.History) (over bool) {
	in := jobOp{op: "claim", id: "claim-" + randomID(), past: r, last: r.Holder != "" && (!p.mixed || p.rng.IntN(3) > 0)}
	rec := events.Claimed{Worker: in.id, Attempt: 1}
	p.try(in, func(ctx context.Context) (err error) {
		if in.last {
			p.claim, err = p.log.Succeed(ctx, h, rec)
		} else {
			p.claim, err = p.log.Claim(ctx, p.job, rec, h.Claimed.Seq)
		}
		return err
	})
	if p.claim == nil {
		return false
	}
	p.name = in.id
	r, _, err := p.look()
	if err != nil || r.End != "" || r.Holder != p.name {
		p.drop()
	}
	return err != nil || r.End != ""
}

// write publishes a line under the claim, or ends the job.
func (p *jobPlayer) write(end bool) (over bool) {
	in := jobOp{op: "publish", id: "line-" + randomID(), by: p.name}
	if end {
		in.op, in.id = "end", "end-"+randomID()
	}
	a := p.try(in, func(ctx context.Context) error {
		if end {
			return p.claim.End(ctx, events.Succeeded, events.Outcome{Class: "ok", Reason: in.id})
		}
		return p.claim.Publish(ctx, events.KindProgress, events.Progress{Message: in.id})
	})
	switch {
	case a.what == "ended", end && a.what == "ok":
		p.drop()
		return true
	case a.what == "lost", end:
		p.drop()
	}
	return false
}

// try runs a write, with what befalls it, and records what came of it.
func (p *jobPlayer) try(in jobOp, act func(context.Context) error) (a jobAnswer) {
	ctx, over, hit := p.trouble(p.t)
	p.ops.do(p.player, in, func() (any, bool) {
		a = answer(act(ctx))
		if hit && a.what == "lost" && in.op != "end" {
			// A claim or a line whose answer was lost may have been there and be followed
			// by another claim. Of an end that is known.
			a = jobAnswer{what: "unknown"}
			if in.op == "publish" {
				defer p.drop()
			}
		}
		return a, a.what != "unknown"
	})
	over()
	return a
}

func (p *jobPlayer) drop() {
	if p.claim != nil {
		p.claim.Release()
	}
	p.claim, p.name = nil, ""
}

func answer(err error) jobAnswer {
	var lost *events.LostError
	switch {
	case err == nil:
		return jobAnswer{what: "ok"}
	case errors.As(err, &lost):
		return jobAnswer{what: "lost", to: lost.By.Worker}
	case errors.Is(err, events.ErrMoved):
		return jobAnswer{what: "moved"}
	case errors.Is(err, events.ErrEnded):
		return jobAnswer{what: "ended"}
	}
	return jobAnswer{what: "unknown"}
}

// readAhead lets a read take place until the write that it saw is acknowledged. A
// replica may be ahead of the leader by a moment; who asks then sees what nobody was
// told of yet, and the next one may not. What was acknowledged everybody sees.
func (h *history) readAhead() {
	known := map[string]int64{}
	for _, op := range h.ops {
		known[op.Input.(jobOp).id] = op.Return
	}
	for i, op := range h.ops {
		if op.Input.(jobOp).op == "read" {
			h.ops[i].Return = max(op.Return, known[op.Output.(jobAnswer).read.Last])
		}
	}
}

// Whatever claimers, writers and cut connections do at once, a job's log is a register:
// claims follow what they were made over, nobody writes who does not hold the job, it
// ends once, and every answer tells the truth.
func TestClaimsAreLinearizable(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				j := job(t)
				h := play(t, s, seed, func(p *player) (move, finish func()) {
					jp := &jobPlayer{player: p, t: t, job: j, mixed: s.replicas == 1}
					return func() { jp.move(0) }, func() {
						for !jp.move(6) && !t.Failed() {
						}
						jp.drop()
					}
				})
				if s.replicas > 1 {
					h.readAhead()
				}
				h.check(t, jobModel(s.replicas == 1))
			})
		}
	})
}
