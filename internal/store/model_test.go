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
	away       bool
	called     time.Time
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
	m.entries[e.Job] = &modelEntry{Entry: e, busy: m.now.Add(lease), hold: m.now.Add(lease + m.hold)}
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

func (m *model) enter(e Entry, lease time.Duration) (turn bool, head string, headBusy, headAway, pausing bool) {
	m.put(e, lease)
	pausing = m.pauser != "" && m.pauser != e.Job
	if !e.Exclusive {
		return true, "", false, false, pausing
	}
	if m.turn == "" && m.head() == e.Job {
		m.turn = e.Job
	}
	if m.turn == e.Job {
		m.running[e.Job] = true
		return true, "", false, false, pausing
	}
	head = m.turn
	if head == "" {
		head = m.head()
	}
	busy := m.entries[head].busy.After(m.now)
	return false, head, busy, !busy && m.entries[head].away, pausing
}

// theirs reports whether another delivery than e's holds the entry.
func (m *model) theirs(e Entry) bool {
	have := m.entries[e.Job]
	if have == nil || e.Holder == "" || have.Holder == "" || have.Holder == e.Holder {
		return false
	}
	claim, theirs := claimOf(e.Holder), claimOf(have.Holder)
	return claim == 0 || theirs == 0 || theirs > claim
}

// outrun reports whether a later claim than e's holds the entry.
func (m *model) outrun(e Entry) bool {
	have := m.entries[e.Job]
	return have != nil && claimOf(e.Holder) > 0 && claimOf(have.Holder) > claimOf(e.Holder)
}

func claimOf(holder string) (claim int) {
	_, _ = fmt.Sscanf(holder, "%d/", &claim) // 0 for one without
	return claim
}

// next is what follows a turn that was given back, and whom to call back.
func (m *model) next() (n Next) {
	if m.turn != "" {
		return n
	}
	if n.Job = m.head(); n.Job == "" {
		return n
	}
	n.Busy = m.entries[n.Job].busy.After(m.now)
	for id, e := range m.entries {
		if e.away && m.now.Sub(e.called) >= 2*time.Second {
			e.called = m.now
			n.Away = append(n.Away, id)
		}
	}
	return n
}

func (m *model) place(p Place) bool {
	hold := m.now.Add(p.For + m.hold)
	if e := m.entries[p.Job]; e != nil {
		if e.hold.Before(hold) {
			e.hold = hold
		}
		return false
	}
	m.entries[p.Job] = &modelEntry{
		Entry: Entry{Session: p.Session, Job: p.Job, Origin: p.Origin, Exclusive: true}, hold: hold, away: p.Away,
	}
	return true
}

func (m *model) leave(e Entry) Next {
	if m.theirs(e) {
		return Next{}
	}
	m.drop(e.Job)
	return m.next()
}

func (m *model) park(e Entry, d time.Duration, away bool) Next {
	if m.theirs(e) {
		return Next{}
	}
	m.drop(e.Job)
	if e.Exclusive {
		e.Holder = ""
		m.entries[e.Job] = &modelEntry{Entry: e, hold: m.now.Add(d + m.hold), away: away}
	}
	if m.turn == "" && m.head() == e.Job && !away {
		return Next{}
	}
	return m.next()
}

func (m *model) renew(e Entry, lease time.Duration) {
	if m.theirs(e) && m.entries[e.Job].busy.After(m.now) || m.outrun(e) {
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
	if m.pauser == job { // again: who came since sees the mark
		m.pauseTo = m.now.Add(ttl)
		return true
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
	s, err := Open(t.Context(), "redis://"+mini.Addr()+calm, "")
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
	s := open(t, sharedURL(t, onServer)+calm)
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
			Holder:  rapid.SampledFrom([]string{"", "a", "b", "1/a", "2/b", "10/a"}).Draw(t, "holder"),
			Running: rapid.Bool().Draw(t, "running"),
		}
	}
	lease := func(t *rapid.T) time.Duration {
		if setTime == nil {
			return time.Hour
		}
		return rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 30 * time.Second, time.Hour}).Draw(t, "lease")
	}
	same := func(t *rapid.T, want, got Next) {
		require.Equal(t, want.Job, got.Job, "next")
		require.Equal(t, want.Busy, got.Busy, "next busy")
		if setTime != nil {
			require.ElementsMatch(t, want.Away, got.Away, "to call back")
		} else { // the server's clock goes on: somebody may be called a second time
			require.Subset(t, got.Away, want.Away, "to call back")
		}
	}
	actions := map[string]func(*rapid.T){
		"enter": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			a, err := s.Enter(ctx, e, d)
			if m.outrun(e) {
				require.ErrorIs(t, err, ErrOutrun)
				return
			}
			require.NoError(t, err)
			turn, head, headBusy, headAway, pausing := m.enter(e, d)
			require.Equal(t, turn, a.Turn, "turn")
			require.Equal(t, head, a.Head, "head")
			require.Equal(t, headBusy, a.HeadBusy, "head busy")
			require.Equal(t, headAway, a.HeadAway, "head away")
			require.Equal(t, pausing, a.Pausing, "pausing")
		},
		"place": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			if !e.Exclusive {
				return
			}
			p := Place{Session: session, Job: e.Job, Origin: e.Origin, For: d, Away: rapid.Bool().Draw(t, "away")}
			made, err := s.Place(ctx, p)
			require.NoError(t, err)
			require.Equal(t, m.place(p), made[0])
		},
		"leave": func(t *rapid.T) {
			e := draw(t)
			next, err := s.Leave(ctx, e, 0)
			require.NoError(t, err)
			same(t, m.leave(e), next)
		},
		"park": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			next, err := s.Park(ctx, e, d)
			require.NoError(t, err)
			same(t, m.park(e, d, false), next)
		},
		"depart": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			if !e.Exclusive {
				return
			}
			next, err := s.Depart(ctx, e, d)
			require.NoError(t, err)
			same(t, m.park(e, d, true), next)
		},
		"renew": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			require.NoError(t, s.Renew(ctx, []Entry{e}, d))
			m.renew(e, d)
		},
		"begin pause": func(t *rapid.T) {
			e, d := draw(t), lease(t)
			ok, err := s.BeginPause(ctx, e, d, true)
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
