package events_test

import (
	"fmt"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
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
			in: []jobOp{
				{op: "claim", id: "a"},
				{op: "publish", id: "1", by: "a"},
				{op: "claim", id: "b", past: a},
				{op: "publish", id: "2", by: "a"},
				{op: "end", id: "3", by: "b"},
				{op: "read"},
			},
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
