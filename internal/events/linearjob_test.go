package events_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// register is what a job's log comes down to: who holds the job, by the name that each
// claim has of its own, what was written last, and what ended it.
type register struct{ Holder, Last, End string }

// jobOp is an operation on a job: "read", "claim", "publish" or "end".
type jobOp struct {
	op   string
	id   string   // of what is written
	by   string   // the claim under which it is written
	past register // over which a claim is made
	last bool     // the claim is made over past.Last, and not only over its holder
}

// jobAnswer is what came of it: "ok", "lost", "moved", "ended" or "unknown".
type jobAnswer struct {
	what string
	read register // by a read
	to   string   // who has it, when it is lost
}

// jobModel is the compare-and-set register with an end. Replicas may have a claim and a
// line of the last holder's under way at once, and then the line comes first: with
// strict unset a claim need not have seen it. What comes after a claim is fenced
// in any case.
func jobModel(strict bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{} },
		Step: func(state, input, output any) (bool, any) {
			return step(state.(register), input.(jobOp), output.(jobAnswer), strict)
		},
		DescribeOperation: func(input, output any) string {
			in, out := input.(jobOp), output.(jobAnswer)
			switch in.op {
			case "read":
				return fmt.Sprintf("read: %+v", out.read)
			case "claim":
				return fmt.Sprintf("claim %s over %+v (last %t): %s %s", in.id, in.past, in.last, out.what, out.to)
			}
			return fmt.Sprintf("%s %s under %s: %s %s", in.op, in.id, in.by, out.what, out.to)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

func step(r register, in jobOp, out jobAnswer, strict bool) (bool, register) {
	next, may := r, false
	switch in.op {
	case "read":
		return out.read == r, r
	case "claim":
		may = r.Holder == in.past.Holder && (!in.last || !strict || r.Last == in.past.Last)
		next.Holder, next.Last = in.id, in.id
	case "publish":
		may = r.Holder == in.by && r.End == ""
		next.Last = in.id
	case "end":
		may = r.Holder == in.by && r.End == ""
		next.Last, next.End = in.id, in.id
	}
	switch out.what {
	case "ok":
		return may, next
	case "lost":
		return r.Holder == out.to && r.Holder != in.by && r.Holder != in.past.Holder, r
	case "moved":
		return r.Last != in.past.Last, r
	case "ended":
		return r.End != "", r
	case "unknown":
		if may {
			return true, next
		}
	}
	return out.what == "unknown", r
}

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

// The model finds what must not be.
func TestTheJobModelRefuses(t *testing.T) {
	t.Parallel()
	ok := jobAnswer{what: "ok"}
	a := register{Holder: "a", Last: "a"}
	for name, tc := range map[string]struct {
		in  []jobOp
		out []jobAnswer
		end bool // in order
	}{
		"a life": {
			in: []jobOp{{op: "claim", id: "a"}, {op: "publish", id: "1", by: "a"}, {op: "claim", id: "b", past: a},
				{op: "publish", id: "2", by: "a"}, {op: "end", id: "3", by: "b"}, {op: "read"}},
			out: []jobAnswer{ok, {what: "unknown"}, ok, {what: "lost", to: "b"}, ok, {what: "ok", read: register{"b", "3", "3"}}},
			end: true,
		},
		"a line of the last holder": {
			in:  []jobOp{{op: "claim", id: "a"}, {op: "claim", id: "b", past: a}, {op: "publish", id: "1", by: "a"}},
			out: []jobAnswer{ok, ok, ok},
		},
		"two claims over nothing": {
			in:  []jobOp{{op: "claim", id: "a"}, {op: "claim", id: "b"}},
			out: []jobAnswer{ok, ok},
		},
		"two ends": {
			in:  []jobOp{{op: "claim", id: "a"}, {op: "end", id: "1", by: "a"}, {op: "end", id: "2", by: "a"}},
			out: []jobAnswer{ok, ok, ok},
		},
		"a line after the end": {
			in:  []jobOp{{op: "claim", id: "a"}, {op: "end", id: "1", by: "a"}, {op: "publish", id: "2", by: "a"}},
			out: []jobAnswer{ok, ok, ok},
		},
		"a claim that overlooks the end": {
			in:  []jobOp{{op: "claim", id: "a"}, {op: "end", id: "1", by: "a"}, {op: "claim", id: "b", past: a, last: true}},
			out: []jobAnswer{ok, ok, ok},
		},
		"lost to nobody": {
			in:  []jobOp{{op: "claim", id: "a"}, {op: "publish", id: "1", by: "a"}},
			out: []jobAnswer{ok, {what: "lost", to: "b"}},
		},
		"a line that is gone": {
			in:  []jobOp{{op: "claim", id: "a"}, {op: "publish", id: "1", by: "a"}, {op: "read"}},
			out: []jobAnswer{ok, ok, {what: "ok", read: a}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ops []porcupine.Operation
			for i, in := range tc.in {
				op := porcupine.Operation{Input: in, Output: tc.out[i], Call: int64(2 * i), Return: int64(2*i + 1)}
				if tc.out[i].what == "unknown" {
					op.Return = never
				}
				ops = append(ops, op)
			}
			require.Equal(t, tc.end, porcupine.CheckOperations(jobModel(true), ops))
		})
	}
}
