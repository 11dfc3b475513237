package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/session"
)

// lossy is a worker whose acks can be lost, beside one that sees what is stored.
type lossy struct {
	*worker
	proxy *proxy
	eye   *worker
	site  *site
}

func newLossy(t *testing.T, s *site) *lossy {
	p := newProxy(t, s.url[len("nats://"):])
	return &lossy{joinAt(t, s, p.addr, natsx.AckWait(300*time.Millisecond)), p, s.join(t), s}
}

// lose runs act while the server's answers are swallowed, until the write shows in
// the stream; then the connection is cut and act goes on over a new one.
func (l *lossy) lose(t *testing.T, act func() error, stored func() bool, between func()) error {
	t.Helper()
	l.proxy.deaf.Store(true)
	done := make(chan error, 1)
	go func() { done <- act() }()
	require.Eventually(t, stored, patience, 5*time.Millisecond)
	if between != nil {
		between()
	}
	l.proxy.cut(false)
	return one(t, done, "the end of the write")
}

func (l *lossy) history(t *testing.T, j events.Job) events.History {
	h, err := l.eye.log.History(t.Context(), j)
	require.NoError(t, err)
	return h
}

func TestLostAckOfAClaim(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		l := newLossy(t, s)
		j := job(t)
		var prev uint64
		for range 3 {
			var c *events.Claim
			require.NoError(t, l.lose(t, func() (err error) {
				c, err = l.log.Claim(t.Context(), j, events.Claimed{Worker: "w"}, prev)
				return err
			}, func() bool { return l.history(t, j).Claimed.Seq > prev }, nil))
			require.Equal(t, l.history(t, j).Claimed.Seq, c.Token())
			require.NoError(t, c.Publish(t.Context(), events.KindProgress, events.Progress{}))
			prev = c.Token()
		}
		require.Len(t, l.eye.all(t, s, j), 6)
	})
}

// The claim was stored, its answer lost, and somebody else has claimed since.
func TestLostAckOfAClaimThatIsTakenOver(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		l := newLossy(t, s)
		j := job(t)
		err := l.lose(t, func() error {
			_, err := l.log.Claim(t.Context(), j, events.Claimed{Worker: "w"}, 0)
			return err
		}, func() bool { return l.history(t, j).Claimed.OK() }, func() {
			l.eye.claim(t, j, l.history(t, j).Claimed.Seq)
		})
		require.ErrorIs(t, err, events.ErrLost)
	})
}

func TestLostAckOfAnEvent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		l := newLossy(t, s)
		j := job(t)
		c := l.claim(t, j, 0)
		require.NoError(t, l.lose(t, func() error {
			return c.Publish(t.Context(), events.KindStarted, events.Started{Attempt: 1})
		}, func() bool { return l.history(t, j).Started.OK() }, nil))
		require.NoError(t, l.lose(t, func() error {
			return c.End(t.Context(), events.Failed, events.Outcome{Class: "command_failed"})
		}, func() bool { return l.history(t, j).Ended() }, nil))
		require.Len(t, l.eye.all(t, s, j), 3)
	})
}

// The terminal event was stored, its answer lost, and somebody else has claimed the
// job since: it has ended all the same, and its holder must know.
func TestLostAckOfTheEnd(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		l := newLossy(t, s)
		j := job(t)
		c := l.claim(t, j, 0)
		require.NoError(t, l.lose(t, func() error {
			return c.End(t.Context(), events.Succeeded, events.Outcome{Class: "ok"})
		}, func() bool { return l.history(t, j).Ended() }, func() {
			late := l.eye.claim(t, j, c.Token())
			h, err := late.History(t.Context())
			require.NoError(t, err)
			require.True(t, h.Ended())
			// Whoever ends it again without having read is stopped as well.
			require.ErrorIs(t, late.End(t.Context(), events.Failed, events.Outcome{}), events.ErrEnded)
		}))
		require.Equal(t, events.Succeeded, l.history(t, j).Terminal)
	})
}

// The terminal event never arrived before somebody else claimed the job.
func TestEndThatNeverArrived(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		l := newLossy(t, s)
		j := job(t)
		c := l.claim(t, j, 0)
		l.proxy.cut(true)
		done := make(chan error, 1)
		go func() { done <- c.End(t.Context(), events.Succeeded, events.Outcome{Class: "ok"}) }()
		l.eye.claim(t, j, c.Token())
		l.proxy.heal()
		require.ErrorIs(t, one(t, done, "the end of the write"), events.ErrLost)
		next(t, c.Lost(), "the loss of the job")
		require.False(t, l.history(t, j).Ended())
	})
}

func TestLostAckOfASession(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		l := newLossy(t, s)
		id := job(t).Session
		put := func(state session.State, prev uint64) func() error {
			return func() error {
				_, err := l.log.PutSession(t.Context(), session.Record{Session: id, State: state}, prev)
				return err
			}
		}
		newer := func(than uint64) func() bool {
			return func() bool {
				_, seq, err := l.eye.log.Session(t.Context(), id)
				return err == nil && seq > than
			}
		}
		require.NoError(t, l.lose(t, put(session.Provisioning, 0), newer(0), nil))
		rec, first, err := l.eye.log.Session(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, session.Provisioning, rec.State)

		// Stored, and written over by somebody else before the answer was known.
		require.NoError(t, l.lose(t, put(session.Active, first), newer(first), func() {
			_, seq, err := l.eye.log.Session(t.Context(), id)
			require.NoError(t, err)
			_, err = l.eye.log.PutSession(t.Context(), session.Record{Session: id, State: session.Pausing}, seq)
			require.NoError(t, err)
		}))
		require.ErrorIs(t, put(session.Lost, first)(), events.ErrStale)
	})
}
