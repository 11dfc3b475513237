package events_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// Who may publish jobs and ask questions can have the answers sent to another job's
// subject. They cancel nothing.
func TestAnswersAreNoWishes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		w, r := s.join(t), s.join(t)
		session := job(t).Session
		job := func() events.Job { return events.Job{Session: session, ID: "j" + randomID()} }
		got := make(chan events.Job, 100)
		require.NoError(t, r.log.WatchCancels(t.Context(), func(j events.Job, _ events.CancelRequested) {
			if j.Session == session { // other tests cancel on this cluster too, and more than fits
				got <- j
			}
		}))
		subject := func(j events.Job) string { return "event." + j.Session + "." + j.ID + ".cancel_requested" }

		victims := map[string]events.Job{}
		heard := func(j events.Job) {
			for {
				x := one(t, got, "a wish")
				for what, victim := range victims {
					require.NotEqual(t, victim, x, "%s was taken for a wish", what)
				}
				if x == j {
					return
				}
			}
		}
		mine := job()
		require.NoError(t, w.nc.Publish(subject(mine), []byte(`{"reason":"mine"}`)))
		heard(mine)
		sent := func(what string, ask func(reply string)) {
			j := job()
			victims[what] = j
			ask(subject(j))
		}
		sent("the ack of a message", func(reply string) {
			require.NoError(t, w.nc.PublishRequest(subject(mine), reply, nil))
		})
		sent("a service's refusal", func(reply string) {
			m := nats.NewMsg(reply)
			m.Header.Set("Nats-Service-Error-Code", "404")
			require.NoError(t, w.nc.PublishMsg(m))
		})
		stream, err := w.js.Stream(t.Context(), events.StreamEvents)
		require.NoError(t, err)
		for what, j := range victims {
			require.Eventually(t, func() bool {
				_, err := stream.GetLastMsgForSubject(t.Context(), subject(j))
				return err == nil
			}, 30*time.Second, 10*time.Millisecond, "%s has not been stored: the test shows nothing", what)
			h, err := w.log.History(t.Context(), j)
			require.NoError(t, err)
			require.False(t, h.Cancel.OK(), what)
		}

		// By hand it is one, with and without a body.
		for _, body := range []string{"", "please", `"please"`, `{}`, `{"reason":"x","by":"y"}`} {
			j := job()
			require.NoError(t, w.nc.Publish(subject(j), []byte(body)))
			heard(j)
			h, err := w.log.History(t.Context(), j)
			require.NoError(t, err)
			require.True(t, h.Cancel.OK(), "%q", body)
		}
	})
}
