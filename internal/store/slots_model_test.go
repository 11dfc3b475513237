package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// slotModel is slots and line as one would write them down: who has a slot or was
// given one until when, and the owners in the order of their turns, each with its
// sessions. Places in line do not end in it.
type slotModel struct {
	now     time.Time
	o       slotOptions
	slots   map[string]time.Time
	granted map[string]time.Time
	calls   map[string]time.Time // of those granted: when they are called next
	turns   []string
	line    map[string][]string // owner -> sessions
	said    int                 // what E2B allowed, -1 for nothing
	saidAt  time.Time
}

const keepPlace = 1_000_000 * time.Hour

func (m *slotModel) owner(session string) string { return session[:1] }

func (m *slotModel) used() int { return len(m.slots) + len(m.granted) }

func (m *slotModel) held(owner string) (n int) {
	for _, all := range []map[string]time.Time{m.slots, m.granted} {
		for id := range all {
			if m.owner(id) == owner {
				n++
			}
		}
	}
	return n
}

func (m *slotModel) allowed() int {
	n := 1 << 30
	if m.o.total > 0 {
		n = m.o.total
	}
	if tried := m.now.Sub(m.saidAt) / m.o.probe; m.said >= 0 && tried < 20 {
		n = min(n, m.said+1<<tried-1)
	}
	return n
}

func (m *slotModel) expire() {
	for _, all := range []map[string]time.Time{m.slots, m.granted} {
		maps.DeleteFunc(all, func(id string, till time.Time) bool { return !till.After(m.now) })
	}
}

func (m *slotModel) waits(session string) bool {
	return slices.Contains(m.line[m.owner(session)], session)
}

func (m *slotModel) join(session string) {
	o := m.owner(session)
	switch {
	case m.waits(session):
		return
	case len(m.line[o]) == 0:
		m.turns = append(m.turns, o)
	}
	m.line[o] = append(m.line[o], session)
	slices.Sort(m.line[o]) // by the order of publication
}

func (m *slotModel) quit(session string) {
	o := m.owner(session)
	m.line[o] = slices.DeleteFunc(m.line[o], func(id string) bool { return id == session })
	if len(m.line[o]) == 0 {
		m.turns = slices.DeleteFunc(m.turns, func(id string) bool { return id == o })
	}
}

func (m *slotModel) grant() {
	for m.used() < m.allowed() {
		i := slices.IndexFunc(m.turns, func(o string) bool { return m.o.owner == 0 || m.held(o) < m.o.owner })
		if i < 0 {
			return
		}
		o := m.turns[i]
		session := m.line[o][0]
		m.quit(session)
		if i < len(m.turns) && m.turns[i] == o {
			m.turns = append(slices.Delete(m.turns, i, i+1), o)
		}
		m.granted[session] = m.now.Add(m.o.grant)
		m.calls[session] = m.now
	}
}

func (m *slotModel) called() (out []string) {
	for id := range m.granted {
		if !m.calls[id].After(m.now) {
			m.calls[id] = m.now.Add(1500 * time.Millisecond)
			out = append(out, id)
		}
	}
	return out
}

func (m *slotModel) drop(session string) {
	delete(m.slots, session)
	delete(m.granted, session)
}

func (m *slotModel) take(session string) (ok bool) {
	m.expire()
	_, ok = m.slots[session]
	if _, was := m.granted[session]; !ok && !was {
		m.join(session)
		m.grant()
	}
	if _, was := m.granted[session]; ok || was {
		m.quit(session)
		m.drop(session)
		m.slots[session] = m.now.Add(m.o.lease)
		return true
	}
	return false
}

// TestSlotsAgreeWithTheModel drives Redis and the model with the same calls, and
// the clock between them.
func TestSlotsAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	mini.ClockTTL(true)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	mini.SetTime(start)
	s := open(t, "redis://"+mini.Addr()+calm)
	rapid.Check(t, func(rt *rapid.T) {
		mini.FlushAll()
		start = start.Add(1000 * time.Hour)
		mini.SetTime(start)
		s.opts.slots.total = rapid.IntRange(0, 4).Draw(rt, "limit")
		s.opts.slots.owner = rapid.IntRange(0, 2).Draw(rt, "share")
		compareSlots(rt, s, &slotModel{
			now: start, o: s.opts.slots, slots: map[string]time.Time{}, granted: map[string]time.Time{},
			calls: map[string]time.Time{}, line: map[string][]string{}, said: -1,
		}, mini.SetTime)
	})
}

func compareSlots(t *rapid.T, s *Store, m *slotModel, setTime func(time.Time)) {
	ctx := context.Background()
	kept := false // once what runs was kept above the limit, the limit does not hold
	draw := func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner") + fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "session"))
	}
	same := func(t *rapid.T, calls []SlotCall, err error) {
		require.NoError(t, err)
		require.ElementsMatch(t, m.called(), called(calls))
	}
	t.Repeat(map[string]func(*rapid.T){
		"take": func(t *rapid.T) {
			id := draw(t)
			got, err := s.TakeSlot(ctx, ask(id), keepPlace)
			require.NoError(t, err)
			require.Equal(t, m.take(id), got.OK)
			require.Equal(t, m.used(), got.Used)
			same(t, got.Calls, nil)
		},
		"release": func(t *rapid.T) {
			id := draw(t)
			calls, err := s.ReleaseSlot(ctx, id)
			m.expire()
			m.drop(id)
			m.grant()
			same(t, calls, err)
		},
		"refuse": func(t *rapid.T) {
			id := draw(t)
			calls, err := s.RefuseSlot(ctx, ask(id), keepPlace)
			m.expire()
			m.drop(id)
			m.said, m.saidAt = len(m.slots), m.now
			m.join(id)
			m.grant()
			same(t, calls, err)
		},
		"quit": func(t *rapid.T) {
			id := draw(t)
			calls, err := s.QuitLine(ctx, id, "j")
			m.expire()
			m.quit(id)
			if _, was := m.granted[id]; was {
				m.drop(id)
			}
			m.grant()
			same(t, calls, err)
		},
		"keep": func(t *rapid.T) {
			id := draw(t)
			require.NoError(t, s.KeepSlots(ctx, SlotOf{id, m.owner(id)}))
			m.drop(id)
			m.quit(id)
			m.slots[id] = m.now.Add(m.o.lease)
			kept = true
		},
		"sweep": func(t *rapid.T) {
			calls, look, err := s.SweepSlots(ctx, m.o.lease/2, 100)
			m.expire()
			m.grant()
			var want []string
			for id, till := range m.slots {
				if !till.After(m.now.Add(m.o.lease / 2)) {
					want = append(want, id)
					m.slots[id] = m.now.Add(m.o.lease)
				}
			}
			same(t, calls, err)
			require.ElementsMatch(t, want, look)
		},
		"wait": func(t *rapid.T) {
			d := rapid.SampledFrom([]time.Duration{time.Second, 4 * time.Second, 40 * time.Second, 20 * time.Minute}).Draw(t, "time")
			m.now = m.now.Add(d)
			setTime(m.now)
		},
		"": func(t *rapid.T) {
			use, err := s.Slots(ctx)
			require.NoError(t, err)
			var live int
			for _, till := range m.slots {
				if till.After(m.now) {
					live++
				}
			}
			require.Len(t, use.Slots, live)
			waiting := 0
			for _, ids := range m.line {
				waiting += len(ids)
			}
			require.Equal(t, waiting, use.Waiting)
			if kept {
				return
			}
			if m.o.total > 0 {
				require.LessOrEqual(t, m.used(), m.o.total, "more than may run")
			}
			for _, o := range m.turns {
				require.True(t, m.o.owner == 0 || m.held(o) <= m.o.owner, "%s has more than its share", o)
			}
		},
	})
}
