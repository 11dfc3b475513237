package events_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

func TestPutSession(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w := s.join(t)
		id := job(t).Session
		_, _, err := w.log.Session(t.Context(), id)
		require.ErrorIs(t, err, events.ErrNotFound)

		one, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Provisioning}, 0)
		require.NoError(t, err)
		_, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Error}, 0)
		require.ErrorIs(t, err, events.ErrStale)
		two, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Active, Generation: 1}, one)
		require.NoError(t, err)
		_, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Error}, one)
		require.ErrorIs(t, err, events.ErrStale)
		_, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Error}, two+1_000_000)
		require.ErrorIs(t, err, events.ErrStale)

		rec, seq, err := w.log.Session(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, two, seq)
		require.Equal(t, session.Active, rec.State)
		_, err = w.log.PutSession(t.Context(), session.Record{Session: "a.b"}, 0)
		require.Error(t, err)
	})
}

// Whoever reads often must not use up the consumers that a stream takes.
func TestReadersLeaveNoConsumer(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	read := func() (n int) {
		for _, err := range w.log.Sessions(t.Context()) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Zero(t, read())
	_, err := w.log.PutSession(t.Context(), session.Record{Session: "s", State: session.Active}, 0)
	require.NoError(t, err)
	require.Len(t, last(t, w, "", 1), 1)
	require.Equal(t, 1, read())
	st, err := w.js.Stream(t.Context(), events.StreamSessions)
	require.NoError(t, err)
	require.Zero(t, st.CachedInfo().State.Consumers)
}

// last reads SESSIONS until it has seen n sessions of ours.
func last(t *testing.T, w *worker, prefix string, n int) map[string]events.Fact[session.Record] {
	t.Helper()
	var got map[string]events.Fact[session.Record]
	require.Eventually(t, func() bool {
		got = map[string]events.Fact[session.Record]{}
		for f, err := range w.log.Sessions(t.Context()) {
			require.NoError(t, err)
			if len(f.Value.Session) > len(prefix) && f.Value.Session[:len(prefix)] == prefix {
				got[f.Value.Session] = f
			}
		}
		return len(got) >= n
	}, patience, 20*time.Millisecond)
	return got
}

// copied waits until SESSIONS has the session.
func copied(t *testing.T, w *worker, id string) *jetstream.RawStreamMsg {
	t.Helper()
	st, err := w.js.Stream(t.Context(), events.StreamSessions)
	require.NoError(t, err)
	var m *jetstream.RawStreamMsg
	require.Eventually(t, func() bool {
		m, err = st.GetLastMsgForSubject(t.Context(), "event."+id+".session.state")
		return err == nil
	}, patience, 20*time.Millisecond)
	return m
}

// More sessions than one request of the server answers for.
func TestSessionsPages(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		const n = 1500
		w := s.join(t)
		prefix := job(t).Session + "-"
		seqs := map[string]uint64{}
		for i := range n {
			id := fmt.Sprintf("%s%d", prefix, i)
			seq, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Provisioning}, 0)
			require.NoError(t, err)
			if i%3 == 0 {
				seq, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Active}, seq)
				require.NoError(t, err)
			}
			seqs[id] = seq
		}
		require.Eventually(t, func() bool {
			for id, f := range last(t, w, prefix, n) {
				if f.Seq != seqs[id] {
					return false
				}
			}
			return true
		}, patience, 20*time.Millisecond)
	})
}

// What the copy does not have yet is read from the events themselves.
func TestSessionsBeforeTheirCopy(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	id := job(t).Session
	put := func(id string, st session.State, prev uint64) uint64 {
		seq, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: st}, prev)
		require.NoError(t, err)
		return seq
	}
	one := put(id, session.Active, 0)
	put(id+"-2", session.Active, 0)
	two := put(id, session.Destroyed, one)
	require.Eventually(t, func() bool {
		return strings.Contains(string(copied(t, w, id).Data), string(session.Destroyed))
	}, patience, 20*time.Millisecond)
	st, err := w.js.Stream(t.Context(), events.StreamSessions)
	require.NoError(t, err)
	require.NoError(t, st.DeleteMsg(t.Context(), copied(t, w, id).Sequence))

	got := last(t, w, id[:len(id)-1], 2)
	require.Equal(t, session.Destroyed, got[id].Value.State)
	require.Equal(t, two, got[id].Seq)
}

// A session that has not changed for longer than EVENTS keeps events is still known
// and may still change.
func TestSessionOutlivesItsEvents(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	id := job(t).Session
	seq, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Paused}, 0)
	require.NoError(t, err)
	copied(t, w, id)
	st, err := w.js.Stream(t.Context(), events.StreamEvents)
	require.NoError(t, err)
	require.NoError(t, st.Purge(t.Context()))

	rec, got, err := w.log.Session(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, session.Paused, rec.State)
	require.Equal(t, seq, got)
	_, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Lost}, seq+7)
	require.ErrorIs(t, err, events.ErrStale)
	next, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Resuming}, seq)
	require.NoError(t, err)
	require.Greater(t, next, seq)
	_, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Lost}, seq)
	require.ErrorIs(t, err, events.ErrStale)
}

// A destroyed session leaves SESSIONS a little after its events have left EVENTS.
func TestDestroyedSessionIsForgotten(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	id := job(t).Session
	_, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Destroyed}, 0)
	require.NoError(t, err)
	copied(t, w, id)
	for _, name := range []string{events.StreamEvents, events.StreamSessions} {
		st, err := w.js.Stream(t.Context(), name)
		require.NoError(t, err)
		m, err := st.GetLastMsgForSubject(t.Context(), "event."+id+".session.state")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%ds", int((7*24*time.Hour+time.Hour).Seconds())), m.Header.Get("Nats-TTL"), name)
	}
}

func TestWatchSession(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w, r := s.join(t), s.join(t)
		id := job(t).Session
		type answer struct {
			rec session.Record
			seq uint64
			err error
		}
		watch := func(after uint64) chan answer {
			c := make(chan answer, 1)
			go func() {
				rec, seq, err := r.log.WatchSession(t.Context(), id, after)
				c <- answer{rec, seq, err}
			}()
			return c
		}
		var prev uint64
		for _, state := range []session.State{session.Provisioning, session.Active, session.Pausing, session.Paused} {
			c := watch(prev)
			seq, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: state}, prev)
			require.NoError(t, err)
			a := one(t, c, "the session's next record")
			require.NoError(t, a.err)
			require.Equal(t, state, a.rec.State)
			require.Equal(t, seq, a.seq)
			prev = seq
		}
		_, _, err := r.log.WatchSession(short(t, 50*time.Millisecond), id, prev)
		require.Error(t, err)
	})
}

// What others publish on a session's subject is no record: the last one that can
// be read counts, and is written over what is there.
func TestForeignSessionState(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w := s.join(t)
		id := job(t).Session
		subject := "event." + id + ".session.state"
		forge := func(data string) uint64 {
			m := nats.NewMsg(subject)
			m.Data = []byte(data)
			return w.put(t, m)
		}
		first := forge("\xff\x00 no JSON")
		_, seq, err := w.log.Session(t.Context(), id)
		require.ErrorIs(t, err, events.ErrNotFound)
		require.Equal(t, first, seq)
		put, err := w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Active, Generation: 4}, seq)
		require.NoError(t, err)

		for _, data := range []string{
			"", "null", "[]", `{"session":"` + id + `"`, `{"session":"other","state":"lost"}`,
			`{"session":"` + id + `","state":"flying"}`, `{"session":"` + id + `","state":7}`,
		} {
			forged := forge(data)
			rec, seq, err := w.log.Session(t.Context(), id)
			require.NoError(t, err, data)
			require.Equal(t, 4, rec.Generation)
			require.Equal(t, forged, seq)
			require.Eventually(t, func() bool { // SESSIONS follows
				for f, err := range w.log.Sessions(t.Context()) {
					require.NoError(t, err)
					if f.Value.Session == id && f.Seq == forged {
						return f.Value.Generation == 4
					}
				}
				return false
			}, patience, 20*time.Millisecond, data)
		}
		_, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Paused}, put)
		require.ErrorIs(t, err, events.ErrStale)
		rec, seq, err := w.log.Session(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, session.Active, rec.State)
		_, err = w.log.PutSession(t.Context(), session.Record{Session: id, State: session.Paused}, seq)
		require.NoError(t, err)
	})
}
