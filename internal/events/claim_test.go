package events_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

func TestClaimLifeOfAJob(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w := s.join(t)
		j := job(t)
		ctx := t.Context()
		require.NoError(t, w.log.Wait(ctx, j, events.Waiting{Why: events.WaitLane}, 0))
		require.NoError(t, w.log.Accept(ctx, j, events.Accepted{Kind: "task.run", StreamSeq: 7}))
		require.NoError(t, w.log.Accept(ctx, j, events.Accepted{Kind: "other"}), "once is enough")

		c := w.claim(t, j, 0)
		require.NotZero(t, c.Token())
		require.ErrorIs(t, w.log.Wait(ctx, j, events.Waiting{Why: events.WaitLane}, 0), events.ErrLost)
		require.NoError(t, c.Publish(ctx, events.KindStarted, events.Started{Attempt: 1, SandboxID: "box"}))
		out := c.Output(events.Stdout, 0, events.OutputOptions{})
		_, err := out.Write([]byte("hi\n"))
		require.NoError(t, err)
		require.NoError(t, out.Close(ctx))
		require.Equal(t, "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4", out.Sum())
		require.NoError(t, c.End(ctx, events.Succeeded, events.Outcome{Class: "ok", StdoutBytes: 3, StdoutSHA256: out.Sum()}))
		require.ErrorIs(t, c.End(ctx, events.Failed, events.Outcome{}), events.ErrEnded)
		require.ErrorIs(t, c.Publish(ctx, events.KindProgress, events.Progress{}), events.ErrEnded)

		h, err := w.log.History(ctx, j)
		require.NoError(t, err)
		require.Equal(t, "task.run", h.Accepted.Value.Kind)
		require.Equal(t, c.Token(), h.Claimed.Seq)
		require.Equal(t, "box", h.Started.Value.SandboxID)
		require.EqualValues(t, 3, h.Stdout.Offset)
		require.Equal(t, events.Succeeded, h.Terminal)
		require.Equal(t, h.Last, h.Outcome.Seq)
		require.True(t, h.Ended())

		var kinds []events.Kind
		for e, err := range w.log.Follow(ctx, j, events.FollowOptions{Verify: true}) {
			require.NoError(t, err)
			kinds = append(kinds, e.Kind)
			a, err := events.AttributesOf(e.Header)
			require.NoError(t, err)
			require.Equal(t, j.String(), a.Subject)
			require.Equal(t, e.Header.Get("Nats-Msg-Id"), a.ID)
		}
		require.Equal(t, []events.Kind{"waiting", "accepted", "claimed", "started", "stdout", "succeeded"}, kinds)
	})
}

// staleReplica stands between w and the direct gets. It answers every other one by
// what the stream held when it was started: the newest events of j, and no more.
func staleReplica(t *testing.T, s *site, w *worker, j events.Job) {
	t.Helper()
	const api = "$JS.API.DIRECT.GET."
	r := s.join(t)
	ask := func(reply string, body []byte) {
		require.NoError(t, r.nc.PublishRequest(api+events.StreamEvents, reply, body))
	}
	in := r.nc.NewInbox()
	sub, err := r.nc.SubscribeSync(in)
	require.NoError(t, err)
	ask(in, fmt.Appendf(nil, `{"multi_last":["event.%s.%s.*"]}`, j.Session, j.ID))
	var old []*nats.Msg
	for len(old) == 0 || old[len(old)-1].Header.Get("Status") == "" {
		m, err := sub.NextMsg(patience)
		require.NoError(t, err)
		old = append(old, m)
	}
	require.NoError(t, sub.Unsubscribe())
	none := &nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}}
	n := 0
	_, err = r.nc.Subscribe("stale."+events.StreamEvents, func(m *nats.Msg) {
		answers := []*nats.Msg{none}
		if n++; n%2 == 0 {
			ask(m.Reply, m.Data)
			return
		} else if strings.Contains(string(m.Data), "multi_last") {
			answers = old
		}
		for _, o := range answers {
			_ = r.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: o.Header, Data: o.Data})
		}
	})
	require.NoError(t, err)
	require.NoError(t, r.nc.Flush())
	w.log.AskAt("stale.")
}

// Whichever replica answers, what was acknowledged before is there.
func TestStaleReplica(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	c := w.claim(t, j, 0)
	staleReplica(t, s, w, j)
	for i := range 20 {
		require.NoError(t, c.Publish(t.Context(), events.KindProgress, events.Progress{Percent: float64(i)}))
		h, err := w.log.History(t.Context(), j)
		require.NoError(t, err)
		require.EqualValues(t, i, h.Progress.Value.Percent)
	}
	o := c.Output(events.Stdout, 0, events.OutputOptions{})
	want := text(300_000)
	require.NoError(t, feed(o, want))
	require.NoError(t, o.Close(t.Context()))
	_, err := w.log.Sum(t.Context(), j, events.Stdout, o.Offset())
	require.NoError(t, err)
	require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{StdoutBytes: o.Offset(), StdoutSHA256: o.Sum()}))
	for range 5 {
		all, err := read(short(t, patience), w.log, j, events.FollowOptions{Verify: true})
		require.NoError(t, err)
		require.Equal(t, events.Succeeded, all[len(all)-1].Kind)
		n := 0
		for _, err := range w.log.Chain(t.Context(), j) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 1+20+1+1, n)
	}
}

func TestHistoryOfNothing(t *testing.T) {
	t.Parallel()
	w := single(t).join(t)
	h, err := w.log.History(t.Context(), job(t))
	require.NoError(t, err)
	require.Zero(t, h.Last)
	require.False(t, h.Claimed.OK())
}

// Of those who claim at the same time, one holds; the others are told.
func TestClaimRace(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		const racers = 8
		logs := make([]*worker, racers)
		for i := range logs {
			logs[i] = s.join(t)
		}
		for range 10 {
			j := job(t)
			var prev uint64
			for range 3 {
				var mu sync.Mutex
				var won []*events.Claim
				var wg sync.WaitGroup
				for _, w := range logs {
					wg.Go(func() {
						c, err := w.log.Claim(t.Context(), j, events.Claimed{Worker: "w"}, prev)
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							won = append(won, c)
						} else if !errors.Is(err, events.ErrLost) {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				require.Len(t, won, 1)
				prev = won[0].Token()
			}
		}
	})
}

// A holder writes as fast as it can while others take the job over, again and again.
// Nothing it writes after a new claim is accepted.
func TestTakeoverAtFullSpeed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		const takeovers = 20
		j := job(t)
		w := s.join(t)
		c := w.claim(t, j, 0)
		for range takeovers {
			zombie := c
			var wg sync.WaitGroup
			wrote := make(chan struct{})
			wg.Go(func() {
				told := sync.OnceFunc(func() { close(wrote) })
				defer told()
				for n := 0; ; n++ {
					err := zombie.Publish(t.Context(), events.KindProgress, events.Progress{})
					if errors.Is(err, events.ErrLost) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if n == 10 {
						told()
					}
				}
			})
			next(t, wrote, "a holder that writes")
			other := s.join(t)
			c = other.claim(t, j, zombie.Token())
			wg.Wait()
			next(t, zombie.Lost(), "the loss of the job")
			require.ErrorIs(t, zombie.End(t.Context(), events.Failed, events.Outcome{}), events.ErrLost)
			h, err := c.History(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.Token(), h.Claimed.Seq)
			require.False(t, h.Ended())
		}
		require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{Class: "ok"}))

		var token uint64
		terminal, claims, accepted := 0, 0, 0
		for _, e := range w.all(t, s, j) {
			switch {
			case e.Kind == events.KindClaimed:
				claims++
				token = e.Seq
				continue
			case e.Kind.Terminal():
				terminal++
			}
			accepted++
			require.Equal(t, token, e.Token(), "event %d (%s) is of another holder", e.Seq, e.Kind)
		}
		require.Equal(t, takeovers+1, claims)
		require.Equal(t, 1, terminal)
		require.Greater(t, accepted, takeovers*10)
	})
}

// The claim record is past the stream's limits while the job still runs: the holder
// keeps the job, a late one does not get it.
func TestClaimOutlivesItsRecord(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	c := w.claim(t, j, 0)
	old := c.Token()
	st, err := w.js.Stream(t.Context(), events.StreamEvents)
	require.NoError(t, err)
	require.NoError(t, st.DeleteMsg(t.Context(), old))

	require.NoError(t, c.Publish(t.Context(), events.KindProgress, events.Progress{Percent: 50}))
	require.Greater(t, c.Token(), old)
	_, err = w.log.Claim(t.Context(), j, events.Claimed{Worker: "late"}, 0)
	require.ErrorIs(t, err, events.ErrLost)

	require.NoError(t, st.DeleteMsg(t.Context(), c.Token()))
	late, err := w.log.Claim(t.Context(), j, events.Claimed{Worker: "late"}, c.Token())
	require.NoError(t, err)
	require.ErrorIs(t, c.Publish(t.Context(), events.KindProgress, events.Progress{}), events.ErrLost)
	require.NoError(t, late.End(t.Context(), events.Succeeded, events.Outcome{}))
}

// A successor claims a job only as its history showed it: a holder that comes to
// itself and writes, or ends the job, is not overlooked.
func TestSucceed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w, ctx := s.join(t), t.Context()
		j := job(t)
		old := w.claim(t, j, 0)
		look := func() events.History {
			h, err := w.log.History(ctx, j)
			require.NoError(t, err)
			return h
		}
		seen := look()
		require.NoError(t, old.Publish(ctx, events.KindProgress, events.Progress{Percent: 1}))
		_, err := w.log.Succeed(ctx, seen, events.Claimed{Worker: "new"})
		require.ErrorIs(t, err, events.ErrMoved)

		next, err := w.log.Succeed(ctx, look(), events.Claimed{Worker: "new"})
		require.NoError(t, err)
		require.NoError(t, next.Check(ctx))
		require.ErrorIs(t, old.Check(ctx), events.ErrLost)
		require.ErrorIs(t, old.Publish(ctx, events.KindProgress, events.Progress{}), events.ErrLost)
		_, err = w.log.Succeed(ctx, seen, events.Claimed{Worker: "third"})
		require.ErrorIs(t, err, events.ErrLost)

		seen = look()
		require.Equal(t, old.Token(), next.Record().Previous)
		require.NoError(t, next.End(ctx, events.Succeeded, events.Outcome{}))
		require.NoError(t, next.Check(ctx), "what it ended is its own")
		_, err = w.log.Succeed(ctx, seen, events.Claimed{Worker: "third"})
		require.ErrorIs(t, err, events.ErrMoved)
		require.Equal(t, look().Last, look().Outcome.Seq, "the terminal event is the last")
	})
}

// A holder that comes to itself ends the job in the moment that another takes it over:
// either it has ended, or it is taken. The terminal event is the last one, whatever
// else is written about the job meanwhile.
func TestEndOrSuccessor(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		ctx := t.Context()
		w, other, wisher := s.join(t), s.join(t), s.join(t)
		ends, taken := 0, 0
		for range 150 {
			j := job(t)
			old := w.claim(t, j, 0)
			require.NoError(t, old.Publish(ctx, events.KindProgress, events.Progress{Percent: 1}))
			past, err := w.log.History(ctx, j)
			require.NoError(t, err)
			var end, succeed error
			var next *events.Claim
			var wg sync.WaitGroup
			wg.Go(func() { end = old.End(ctx, events.Succeeded, events.Outcome{Class: "ok"}) })
			wg.Go(func() { next, succeed = other.log.Succeed(ctx, past, events.Claimed{Worker: "new"}) })
			var wished error
			wg.Go(func() { wished = wisher.log.Cancel(ctx, j, events.CancelRequested{Reason: "x"}) })
			wg.Wait()
			require.NoError(t, wished)
			switch {
			case end == nil:
				ends++
				require.ErrorIs(t, succeed, events.ErrMoved)
			case succeed == nil:
				taken++
				require.ErrorIs(t, end, events.ErrLost)
				require.NoError(t, next.End(ctx, events.Failed, events.Outcome{Class: "command_failed"}))
			default: // the wish came before the claim
				t.Fatalf("neither: end: %v, successor: %v", end, succeed)
			}
			over := false
			for _, e := range w.all(t, s, j) {
				require.False(t, over && e.Kind != events.KindCancelRequested, "%s comes after the end", e.Kind)
				over = over || e.Kind.Terminal()
			}
			require.True(t, over)
		}
		t.Logf("%d ended, %d taken over", ends, taken)
		require.NotZero(t, ends)
	})
}

func TestRelease(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	c := w.claim(t, job(t), 0)
	c.Release()
	c.Release()
	require.ErrorIs(t, c.Publish(t.Context(), events.KindProgress, events.Progress{}), events.ErrReleased)
	_, err := c.Output(events.Stdout, 0, events.OutputOptions{}).Write([]byte("x"))
	require.NoError(t, err, "the first write is only accepted")
	select {
	case <-c.Lost():
		t.Fatal("released is not lost")
	default:
	}
}

func TestClaimWithoutServer(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	c := w.claim(t, job(t), 0)
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Publish(ctx, events.KindProgress, events.Progress{}), context.DeadlineExceeded)
	_, err := w.log.Claim(ctx, job(t), events.Claimed{}, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
