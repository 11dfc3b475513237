package events_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/natsx"
)

// read follows a job to its end.
func read(ctx context.Context, l *events.Log, j events.Job, o events.FollowOptions) (all []events.Event, err error) {
	for e, err := range l.Follow(ctx, j, o) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Readers who come before, while and after the job is written see the same.
func TestFollowBeforeDuringAfter(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w := s.join(t)
		j := job(t)
		want := text(2 << 20)
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[string][]events.Event{}
		reader := func(name string) {
			r := s.join(t)
			wg.Go(func() {
				all, err := read(t.Context(), r.log, j, events.FollowOptions{Verify: true})
				mu.Lock()
				defer mu.Unlock()
				got[name] = all
				if err != nil {
					t.Error(name, err)
				}
			})
		}
		reader("before")
		c := w.claim(t, j, 0)
		o := c.Output(events.Stdout, 0, events.OutputOptions{})
		require.NoError(t, feed(o, want[:1<<20]))
		reader("during")
		require.NoError(t, feed(o, want[1<<20:]))
		require.NoError(t, o.Close(t.Context()))
		require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{StdoutBytes: o.Offset(), StdoutSHA256: o.Sum()}))
		reader("after")
		wg.Wait()
		stored := w.all(t, s, j)
		for name, all := range got {
			require.Len(t, all, len(stored), name)
			for i := range all {
				require.Equal(t, stored[i].Seq, all[i].Seq, name)
			}
			require.Equal(t, sum(want), sum(output(all, events.Stdout)), name)
		}
	})
}

// Each event reaches a follower soon after it is stored, without the follower
// asking in a loop.
func TestFollowIsWoken(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w, r := s.join(t), s.join(t)
		j := job(t)
		seen := make(chan time.Time, 100)
		go func() {
			defer close(seen)
			for e, err := range r.log.Follow(t.Context(), j, events.FollowOptions{}) {
				if err != nil {
					return
				}
				if e.Kind == events.KindProgress {
					seen <- time.Now()
				}
			}
		}()
		c := w.claim(t, j, 0)
		var total time.Duration
		const n = 30
		for range n {
			require.NoError(t, c.Publish(t.Context(), events.KindProgress, events.Progress{}))
			at := time.Now()
			got := one(t, seen, "an event")
			total += got.Sub(at)
		}
		t.Logf("stored to seen: %s on average", total/n)
		require.Less(t, total/n, time.Second, "not woken, it would look more and more rarely")
		require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{}))
		_, more := next(t, seen, "the end")
		require.False(t, more, "the terminal event ends it")
	})
}

func TestFollowFrom(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	want := text(300_000)
	c := w.claim(t, j, 0)
	o := c.Output(events.Stdout, 0, events.OutputOptions{})
	require.NoError(t, feed(o, want))
	require.NoError(t, o.Close(t.Context()))
	require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{StdoutBytes: o.Offset(), StdoutSHA256: o.Sum()}))

	for _, from := range []int64{1, 1000, 65_536, 299_999, 300_000} {
		all, err := read(t.Context(), w.log, j, events.FollowOptions{StdoutFrom: from, Verify: true})
		require.NoError(t, err)
		require.Equal(t, sum(want[from:]), sum(output(all, events.Stdout)), from)
	}
	stored := w.all(t, s, j)
	last := stored[len(stored)-2]
	all, err := read(t.Context(), w.log, j, events.FollowOptions{FromSeq: last.Seq, Verify: true})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, last.Offset, all[0].Offset)
}

func TestFollowVerify(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	for name, o := range map[string]events.Outcome{
		"bytes":  {StdoutBytes: 4},
		"sha":    {StdoutBytes: 3, StdoutSHA256: sum([]byte("abd"))},
		"stderr": {StdoutBytes: 3, StderrBytes: 1},
	} {
		j := job(t)
		c := w.claim(t, j, 0)
		out := c.Output(events.Stdout, 0, events.OutputOptions{})
		_, err := out.Write([]byte("abc"))
		require.NoError(t, err)
		require.NoError(t, out.Close(t.Context()))
		require.NoError(t, c.End(t.Context(), events.Succeeded, o))
		all, err := read(t.Context(), w.log, j, events.FollowOptions{Verify: true})
		var v *events.VerifyError
		require.ErrorAs(t, err, &v, name)
		require.Equal(t, events.Succeeded, all[len(all)-1].Kind, "the terminal event comes first")
		_, err = read(t.Context(), w.log, j, events.FollowOptions{})
		require.NoError(t, err)
	}
}

// The oldest bytes have left the stream: the reader is told which, and may go on.
func TestFollowGap(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	want := text(200_000)
	c := w.claim(t, j, 0)
	o := c.Output(events.Stdout, 0, events.OutputOptions{})
	require.NoError(t, feed(o, want))
	require.NoError(t, o.Close(t.Context()))
	require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{}))
	var outs []events.Event
	for _, e := range w.all(t, s, j) {
		if e.Kind == events.Stdout {
			outs = append(outs, e)
		}
	}
	require.GreaterOrEqual(t, len(outs), 4)
	st, err := w.js.Stream(t.Context(), events.StreamEvents)
	require.NoError(t, err)
	for _, e := range []events.Event{outs[0], outs[2]} {
		require.NoError(t, st.DeleteMsg(t.Context(), e.Seq))
	}

	_, err = read(t.Context(), w.log, j, events.FollowOptions{})
	var gap *events.GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, events.GapError{Job: j, Kind: events.Stdout, From: 0, To: outs[0].End()}, *gap)

	var gaps []events.GapError
	var got []events.Event
	for e, err := range w.log.Follow(t.Context(), j, events.FollowOptions{}) {
		if errors.As(err, &gap) {
			gaps = append(gaps, *gap)
			continue
		}
		require.NoError(t, err)
		got = append(got, e)
	}
	require.Len(t, gaps, 2)
	require.Equal(t, outs[2].Offset, gaps[1].From)
	require.Equal(t, outs[2].End(), gaps[1].To)
	require.Equal(t, events.Succeeded, got[len(got)-1].Kind)

	all, err := read(t.Context(), w.log, j, events.FollowOptions{StdoutFrom: outs[2].End()})
	require.NoError(t, err, "who does not ask for the missing bytes is not told")
	require.Equal(t, sum(want[outs[2].End():]), sum(output(all, events.Stdout)))

	_, err = w.log.Sum(t.Context(), j, events.Stdout, 200_000)
	require.ErrorAs(t, err, &gap)
}

// A follower that takes its time gets everything, also after the server restarted.
func TestFollowSlowlyOverARestart(t *testing.T) {
	t.Parallel()
	s, restart := restartable(t)
	w, r := s.join(t, natsx.AckWait(500*time.Millisecond)), s.join(t)
	j := job(t)
	c := w.claim(t, j, 0)
	want := text(2 << 20)

	half, restarted := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	var got []events.Event
	go func() {
		n := 0
		for e, err := range r.log.Follow(t.Context(), j, events.FollowOptions{Verify: true}) {
			if err != nil {
				result <- err
				return
			}
			got = append(got, e)
			if n++; n == 10 {
				close(half)
				<-restarted
			}
		}
		result <- nil
	}()
	o := c.Output(events.Stdout, 0, events.OutputOptions{})
	written := make(chan error, 1)
	go func() { written <- feed(o, want) }()
	select {
	case <-half:
	case err := <-result:
		require.FailNow(t, "the follower has ended", err)
	case <-time.After(patience):
		require.FailNow(t, "the follower sees nothing")
	}
	restart(nil)
	close(restarted)
	require.NoError(t, one(t, written, "the end of the writing"))
	require.NoError(t, o.Close(t.Context()))
	require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{StdoutBytes: o.Offset(), StdoutSHA256: o.Sum()}))
	require.NoError(t, one(t, result, "the end of the reading"))
	require.Equal(t, sum(want), sum(output(got, events.Stdout)))
}

// What the server refuses is not yielded, although it passes by on the subject.
func TestFollowSkipsWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	zombie := w.claim(t, j, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan events.Event)
	go func() {
		defer close(seen)
		for e, err := range w.log.Follow(ctx, j, events.FollowOptions{}) {
			if err != nil {
				return
			}
			select {
			case seen <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	require.Equal(t, events.KindClaimed, one(t, seen, "a claim").Kind)
	c := s.join(t).claim(t, j, zombie.Token())
	require.Equal(t, events.KindClaimed, one(t, seen, "a claim").Kind)
	require.ErrorIs(t, zombie.Publish(t.Context(), events.KindProgress, events.Progress{}), events.ErrLost)
	require.NoError(t, c.Publish(t.Context(), events.KindStarted, events.Started{}))
	e := one(t, seen, "an event")
	require.Equal(t, events.KindStarted, e.Kind)
	require.Equal(t, c.Token(), e.Token())
	cancel()
	_, more := next(t, seen, "the end")
	require.False(t, more)
}

func TestFollowStopsWithTheContext(t *testing.T) {
	t.Parallel()
	w := single(t).join(t)
	_, err := read(short(t, 100*time.Millisecond), w.log, job(t), events.FollowOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for _, j := range []events.Job{{Session: "a.b", ID: "c"}, {Session: "a", ID: "*"}, {Session: "a", ID: "session"}} {
		_, err := read(t.Context(), w.log, j, events.FollowOptions{})
		require.Error(t, err, fmt.Sprint(j))
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w := s.join(t)
		j := job(t)
		require.NoError(t, w.log.Accept(t.Context(), j, events.Accepted{Kind: "task.run"}))
		c := w.claim(t, j, 0)
		for i := range 300 {
			require.NoError(t, c.Publish(t.Context(), events.KindProgress, events.Progress{Percent: float64(i)}))
		}
		o := c.Output(events.Stdout, 0, events.OutputOptions{})
		require.NoError(t, feed(o, text(300_000)))
		require.NoError(t, o.Close(t.Context()))
		require.NoError(t, c.Publish(t.Context(), events.KindStep, events.Step{Name: "push", State: events.StepDone}))
		require.NoError(t, w.log.Cancel(t.Context(), j, events.CancelRequested{By: "me"}))
		require.NoError(t, c.End(t.Context(), events.Cancelled, events.Outcome{Class: "cancelled"}))
		var last uint64
		counts := map[events.Kind]int{}
		for e, err := range w.log.Chain(t.Context(), j) {
			require.NoError(t, err)
			require.Greater(t, e.Seq, last)
			last = e.Seq
			counts[e.Kind]++
			require.NotEmpty(t, events.Says(e))
			if e.Kind == events.Stdout {
				require.EqualValues(t, 300_000, e.Offset)
				require.Empty(t, e.Data)
			}
		}
		require.Equal(t, map[events.Kind]int{"accepted": 1, "claimed": 1, "progress": 300, "stdout": 1, "step": 1, "cancel_requested": 1, "cancelled": 1}, counts)
		for _, err := range w.log.Chain(t.Context(), job(t)) {
			require.NoError(t, err)
			t.Error("an event of a job that is not there")
		}
	})
}
