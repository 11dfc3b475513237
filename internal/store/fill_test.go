package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/stack"
)

// clocksOf is what a record asks for in these tests.
func clocksOf(r session.Record) Clocks {
	c := Clocks{}
	if r.State != session.Destroyed {
		c.Stale = long
	}
	if r.State == session.Active {
		c.Idle, c.Watch = long, long
	}
	if r.State.Running() {
		c.Slot = true
	}
	return c
}

// has is which clocks a session has in the view.
type has struct {
	seq                      uint64
	idle, stale, watch, slot bool
}

// whole is the view of every session of list.
func whole(t *testing.T, s *Store, ids []string) map[string]has {
	t.Helper()
	all := map[string]has{}
	slots, err := s.Slots(t.Context())
	require.NoError(t, err)
	for _, id := range ids {
		_, seq, err := s.Session(t.Context(), id)
		require.NoError(t, err, id)
		_, idle := s.DeadlineOf(t.Context(), Idle, id)
		_, stale := s.DeadlineOf(t.Context(), Stale, id)
		_, watch := s.DeadlineOf(t.Context(), Watch, id)
		all[id] = has{
			seq: seq, idle: idle == nil, stale: stale == nil, watch: watch == nil,
			slot: slices.ContainsFunc(slots.Slots, func(one Slot) bool { return one.Session == id }),
		}
	}
	return all
}

// wanted is what the view must say of a record.
func wanted(r session.Record, seq uint64) has {
	c := clocksOf(r)
	return has{seq: seq, idle: c.Idle != 0, stale: c.Stale != 0, watch: c.Watch != 0, slot: c.Slot}
}

func TestFillSessions(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		var list []Stated
		want, ids := map[string]has{}, []string{}
		for i, state := range slices.Repeat(session.States(), 60) { // more than one batch
			id := fmt.Sprintf("s%d", i)
			one := Stated{session.Record{Session: id, State: state}, uint64(i + 10)}
			list, ids = append(list, one), append(ids, id)
			want[id] = wanted(one.Record, one.Seq)
		}
		// One has moved on before the filling came to it, without its old clocks: they
		// were lost. Another one was filled by a worker that died over it.
		ahead := session.Record{Session: "s1", State: session.Paused}
		require.NoError(t, s.PutSession(ctx, ahead, 99_999))
		want["s1"] = wanted(ahead, 99_999)
		require.NoError(t, s.PutSession(ctx, list[10].Record, list[10].Seq))

		for range 2 {
			require.NoError(t, s.FillSessions(ctx, list, clocksOf))
			require.Equal(t, want, whole(t, s, ids))
		}
	})
}

// mover moves sessions as jobs do, in steps between which anything may happen: who
// wakes one takes the slot, writes the record and sets the clock; who puts one to
// sleep writes the record and clears.
type mover struct {
	t    *testing.T
	s    *Store
	seq  uint64
	open map[string][]func() // steps that are left
	want map[string]has
}

func (m *mover) begin(id string, to session.State) {
	ctx, t := m.t.Context(), m.t
	put := func() {
		m.seq++
		require.NoError(t, m.s.PutSession(ctx, session.Record{Session: id, State: to}, m.seq))
		m.want[id] = wanted(session.Record{State: to}, m.seq)
	}
	if to == session.Active {
		m.open[id] = []func(){
			func() { require.NoError(t, m.s.KeepSlots(ctx, SlotOf{Session: id})) }, put,
			func() { require.NoError(t, m.s.SetDeadline(ctx, Idle, id, long)) },
			func() { require.NoError(t, m.s.SetDeadline(ctx, Watch, id, long)) },
		}
		return
	}
	m.open[id] = []func(){
		put,
		func() {
			_, err := m.s.ReleaseSlot(ctx, id)
			require.NoError(t, err)
		},
		func() { require.NoError(t, m.s.ClearDeadline(ctx, Idle, id)) },
		func() { require.NoError(t, m.s.ClearDeadline(ctx, Watch, id)) },
	}
}

// step takes one step of a session's move, or begins one.
func (m *mover) step(id string) {
	if len(m.open[id]) == 0 {
		to := session.Active
		if m.want[id].idle {
			to = session.Paused
		}
		m.begin(id, to)
	}
	next := m.open[id][0]
	m.open[id] = m.open[id][1:]
	next()
}

// Sessions are put to sleep and woken at every moment of a filling with what they
// were before: each has the clocks of its last record.
func TestFillBesideLiveSessions(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		var list []Stated
		var ids []string
		m := &mover{t: t, s: s, seq: 1000, open: map[string][]func(){}, want: map[string]has{}}
		for i := range 40 {
			id := fmt.Sprintf("s%d", i)
			one := Stated{session.Record{Session: id, State: session.Active}, uint64(i + 1)}
			list, ids, m.want[id] = append(list, one), append(ids, id), wanted(one.Record, one.Seq)
		}
		for seed := range uint64(10) {
			require.NoError(t, s.client.Del(t.Context(), s.keys.slots()).Err())
			require.NoError(t, s.client.Del(t.Context(), s.keys.due(Idle)).Err())
			rnd, calls := rand.New(rand.NewPCG(seed, 0)), 0
			// The clocks are asked for between the writing of records and their own,
			// and once more for each session that has moved since.
			require.NoError(t, s.FillSessions(t.Context(), list, func(r session.Record) Clocks {
				if calls++; calls < 400 {
					m.step(r.Session)
					m.step(ids[rnd.IntN(len(ids))])
				}
				return clocksOf(r)
			}))
			for _, id := range ids {
				for len(m.open[id]) > 0 {
					m.step(id)
				}
			}
			require.Equal(t, m.want, whole(t, s, ids))
		}
	})
}

// TestFillRate says how long a view of many sessions takes: SANDJET_SESSIONS of
// them, 2,000 if that is not set.
func TestFillRate(t *testing.T) {
	t.Parallel()
	n := 2000
	if v := os.Getenv("SANDJET_SESSIONS"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	list := make([]Stated, n)
	for i := range list {
		list[i] = Stated{typical(i), uint64(i + 1)}
	}
	begun := time.Now()
	require.NoError(t, s.FillSessions(t.Context(), list, clocksOf))
	took := time.Since(begun)
	t.Logf("%d sessions in %s, %.0f a second", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	slots, err := s.Slots(t.Context())
	require.NoError(t, err)
	require.Len(t, slots.Slots, n)
}
