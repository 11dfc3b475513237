package events_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

// sessionOp reads a session's record, or puts the record id over the record past. Each
// record has a name of its own.
type sessionOp struct{ id, past string }

// sessionAnswer is "ok", "stale" or "unknown", and what was read.
type sessionAnswer struct{ what, read string }

// sessionModel is a register with compare-and-set.
var sessionModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(sessionOp), output.(sessionAnswer)
		switch {
		case in.id == "":
			return out.read == state, state
		case out.what == "stale":
			return state != in.past, state
		case state == in.past:
			return true, in.id
		}
		return out.what == "unknown", state
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(sessionOp), output.(sessionAnswer)
		if in.id == "" {
			return fmt.Sprintf("read: %q", out.read)
		}
		return fmt.Sprintf("put %s over %q: %s", in.id, in.past, out.what)
	},
}

// A session's record is a register, too: who writes over what he knew is told whether
// the record was stored, also when the first answer was lost.
func TestSessionRecordsAreLinearizable(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				id := job(t).Session
				h := play(t, s, seed, func(p *player) (move, finish func()) {
					sp := &sessionPlayer{player: p, t: t, session: id}
					return sp.move, sp.move
				})
				h.check(t, sessionModel)
			})
		}
	})
}

// sessionPlayer reads a session's record and writes over it.
type sessionPlayer struct {
	*player
	t       *testing.T
	session string
	past    string // what it knows
	seq     uint64
	known   bool
}

func (p *sessionPlayer) move() {
	if !p.known {
		p.read()
		return
	}
	in := sessionOp{id: "record-" + randomID(), past: p.past}
	ctx, over, _ := p.trouble(p.t)
	p.ops.do(p.player, in, func() (any, bool) {
		a := sessionAnswer{what: "unknown"}
		seq, err := p.put(ctx, in.id)
		switch {
		case err == nil:
			a.what, p.past, p.seq = "ok", in.id, seq
		case errors.Is(err, events.ErrStale):
			a.what = "stale"
		}
		p.known = err == nil
		return a, a.what != "unknown"
	})
	over()
}

func (p *sessionPlayer) put(ctx context.Context, name string) (uint64, error) {
	return p.log.PutSession(ctx, session.Record{Session: p.session, State: session.Active, Worker: name}, p.seq)
}

func (p *sessionPlayer) read() {
	p.ops.do(p.player, sessionOp{}, func() (any, bool) {
		rec, seq, err := p.log.Session(p.t.Context(), p.session)
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			p.t.Error(err)
		}
		p.past, p.seq, p.known = rec.Worker, seq, true
		return sessionAnswer{"ok", rec.Worker}, true
	})
}

// The model finds what must not be.
func TestTheSessionModelRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in  []sessionOp
		out []sessionAnswer
		ok  bool
	}{
		"in order": {
			[]sessionOp{{"a", ""}, {"b", ""}, {"c", "a"}, {}},
			[]sessionAnswer{{what: "ok"}, {what: "stale"}, {what: "unknown"}, {"ok", "c"}},
			true,
		},
		"two over one":              {[]sessionOp{{"a", ""}, {"b", ""}}, []sessionAnswer{{what: "ok"}, {what: "ok"}}, false},
		"refused without reason":    {[]sessionOp{{"a", ""}}, []sessionAnswer{{what: "stale"}}, false},
		"stored and not to be seen": {[]sessionOp{{"a", ""}, {}}, []sessionAnswer{{what: "ok"}, {"ok", ""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ops []porcupine.Operation
			for i := range tc.in {
				op := porcupine.Operation{Input: tc.in[i], Output: tc.out[i], Call: int64(2 * i), Return: int64(2*i + 1)}
				if tc.out[i].what == "unknown" {
					op.Return = never
				}
				ops = append(ops, op)
			}
			require.Equal(t, tc.ok, porcupine.CheckOperations(sessionModel, ops))
		})
	}
}
