package ops_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
)

// A worker's answer goes to an inbox, not to whatever subject the asker may not publish
// to himself; and such a question has no effect.
func TestAnswersGoToInboxesAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.claimOf(events.Job{Session: "s1", ID: "j1"}, "ann", "task.run.ann")
	for _, reply := range []string{"staging.event.s1.j1.cancel_requested", "staging.task.run.ann", "staging.dead.x.y.z", "$JS.API.STREAM.DELETE.x", "INBOX"} {
		got, err := s.nc.SubscribeSync(reply)
		require.NoError(t, err)
		require.NoError(t, s.nc.Flush())
		for _, subject := range []string{query.SessionList, query.SessionList + ".eve", query.JobGet} {
			require.NoError(t, s.asker.PublishRequest("staging."+subject, reply, []byte(`{"limit":1}`)))
		}
		require.NoError(t, s.asker.PublishRequest("staging."+query.JobCancel, reply, []byte(`{"session":"s1","job":"j1"}`)))
		// Each of these questions is heard after those on the same subject before it.
		s.answered(query.SessionList, `{}`)
		s.listAs("eve", query.SessionList, `{}`, "session")
		s.refused(query.JobGet, `{"job":"none"}`, "404")
		s.refused(query.JobCancel, `{"job":"none"}`, "404")
		msg, err := got.NextMsg(100 * time.Millisecond)
		require.Error(t, err, "%s: %v", reply, msg)
		require.NoError(t, got.Unsubscribe())
	}
	h, err := s.facts.History(t.Context(), events.Job{Session: "s1", ID: "j1"})
	require.NoError(t, err)
	require.False(t, h.Cancel.OK())
	require.Contains(t, s.logged.String(), "its answer would go to no inbox")
}
