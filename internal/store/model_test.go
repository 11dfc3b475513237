package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The lane of one session as one would write it down: who is registered until
// when, who has the turn, who pauses. It forgets what has run out as soon as it
// has, where Redis forgets when it looks.
type model struct {
	now     time.Time
	hold    time.Duration
	entries map[string]*modelEntry
	turn    string
	pauser  string
	pauseTo time.Time
	running map[string]bool // who was told that it may run and has not been told otherwise
}

type modelEntry struct {
	Entry
	busy, hold time.Time
}

func (m *model) forget() {
	for id, e := range m.entries {
		if !e.hold.After(m.now) {
			m.drop(id)
		}
	}
	if !m.pauseTo.After(m.now) {
		m.pauser = ""
	}
}

func (m *model) drop(id string) {
	delete(m.entries, id)
	delete(m.running, id)
	if m.turn == id {
		m.turn = ""
	}
}

func (m *model) put(e Entry, lease time.Duration) {
	m.entries[e.Job] = &modelEntry{e, m.now.Add(lease), m.now.Add(lease + m.hold)}
}

func (m *model) head() string {
	first := ""
	for id, e := range m.entries {
		if e.Exclusive && (first == "" || e.Origin < m.entries[first].Origin) {
			first = id
		}
	}
	return first
}

func (m *model) enter(e Entry, lease time.Duration) (turn bool, head string, headBusy, pausing bool) {
	m.put(e, lease)
	pausing = m.pauser != "" && m.pauser != e.Job
	if !e.Exclusive {
		return true, "", false, pausing
	}
	if m.turn == "" && m.head() == e.Job {
		m.turn = e.Job
	}
	if m.turn == e.Job {
		m.running[e.Job] = true
		return true, "", false, pausing
	}
	head = m.turn
	if head == "" {
		head = m.head()
	}
	return false, head, m.entries[head].busy.After(m.now), pausing
}

// theirs reports whether another delivery than e's holds the entry.
func (m *model) theirs(e Entry) bool {
	have := m.entries[e.Job]
	return have != nil && e.Holder != "" && have.Holder != "" && have.Holder != e.Holder
}

func (m *model) next() string {
	if m.turn != "" {
		return ""
	}
	return m.head()
}

func (m *model) leave(e Entry) string {
	if m.theirs(e) {
		return ""
	}
	m.drop(e.Job)
	return m.next()
}

func (m *model) park(e Entry, d time.Duration) string {
	if m.theirs(e) {
		return ""
	}
	m.drop(e.Job)
	if e.Exclusive {
		e.Holder = ""
		m.entries[e.Job] = &modelEntry{e, time.Time{}, m.now.Add(d + m.hold)}
	}
	if next := m.next(); next != e.Job {
		return next
	}
	return ""
}

func (m *model) renew(e Entry, lease time.Duration) {
	if m.theirs(e) && m.entries[e.Job].busy.After(m.now) {
		return
	}
	m.put(e, lease)
	if e.Exclusive && e.Running && m.turn == "" {
		m.turn = e.Job
		m.running[e.Job] = true
	}
}

func (m *model) beginPause(job string, ttl time.Duration) bool {
	if m.pauser != "" && m.pauser != job {
		return false
	}
	for id := range m.entries {
		if id != job {
			return false
		}
	}
	m.pauser, m.pauseTo = job, m.now.Add(ttl)
	return true
}

func (m *model) busy() (jobs []string, queued int) {
	for id, e := range m.entries {
		if e.busy.After(m.now) {
			jobs = append(jobs, id)
		}
		if e.Exclusive {
			queued++
		}
	}
	return jobs, queued
}

// TestLaneAgreesWithTheModel drives Redis and the model with the same calls, and
// the clock between them.
func TestLaneAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	mini.ClockTTL(true)
	s, err := Open(t.Context(), "redis://"+mini.Addr(), "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	mini.SetTime(start)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		start = start.Add(1000 * time.Hour) // nothing of the round before lives
		mini.SetTime(start)
		compare(rt, s, fmt.Sprintf("s%d", round), start, mini.SetTime)
	})
}

// TestLaneAgreesWithTheModelOnServer is the same on a real server, whose clock
// nobody moves.
func TestLaneAgreesWithTheModelOnServer(t *testing.T) {
	t.Parallel()
	s := open(t, sharedURL(t, onServer))
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		compare(rt, s, fmt.Sprintf("s%d", round), time.Now(), nil)
	})
}

func compare(t *rapid.T, s *Store, session string, start time.Time, setTime func(time.Time)) {
	ctx := context.Background()
	m := &model{now: start, hold: s.opts.hold, entries: map[string]*modelEntry{}, running: map[string]bool{}}
	draw := func(t *rapid.T) Entry {
		n := rapid.IntRange(0, 5).Draw(t, "job")
		return Entry{
			Session: session, Job: fmt.Sprintf("j%d", n), Origin: uint64(n + 1), Exclusive: n < 4,
			Holder:  rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "holder"),
			Running: rapid.Bool().Draw(t, "running"),
		}
	}
	lease := func(t *rapid.T) time.Duration {
		if setTime == nil {
			return time.Hour
		}
		return rapid.SampledFrom([]time.Duration{10 * time.Second, 30 * time.Second, time.Hour}).Draw(t, "lease")
	}
	actions := map[string]func(*rapid.T){
		"enter": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			a, err := s.Enter(ctx, e, d)
			require.NoError(t, err)
			turn, head, headBusy, pausing := m.enter(e, d)
			require.Equal(t, turn, a.Turn, "turn")
			require.Equal(t, head, a.Head, "head")
			require.Equal(t, headBusy, a.HeadBusy, "head busy")
			require.Equal(t, pausing, a.Pausing, "pausing")
		},
		"leave": func(t *rapid.T) {
			e := draw(t)
			next, err := s.Leave(ctx, e, 0)
			require.NoError(t, err)
			require.Equal(t, m.leave(e), next)
		},
		"park": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			next, err := s.Park(ctx, e, d)
			require.NoError(t, err)
			require.Equal(t, m.park(e, d), next)
		},
		"renew": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			require.NoError(t, s.Renew(ctx, []Entry{e}, d))
			m.renew(e, d)
		},
		"begin pause": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			ok, err := s.BeginPause(ctx, e, d)
			require.NoError(t, err)
			require.Equal(t, m.beginPause(e.Job, d), ok)
		},
		"end pause": func(t *rapid.T) {
			e := draw(t)
			require.NoError(t, s.EndPause(ctx, e))
			if m.pauser == e.Job {
				m.pauser = ""
			}
		},
		"": func(t *rapid.T) {
			jobs, queued, err := s.Busy(ctx, session)
			require.NoError(t, err)
			wantJobs, wantQueued := m.busy()
			require.ElementsMatch(t, wantJobs, jobs)
			require.Equal(t, wantQueued, queued)
			require.LessOrEqual(t, len(m.running), 1, "two have the turn: %v", m.running)
		},
	}
	if setTime != nil {
		actions["wait"] = func(t *rapid.T) {
			d := rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, 11 * time.Minute}).Draw(t, "time")
			m.now = m.now.Add(d)
			setTime(m.now)
			m.forget()
		}
	}
	t.Repeat(actions)
}
