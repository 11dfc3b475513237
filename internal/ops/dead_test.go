package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
)

func TestDead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx := t.Context()
	require.JSONEq(t, `{"letters":[]}`, first(s.request(query.DeadList, ``)))
	body := `{"id":"j1","session":"s1","argv":["echo","hi"]}`
	seq := s.letter("s1", "j1", body, jobs.ClassPolicy)

	l, err := s.ask.DeadLetter(ctx, query.DeadRequest{Seq: seq})
	require.NoError(t, err)
	require.Equal(t, body, l.Body)
	require.Equal(t, "staging.task.run", l.Subject)
	require.Equal(t, "it cannot be", l.Reason)
	require.Equal(t, "policy", l.Class)
	one := fmt.Sprintf(`{"seq":%d}`, seq)
	require.Equal(t, "j1", s.answered(query.DeadGet, one)["job"])

	t.Run("pages and filters", func(t *testing.T) {
		for i := range 6 {
			id := fmt.Sprintf("k%d", i)
			s.letter("s2", id, `{"id":"`+id+`","session":"s2","argv":["x"]}`, jobs.ClassInvalid)
		}
		var got []string
		req := query.DeadListRequest{Limit: 4}
		for {
			page, err := s.ask.DeadLetters(ctx, req)
			require.NoError(t, err)
			for _, l := range page.Letters {
				require.Empty(t, l.Body)
				got = append(got, l.Job)
			}
			if req.Cursor = page.Next; req.Cursor == "" {
				break
			}
		}
		require.Equal(t, []string{"j1", "k0", "k1", "k2", "k3", "k4", "k5"}, got)
		require.Len(t, s.answered(query.DeadList, `{"class":"invalid"}`)["letters"], 6)
		require.Len(t, s.answered(query.DeadList, `{"kind":"task.run"}`)["letters"], 7)
		require.Empty(t, s.answered(query.DeadList, `{"kind":"git.clone"}`)["letters"])
		for _, bad := range []string{"nonsense", "0", "-1"} {
			require.Contains(t, s.refused(query.DeadList, `{"cursor":"`+bad+`"}`, "400"), "cursor not valid")
		}
	})
	t.Run("replay", func(t *testing.T) {
		got, err := s.ask.Replay(ctx, query.DeadRequest{Seq: seq})
		require.NoError(t, err)
		require.Equal(t, "staging.task.run", got.Subject)
		require.NotZero(t, got.StreamSeq)
		stream, err := s.js.Stream(ctx, s.ns.Stream(jobs.StreamJobs))
		require.NoError(t, err)
		msg, err := stream.GetMsg(ctx, got.StreamSeq)
		require.NoError(t, err)
		require.Contains(t, string(msg.Data), got.Job)
		s.refused(query.DeadReplay, one, "404")
		s.answered(query.DeadReplay, fmt.Sprintf(`{"seq":%d}`, seq+1))
	})
	t.Run("discard", func(t *testing.T) {
		got, err := s.ask.Discard(ctx, query.DeadRequest{Seq: seq + 2})
		require.NoError(t, err)
		require.Equal(t, seq+2, got.Seq)
		require.Contains(t, s.refused(query.DeadDiscard, fmt.Sprintf(`{"seq":%d}`, seq+2), "404"), "no such dead letter")
		s.answered(query.DeadDiscard, fmt.Sprintf(`{"seq":%d}`, seq+3))
		require.Len(t, s.answered(query.DeadList, ``)["letters"], 3)
	})
	for _, subject := range []string{query.DeadGet, query.DeadReplay, query.DeadDiscard} {
		s.refused(subject, `{"seq":999}`, "404")
		require.Contains(t, s.refused(subject, `{"seq":0}`, "400"), "/seq")
		s.refused(subject, ``, "400")
	}
}

// A body of quotes is twice as long in JSON, and does not fit any more.
func TestDeadLetterThatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	body := `{"id":"j1","session":"s1","argv":["` + strings.Repeat(`\"`, 300_000) + `"]}`
	seq := s.letter("s1", "j1", body, jobs.ClassInvalid)
	require.Contains(t, s.refused(query.DeadGet, fmt.Sprintf(`{"seq":%d}`, seq), "409"), "nats stream get staging_DEAD 1")
	require.Len(t, s.answered(query.DeadList, ``)["letters"], 1)
}
