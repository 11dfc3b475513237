package ops_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

func TestSessionGet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	written := time.Now().UTC().Add(5 * time.Minute).Truncate(time.Millisecond)
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 2, SandboxID: "i1", Owner: "ann", IdleAt: written})
	s.session(session.Record{Session: "s2", State: session.Paused, Generation: 1, Owner: "bob"})

	got := s.answered(query.SessionGet, `{"session":"s1"}`)
	require.Equal(t, "active", got["state"])
	rec, err := s.ask.Session(t.Context(), query.SessionRequest{Session: "s1", Owner: "ann"})
	require.NoError(t, err)
	require.Equal(t, written, rec.IdleAt, "Redis knows no deadline: the record's will do")

	require.Contains(t, s.refused(query.SessionGet, `{"session":"s9"}`, "404"), "session s9 is not found")
	require.Equal(t, "session s1 is not found", s.refused(query.SessionGet, `{"session":"s1","owner":"bob"}`, "404"), "a stranger's")
	_, err = s.ask.Session(t.Context(), query.SessionRequest{Session: "s1", Owner: "bob"})
	require.True(t, query.IsNotFound(err))

	t.Run("the live idle deadline", func(t *testing.T) {
		before := time.Now()
		for _, id := range []string{"s1", "s2"} {
			require.NoError(t, s.view.SetDeadline(t.Context(), store.Idle, id, time.Hour))
		}
		rec, err := s.ask.Session(t.Context(), query.SessionRequest{Session: "s1"})
		require.NoError(t, err)
		require.WithinDuration(t, before.Add(time.Hour), rec.IdleAt, time.Minute)
		rec, err = s.ask.Session(t.Context(), query.SessionRequest{Session: "s2"})
		require.NoError(t, err)
		require.Zero(t, rec.IdleAt, "one that is not active has none")
	})
	t.Run("without Redis", func(t *testing.T) {
		require.NoError(t, s.redis.Stop())
		rec, err := s.ask.Session(t.Context(), query.SessionRequest{Session: "s1"})
		require.NoError(t, err)
		require.Equal(t, written, rec.IdleAt)
		for subject, body := range map[string]string{
			query.SessionList: ``, query.SessionStatus: `{"session":"s1"}`, query.JobList: ``, query.Stats: ``, query.JobGet: `{"job":"j1"}`,
		} {
			require.Contains(t, s.refused(subject, body, "503"), "redis unavailable", subject)
		}
	})
}

func TestSessionStatus(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 1, SandboxID: "i1", Owner: "ann"})
	s.session(session.Record{Session: "s2", State: session.Active, Generation: 1, SandboxID: "i2"})
	s.session(session.Record{Session: "s3", State: session.Provisioning, Generation: 1})
	for i, id := range []string{"j1", "j2"} {
		_, err := s.view.Enter(t.Context(), store.Entry{Session: "s1", Job: id, Origin: uint64(i + 1), Exclusive: true}, time.Hour)
		require.NoError(t, err)
	}
	require.NoError(t, s.view.SetDeadline(t.Context(), store.Idle, "s1", time.Hour))

	s.answered(query.SessionStatus, `{"session":"s1"}`)
	st, err := s.ask.SessionStatus(t.Context(), query.SessionRequest{Session: "s1"})
	require.NoError(t, err)
	running, queued, err := s.view.Busy(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, len(running), st.Running)
	require.Equal(t, queued, st.Queued)
	require.Equal(t, "running", st.Sandbox.State)
	require.WithinDuration(t, time.Now().Add(time.Hour), st.Session.IdleAt, time.Minute)

	require.Contains(t, s.answered(query.SessionStatus, `{"session":"s2"}`)["sandbox_error"], "i2 is not known")
	got := s.answered(query.SessionStatus, `{"session":"s3"}`)
	require.NotContains(t, got, "sandbox", "there is none to ask about")
	require.NotContains(t, got, "sandbox_error")
	s.refused(query.SessionStatus, `{"session":"s1","owner":"bob"}`, "404")
}

// E2B hangs: the rest of the answer comes, before who asked has given up.
func TestStatusOfAHangingE2B(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(svc *ops.Service) {
		svc.Sandbox = func(ctx context.Context, _ string) (*query.Sandbox, error) {
			<-ctx.Done()
			return nil, errors.New("e2b does not answer")
		}
	})
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 1, SandboxID: "i1"})
	st, err := s.ask.SessionStatus(t.Context(), query.SessionRequest{Session: "s1"})
	require.NoError(t, err)
	require.Equal(t, "e2b does not answer", st.SandboxError)
}

func TestSessionList(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.JSONEq(t, `{"sessions":[]}`, first(s.request(query.SessionList, ``)), "none is an empty list")
	want := map[string]bool{}
	for i := range 25 {
		rec := session.Record{Session: fmt.Sprintf("s%d", i), State: session.Active, Generation: 1, Owner: "ann", Template: "base"}
		if i%5 == 0 {
			rec.State, rec.Owner, rec.Template, rec.Labels = session.Paused, "bob", "node", map[string]string{"team": "core"}
		}
		s.session(rec)
		want[rec.Session] = true
	}
	req := query.SessionListRequest{Limit: 10}
	for pages := 0; ; pages++ {
		require.Less(t, pages, 50)
		page, err := s.ask.Sessions(t.Context(), req)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Sessions), 10)
		for _, r := range page.Sessions {
			delete(want, r.Session)
		}
		if req.Cursor = page.Next; req.Cursor == "" {
			break
		}
	}
	require.Empty(t, want, "all pages together have every session")

	for _, filter := range []string{`"state":"paused"`, `"owner":"bob"`, `"template":"node"`, `"label":"team"`, `"label":"team=core"`} {
		require.Len(t, s.answered(query.SessionList, "{"+filter+"}")["sessions"], 5, filter)
	}
	require.Empty(t, s.answered(query.SessionList, `{"label":"team=other"}`)["sessions"])
	require.Contains(t, s.refused(query.SessionList, `{"cursor":"nonsense"}`, "400"), "cursor not valid")
	require.Contains(t, s.refused(query.SessionList, `{"limit":1001}`, "400"), "/limit")
	require.Contains(t, s.refused(query.SessionList, `{"state":"asleep"}`, "400"), "/state")
}

// More than one message carries: the page is shorter, and the pages have all.
func TestPageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n, each = 30, 100_000
	for i := range n {
		s.session(session.Record{
			Session: fmt.Sprintf("s%d", i), State: session.Active, Generation: 1, Env: map[string]string{"BIG": fmt.Sprintf("%0*d", each, i)},
		})
	}
	seen := map[string]bool{}
	req := query.SessionListRequest{Limit: n}
	for {
		page, err := s.ask.Sessions(t.Context(), req)
		require.NoError(t, err)
		for _, r := range page.Sessions {
			seen[r.Session] = true
		}
		if req.Cursor = page.Next; req.Cursor == "" {
			break
		}
	}
	require.Len(t, seen, n)
}

func TestStats(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.JSONEq(t, `{"worker":"w1","version":"1.2.3","queued":0,"running":0,"waiting":0,"dead":0,"events":0,"sessions":{},"slots":{"used":0,"limit":20,"waiting":0}}`,
		first(s.request(query.Stats, ``)))
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 1})
	s.session(session.Record{Session: "s2", State: session.Paused, Generation: 1})
	s.session(session.Record{Session: "s3", State: session.Paused, Generation: 1})
	for range 3 {
		_, err := s.jobs.Publish(t.Context(), jobs.TaskRun, &jobs.Run{Argv: []string{"true"}}, jobs.PublishOptions{})
		require.NoError(t, err)
	}
	s.letter("s1", "j1", `{"id":"j1","session":"s1","argv":["x"]}`, jobs.ClassInvalid)
	slot, err := s.view.TakeSlot(t.Context(), store.SlotAsk{Session: "s1", Job: "j1"}, time.Hour)
	require.NoError(t, err)
	require.True(t, slot.OK)

	s.answered(query.Stats, `{}`)
	got, err := s.ask.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, query.StatsReply{
		Worker: "w1", Version: "1.2.3", Queued: 3, Dead: 1, Events: 3,
		Sessions: map[string]int{"active": 1, "paused": 2}, Slots: query.Slots{Used: 1, Limit: 20},
	}, got)
}

func first[A, B any](a A, _ B) A { return a }
