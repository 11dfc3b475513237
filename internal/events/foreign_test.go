package events_test

import (
	"crypto/sha256"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// forge publishes a message on an event's subject as anybody may who is let.
func (w *worker) forge(t *testing.T, j events.Job, kind events.Kind, header map[string]string, data string) uint64 {
	t.Helper()
	m := nats.NewMsg("event." + j.Session + "." + j.ID + "." + string(kind))
	m.Data = []byte(data)
	for k, v := range header {
		m.Header.Set(k, v)
	}
	return w.put(t, m)
}

// put stores a message, however long a cluster takes to have a leader.
func (w *worker) put(t *testing.T, m *nats.Msg) (seq uint64) {
	t.Helper()
	m.Header.Set(nats.MsgIdHdr, "forged-"+randomID())
	require.Eventually(t, func() bool {
		ack, err := w.js.PublishMsg(t.Context(), m)
		if err == nil {
			seq = ack.Sequence
		}
		return err == nil
	}, patience, 20*time.Millisecond)
	return seq
}

// What others publish on a job's subjects is not its history, not its output and
// not its end; a forged claim does not take the job from its holder.
func TestForeignEvents(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w, j := s.join(t), job(t)
		w.forge(t, j, events.KindClaimed, nil, "\x00\xff")
		_, err := w.log.Claim(t.Context(), j, events.Claimed{Worker: "w", Attempt: 1}, 0)
		require.ErrorIs(t, err, events.ErrLost)
		past, err := w.log.History(t.Context(), j)
		require.NoError(t, err)
		require.False(t, past.Claimed.OK())
		require.NotZero(t, past.Fence)
		require.Len(t, past.Foreign, 1)
		c, err := w.log.Succeed(t.Context(), past, events.Claimed{Worker: "w", Attempt: 1})
		require.NoError(t, err)

		require.NoError(t, c.Publish(t.Context(), events.KindStarted, events.Started{Attempt: 1, SandboxID: "box"}))
		out := c.Output(events.Stdout, 0, events.OutputOptions{})
		_, err = out.Write([]byte("one\n"))
		require.NoError(t, err)
		require.NoError(t, out.Flush(t.Context()))
		first := c.Token()
		for _, k := range events.Kinds() {
			if k != events.KindCancelRequested {
				w.forge(t, j, k, nil, `{"worker":"evil","attempt":7,"origin":99,"class":"ok"}`)
				w.forge(t, j, k, map[string]string{"ce-type": "dev.sandjet.job." + string(k) + ".v1"}, `{"attempt":"x"`)
			}
		}
		w.forge(t, j, events.Stdout, map[string]string{events.HeaderOffset: "2", "ce-type": "dev.sandjet.job.stdout.v1"}, "evil")
		w.forge(t, j, events.Stdout, map[string]string{events.HeaderOffset: "900"}, "evil")
		// What reads as an answer of the server's is a message like any other.
		for _, k := range events.Kinds() {
			if k == events.KindCancelRequested {
				continue // anybody's to write
			}
			w.forge(t, j, k, map[string]string{"Status": "404", "Description": "Message Not Found"}, "")
			w.forge(t, j, k, map[string]string{
				"Nats-Stream": "EVENTS", "Nats-Subject": "event.x.y.succeeded", "Nats-Sequence": "1", "Nats-Time-Stamp": "never",
				"Nats-Num-Pending": "0", "Nats-Last-Sequence": "1", "Status": "204",
			}, "{}")
		}
		w.forge(t, j, "whatever", nil, "{")

		past, err = w.log.History(t.Context(), j)
		require.NoError(t, err)
		require.Equal(t, "w", past.Claimed.Value.Worker)
		require.Equal(t, first, past.Claimed.Seq)
		require.Greater(t, past.Fence, first)
		require.Equal(t, "box", past.Started.Value.SandboxID)
		require.EqualValues(t, 4, past.Stdout.Offset)
		require.False(t, past.Ended())
		require.GreaterOrEqual(t, len(past.Foreign), len(events.Kinds())-1)
		running, err := w.log.Running(t.Context(), j.Session)
		require.NoError(t, err)
		_ = running // the forged end hides the start: a job may be missed, none is made up

		// The holder goes on, under a claim over the forged one.
		_, err = out.Write([]byte("two\n"))
		require.NoError(t, err)
		require.NoError(t, out.Close(t.Context()))
		require.Greater(t, c.Token(), first)
		sum, err := w.log.Sum(t.Context(), j, events.Stdout, 8)
		require.NoError(t, err)
		require.Equal(t, sum.Sum(nil), sha("one\ntwo\n"))
		require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{
			Class: "ok", Attempts: 1, StdoutBytes: 8, StdoutSHA256: out.Sum(),
		}))

		ctx := short(t, patience)
		var stdout, ends string
		for e, err := range w.log.Follow(ctx, j, events.FollowOptions{Verify: true}) {
			require.NoError(t, err)
			if e.Kind == events.Stdout {
				require.Equal(t, strconv.Itoa(len(stdout)), strconv.FormatInt(e.Offset, 10))
				stdout += string(e.Data)
			}
			if e.Kind.Terminal() {
				ends += string(e.Kind)
			}
		}
		require.Equal(t, "one\ntwo\n", stdout)
		require.Equal(t, "succeeded", ends)
		for e, err := range w.log.Chain(t.Context(), j) {
			require.NoError(t, err)
			require.NotContains(t, string(e.Data), "evil")
		}
	})
}

func sha(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}
