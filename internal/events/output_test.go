package events_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/natsx"
)

// text makes n bytes of lines of many lengths.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, 0, n+200)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "line %d %s\n", i, bytes.Repeat([]byte{'x'}, r.IntN(150)))
	}
	return b[:n]
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// feed writes b in pieces of many sizes.
func feed(o *events.Output, b []byte) error {
	r := rand.New(rand.NewPCG(2, 2))
	for len(b) > 0 {
		n := min(len(b), 1+r.IntN(200_000))
		if r.IntN(2) == 0 {
			n = min(n, 1+r.IntN(300))
		}
		if _, err := o.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func TestOutputKeepsEveryByte(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w := s.join(t)
		j := job(t)
		c := w.claim(t, j, 0)
		want := map[events.Kind][]byte{events.Stdout: text(3 << 20), events.Stderr: bytes.Repeat([]byte("no line end "), 100_000)}
		var wg sync.WaitGroup
		for kind, b := range want {
			wg.Go(func() {
				o := c.Output(kind, 0, events.OutputOptions{})
				if err := feed(o, b); err != nil {
					t.Error(err)
				}
				if err := o.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if o.Offset() != int64(len(b)) || o.Stored() != o.Offset() || o.Sum() != sum(b) {
					t.Error(kind, "offset", o.Offset(), "stored", o.Stored(), "sum", o.Sum())
				}
			})
		}
		wg.Wait()
		all := w.all(t, s, j)
		for kind, b := range want {
			require.Equal(t, sum(b), sum(output(all, kind)), kind)
		}
		whole := 0
		for _, e := range all {
			require.LessOrEqual(t, len(e.Data), 64<<10)
			if e.Kind == events.Stdout && bytes.HasSuffix(e.Data, []byte("\n")) {
				whole++
			}
		}
		require.Greater(t, whole, 40, "messages of stdout end with a line")
	})
}

// A line after a silence goes out at once; lines that come fast share messages.
func TestOutputPace(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	c := w.claim(t, j, 0)
	o := c.Output(events.Stdout, 0, events.OutputOptions{})
	sub, err := w.nc.SubscribeSync("event." + j.Session + "." + j.ID + ".stdout")
	require.NoError(t, err)
	require.NoError(t, w.nc.Flush())

	_, err = o.Write([]byte("first\n"))
	require.NoError(t, err)
	m, err := sub.NextMsgWithContext(short(t, patience))
	require.NoError(t, err)
	require.Equal(t, "first\n", string(m.Data), "nobody flushed or closed it")

	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	begun := time.Now()
	for i := range 200 {
		<-tick.C
		_, err := fmt.Fprintf(o, "line %d\n", i)
		require.NoError(t, err)
	}
	require.NoError(t, o.Close(t.Context()))
	most := 3 + int(time.Since(begun)/events.Pace) // the first, one at once, and the rest at the close
	n := 0
	for _, e := range w.all(t, s, j) {
		if e.Kind == events.Stdout {
			n++
		}
	}
	require.LessOrEqual(t, n, most, "200 lines share messages")
}

// A line end that is near cuts the message; what is left follows by itself.
func TestOutputCutsAtLineEnds(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	c := w.claim(t, j, 0)
	o := c.Output(events.Stdout, 0, events.OutputOptions{})
	_, err := o.Write([]byte("whole line\nhalf a "))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return o.Stored() == o.Offset() }, patience, time.Millisecond)
	_, err = o.Write([]byte("line\n"))
	require.NoError(t, err)
	require.NoError(t, o.Close(t.Context()))
	var got []string
	for _, e := range w.all(t, s, j) {
		if e.Kind == events.Stdout {
			got = append(got, string(e.Data))
		}
	}
	require.Equal(t, []string{"whole line\n", "half a ", "line\n"}, got)
}

// The successor goes on where the stream ends, with the hash of what is there.
func TestOutputGoesOn(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w := s.join(t)
		j := job(t)
		want := text(1 << 20)
		c := w.claim(t, j, 0)
		o := c.Output(events.Stdout, 0, events.OutputOptions{})
		require.NoError(t, feed(o, want[:600_000]))

		c2 := s.join(t).claim(t, j, c.Token()) // in the middle of the writing
		require.ErrorIs(t, o.Close(t.Context()), events.ErrLost)
		_, err := o.Write([]byte("zombie"))
		require.ErrorIs(t, err, events.ErrLost)

		h, err := c2.History(t.Context())
		require.NoError(t, err)
		at := h.Stdout.Offset
		state, err := w.log.Sum(t.Context(), j, events.Stdout, at)
		require.NoError(t, err)
		o2 := c2.Output(events.Stdout, at, events.OutputOptions{Hash: state})
		require.NoError(t, feed(o2, want[at:]))
		require.NoError(t, o2.Close(t.Context()))
		require.Equal(t, sum(want), o2.Sum())
		require.Equal(t, sum(want), sum(output(w.all(t, s, j), events.Stdout)))
	})
}

// While the server is away, Write blocks at the bound and nothing is lost.
func TestOutputSurvivesServerRestart(t *testing.T) {
	t.Parallel()
	s, restart := restartable(t)
	w := s.join(t, natsx.AckWait(500*time.Millisecond))
	j := job(t)
	c := w.claim(t, j, 0)
	want := text(4 << 20)
	o := c.Output(events.Stdout, 0, events.OutputOptions{})
	written := make(chan error, 1)
	go func() { written <- feed(o, want) }()
	for range 3 {
		at := o.Stored()
		require.Eventually(t, func() bool { return o.Stored() > at || at == int64(len(want)) }, patience, time.Millisecond)
		restart(func() {
			require.LessOrEqual(t, o.Offset()-o.Stored(), int64(3*64<<10), "memory is bounded")
		})
	}
	require.NoError(t, one(t, written, "the end of the writing"))
	require.NoError(t, o.Close(short(t, patience)))
	require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{StdoutBytes: int64(len(want)), StdoutSHA256: o.Sum()}))
	for _, err := range w.log.Follow(t.Context(), j, events.FollowOptions{Verify: true}) {
		require.NoError(t, err)
	}
	require.Equal(t, sum(want), sum(output(w.all(t, s, j), events.Stdout)))
}

// The stream changes its leader while output is written and read, and the writer is
// replaced at each change.
func TestOutputOverLeaderChanges(t *testing.T) {
	t.Parallel()
	s := triple(t)
	w := s.join(t, natsx.AckWait(time.Second))
	j := job(t)
	want := text(2 << 20)
	c := w.claim(t, j, 0)
	r := s.join(t)
	result := make(chan error, 1)
	go func() {
		_, err := read(t.Context(), r.log, j, events.FollowOptions{Verify: true})
		result <- err
	}()
	var at int64
	for step := range int64(4) {
		state, err := w.log.Sum(t.Context(), j, events.Stdout, at)
		require.NoError(t, err)
		o := c.Output(events.Stdout, at, events.OutputOptions{Hash: state})
		end := int64(len(want)) * (step + 1) / 4
		written := make(chan error, 1)
		go func() { written <- feed(o, want[at:end]) }()
		require.Eventually(t, func() bool { // there may be none at this moment
			_, err := w.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+events.StreamEvents, nil, 5*time.Second)
			return err == nil
		}, patience, 50*time.Millisecond, "no leader steps down")
		if step == 3 {
			require.NoError(t, one(t, written, "the end of the writing"))
			require.NoError(t, o.Close(t.Context()))
			require.Equal(t, sum(want), o.Sum())
			break
		}
		successor := s.join(t).claim(t, j, c.Token())
		for _, err := range []error{one(t, written, "the end of the writing"), o.Close(t.Context())} {
			if err != nil { // it may have been through before
				require.ErrorIs(t, err, events.ErrLost)
			}
		}
		h, err := successor.History(t.Context())
		require.NoError(t, err)
		c, at = successor, h.Stdout.Offset
	}
	require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{StdoutBytes: int64(len(want)), StdoutSHA256: sum(want)}))
	require.NoError(t, one(t, result, "the end of the reading"))
}

// An Output gives up on a send that was stored after all; another one of the same
// claim begins at the same offset with other bytes in its first message.
func TestOutputAfterAnUnknownSend(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		for name, second := range map[string]string{"shorter": "abc\n", "longer": "abc\ndef\nghi\njkl\n"} {
			l := newLossy(t, s)
			j := job(t)
			c := l.claim(t, j, 0)
			o := c.Output(events.Stdout, 0, events.OutputOptions{})
			l.proxy.deaf.Store(true)
			_, err := o.Write([]byte("abc\ndef\n"))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return l.history(t, j).Stdout.Offset == 8 }, patience, 5*time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, o.Close(ctx), context.Canceled)
			l.proxy.cut(false)

			o = c.Output(events.Stdout, 0, events.OutputOptions{})
			_, err = o.Write([]byte(second))
			require.NoError(t, err)
			require.NoError(t, o.Flush(short(t, patience)))
			_, err = o.Write([]byte("abc\ndef\nghi\njkl\n")[len(second):])
			require.NoError(t, err)
			require.NoError(t, o.Close(t.Context()))
			require.Equal(t, "abc\ndef\nghi\njkl\n", string(output(l.eye.all(t, s, j), events.Stdout)), name)
			require.Equal(t, sum([]byte("abc\ndef\nghi\njkl\n")), o.Sum())
		}
	})
}

// A message that the server says it has and that cannot be read back, as before a new
// leader has caught up: that is NATS being away, for which jobs wait, and no fault of
// the attempt.
func TestOutputThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	j := job(t)
	c := w.claim(t, j, 0)
	write := func() error {
		o := c.Output(events.Stdout, 0, events.OutputOptions{})
		_, err := o.Write([]byte("text\n"))
		require.NoError(t, err)
		return o.Close(t.Context())
	}
	require.NoError(t, write())
	all := w.all(t, s, j)
	stream, err := w.js.Stream(t.Context(), events.StreamEvents)
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), all[len(all)-1].Seq))
	require.ErrorIs(t, write(), natsx.ErrUnavailable)
}

// An idle Output holds no goroutine, so that ten thousand of them cost little.
func TestOutputIdle(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	c := w.claim(t, job(t), 0)
	o := c.Output(events.Stderr, 0, events.OutputOptions{})
	require.NoError(t, o.Flush(t.Context()))
	require.NoError(t, o.Close(t.Context()))
	require.NoError(t, o.Close(t.Context()))
	_, err := o.Write([]byte("x"))
	require.ErrorIs(t, err, events.ErrClosed)
	_, err = c.Output(events.KindStep, 0, events.OutputOptions{}).Write([]byte("x"))
	require.Error(t, err)
}
