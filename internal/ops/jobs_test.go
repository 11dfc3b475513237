package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

func TestJobGet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.claim(events.Job{Session: "s1", ID: "j1"}, "ann")
	state := func() query.Job {
		t.Helper()
		s.answered(query.JobGet, `{"session":"s1","job":"j1"}`)
		j, err := s.ask.Job(t.Context(), query.JobRequest{Job: "j1"})
		require.NoError(t, err)
		return j
	}
	j := state()
	require.Equal(t, "claimed", j.State)
	require.Equal(t, "s1", j.Session, "found without the session")
	require.Equal(t, "task.run", j.Kind)
	require.Equal(t, "ann", j.Owner)
	require.Equal(t, "w1", j.Worker)
	require.Equal(t, 1, j.Attempt)
	require.Equal(t, map[string]string{"team": "core"}, j.Labels)
	require.WithinDuration(t, time.Now(), j.AcceptedAt, time.Minute)

	ctx := t.Context()
	require.NoError(t, c.Publish(ctx, events.KindWaiting, events.Waiting{Why: events.WaitQuota}))
	j = state()
	require.Equal(t, "waiting", j.State)
	require.Equal(t, "quota", j.Waiting)
	require.NoError(t, c.Publish(ctx, events.KindStarted, events.Started{Attempt: 1}))
	j = state()
	require.Equal(t, "started", j.State)
	require.Empty(t, j.Waiting)
	require.NoError(t, c.Publish(ctx, events.KindProgress, events.Progress{Percent: 3}))
	require.Equal(t, "started", state().State, "progress says nothing of where a job is")
	exit := 3
	s.end(c, events.Failed, events.Outcome{Class: "command_failed", ExitCode: &exit, Attempts: 1})
	j = state()
	require.Equal(t, "failed", j.State)
	require.Equal(t, "command_failed", j.Class)
	require.JSONEq(t, `{"class":"command_failed","exit_code":3,"attempts":1,"duration_ms":0,"stdout_bytes":0,"stderr_bytes":0}`, string(j.Outcome))

	for _, subject := range []string{query.JobGet, query.JobWhy, query.JobCancel} {
		s.refused(subject, `{"session":"s1","job":"j1","owner":"bob"}`, "404")
		s.refused(subject, `{"job":"j1","owner":"bob"}`, "404")
		s.answered(subject, `{"job":"j1","owner":"ann"}`)
		require.Contains(t, s.refused(subject, `{"job":"j9"}`, "404"), "job j9 is not found")
	}
}

func TestJobOfItsOwnSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.claim(events.Job{Session: "j1", ID: "j1"}, "")
	s.flushRedis()
	require.Equal(t, "j1", s.answered(query.JobGet, `{"job":"j1"}`)["session"], "Redis knows nothing of it")
	require.NoError(t, s.redis.Stop())
	require.Equal(t, "j1", s.answered(query.JobGet, `{"job":"j1"}`)["session"])
	require.Contains(t, s.refused(query.JobGet, `{"job":"j2"}`, "503"), "name it: find job j2: redis unavailable")
	s.refused(query.JobGet, `{"session":"s1","job":"j2"}`, "404")
}

func TestJobOfSeveralSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.claim(events.Job{Session: "s1", ID: "j1"}, "ann")
	s.claim(events.Job{Session: "s2", ID: "j1"}, "ann")
	s.claim(events.Job{Session: "s3", ID: "j1"}, "bob")
	for _, subject := range []string{query.JobGet, query.JobWhy, query.JobCancel} {
		require.Equal(t, "3 sessions have a job j1: name one of s1, s2, s3", s.refused(subject, `{"job":"j1"}`, "409"))
		require.Equal(t, "2 sessions have a job j1: name one of s1, s2", s.refused(subject, `{"job":"j1","owner":"ann"}`, "409"), "a stranger's stays unseen")
		require.Equal(t, "s3", s.answered(subject, `{"job":"j1","owner":"bob"}`)["session"])
		require.Equal(t, "s2", s.answered(subject, `{"job":"j1","session":"s2"}`)["session"])
	}
	_, err := s.ask.Job(t.Context(), query.JobRequest{Job: "j1"})
	require.True(t, query.IsConflict(err))
}

func TestJobList(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.JSONEq(t, `{"jobs":[]}`, first(s.request(query.JobList, ``)))
	for i := range 25 {
		v := store.JobView{Session: "s1", Job: fmt.Sprintf("j%02d", i), Origin: uint64(i + 1), Seq: 1, State: "started", Owner: "ann", Attempt: 1, AcceptedAt: time.Now(), UpdatedAt: time.Now()}
		if i%5 == 0 {
			v.Session, v.State, v.Owner, v.Class = "s2", "failed", "bob", "command_failed"
			v.Outcome = []byte(`{"class":"command_failed","attempts":1,"duration_ms":1,"stdout_bytes":0,"stderr_bytes":0}`)
		}
		s.show(v)
	}
	var got []string
	req := query.JobListRequest{Limit: 10}
	for {
		page, err := s.ask.Jobs(t.Context(), req)
		require.NoError(t, err)
		for _, j := range page.Jobs {
			got = append(got, j.Job)
		}
		if req.Cursor = page.Next; req.Cursor == "" {
			break
		}
	}
	require.Len(t, got, 25)
	for i, id := range got {
		require.Equal(t, fmt.Sprintf("j%02d", 24-i), id, "newest first")
	}
	for _, filter := range []string{`"session":"s2"`, `"state":"failed"`, `"owner":"bob"`, `"class":"command_failed"`, `"kind":"task.run","owner":"bob"`} {
		require.Len(t, s.answered(query.JobList, "{"+filter+"}")["jobs"], 5, filter)
	}
	require.Empty(t, s.answered(query.JobList, `{"kind":"git.clone"}`)["jobs"])
	s.refused(query.JobList, `{"cursor":"nonsense"}`, "400")
	require.Contains(t, s.refused(query.JobList, `{"kind":"task.walk"}`, "400"), "/kind")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cancelled := func(key events.Job) events.CancelRequested {
		t.Helper()
		h, err := s.facts.History(t.Context(), key)
		require.NoError(t, err)
		require.True(t, h.Cancel.OK(), "no cancel of %s on record", key)
		return h.Cancel.Value
	}
	t.Run("a running job", func(t *testing.T) {
		key := events.Job{Session: "s1", ID: "j1"}
		s.claim(key, "ann")
		got, err := s.ask.Cancel(t.Context(), query.JobCancelRequest{JobRequest: query.JobRequest{Job: "j1", Owner: "ann"}, Reason: "enough"})
		require.NoError(t, err)
		require.Equal(t, query.JobCancelReply{Session: "s1", Job: "j1", State: "requested"}, got)
		require.Equal(t, events.CancelRequested{Reason: "enough", By: "ann"}, cancelled(key))
		require.Equal(t, "cancel_requested", s.answered(query.JobGet, `{"job":"j1"}`)["state"])
		require.Equal(t, "requested", s.answered(query.JobCancel, `{"job":"j1"}`)["state"], "twice does no harm")
	})
	t.Run("before anybody took it up", func(t *testing.T) {
		require.Contains(t, s.refused(query.JobCancel, `{"job":"j2"}`, "404"), "name its session")
		require.Equal(t, "requested", s.answered(query.JobCancel, `{"job":"j2","session":"s1"}`)["state"])
		cancelled(events.Job{Session: "s1", ID: "j2"})
	})
	t.Run("of an owner, before anybody took it up", func(t *testing.T) {
		s.refused(query.JobCancel, `{"job":"j3","session":"s3","owner":"ann"}`, "404")
		s.session(session.Record{Session: "s3", State: session.Active, Generation: 1, Owner: "ann"})
		s.refused(query.JobCancel, `{"job":"j3","session":"s3","owner":"bob"}`, "404")
		s.answered(query.JobCancel, `{"job":"j3","session":"s3","owner":"ann"}`)
		require.Equal(t, "ann", cancelled(events.Job{Session: "s3", ID: "j3"}).By)
		s.claim(events.Job{Session: "s3", ID: "j4"}, "bob")
		s.refused(query.JobCancel, `{"job":"j4","session":"s3","owner":"ann"}`, "404")
	})
	t.Run("after the end", func(t *testing.T) {
		for i, kind := range []events.Kind{events.Succeeded, events.Failed, events.Cancelled, events.Dead} {
			key := events.Job{Session: "s5", ID: fmt.Sprintf("e%d", i)}
			s.end(s.claim(key, ""), kind, events.Outcome{Class: "ok", Attempts: 1})
			require.Equal(t, string(kind), s.answered(query.JobCancel, `{"job":"`+key.ID+`"}`)["state"])
			h, err := s.facts.History(t.Context(), key)
			require.NoError(t, err)
			require.False(t, h.Cancel.OK(), "nothing is written after the end")
		}
	})
}

func TestWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx := t.Context()
	key := events.Job{Session: "s1", ID: "j1"}
	c := s.claim(key, "ann")
	require.NoError(t, c.Publish(ctx, events.KindWaiting, events.Waiting{Why: events.WaitLane, Ahead: 2}))
	why := func() query.JobWhyReply {
		t.Helper()
		s.answered(query.JobWhy, `{"job":"j1"}`)
		got, err := s.ask.Why(ctx, query.JobRequest{Job: "j1"})
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "waits for an earlier job of the session (2 ahead)", why().Summary)

	require.NoError(t, c.Publish(ctx, events.KindStarted, events.Started{Attempt: 1, SandboxID: "i1"}))
	out := c.Output(events.Stdout, 0, events.OutputOptions{})
	_, err := out.Write([]byte("hello\n"))
	require.NoError(t, err)
	require.NoError(t, out.Close(ctx))
	require.Equal(t, "attempt 1 started, in sandbox i1", why().Summary, "output does not say why")
	exit := 3
	s.end(c, events.Failed, events.Outcome{Class: "command_failed", ExitCode: &exit, Attempts: 2, DurationMS: 1500})
	require.NoError(t, s.facts.Cancel(ctx, key, events.CancelRequested{})) // too late

	got := why()
	require.Equal(t, "failed (command_failed), exit code 3, after 1.5s and 2 attempts", got.Summary)
	var kinds []string
	for _, l := range got.Chain {
		kinds = append(kinds, l.Kind)
		require.NotEmpty(t, l.Says)
		require.NotZero(t, l.Seq)
	}
	require.Equal(t, []string{"accepted", "claimed", "waiting", "started", "stdout", "failed", "cancel_requested"}, kinds)
	require.Equal(t, "stdout up to byte 6", got.Chain[4].Says)
	require.Empty(t, got.Chain[4].Data)
	require.JSONEq(t, `{"why":"lane","ahead":2}`, string(got.Chain[2].Data))
}

// Anybody may write a cancel by hand; the answer stays valid.
func TestWhyWithForeignPayloads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.claim(events.Job{Session: "s1", ID: "j1"}, "")
	for _, body := range []string{``, `"please"`, `not json`, ` {"reason":"x"} `} {
		_, err := s.js.Publish(t.Context(), s.ns.Subject("event.s1.j1.cancel_requested"), []byte(body))
		require.NoError(t, err)
	}
	require.Len(t, s.answered(query.JobWhy, `{"job":"j1"}`)["chain"], 6)
}

// A job that was tried very often has a longer story than one message carries.
func TestWhyThatIsTooLong(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.claim(events.Job{Session: "s1", ID: "j1"}, "")
	for i := range 200 {
		reason := fmt.Sprintf("%d ", i) + strings.Repeat("x", 12_000)
		require.NoError(t, c.Publish(t.Context(), events.KindRetrying, events.Retrying{Class: "unavailable", Reason: reason, Attempt: i + 1}))
	}
	s.end(c, events.Dead, events.Outcome{Class: "unavailable", Attempts: 200})
	got, err := s.ask.Why(t.Context(), query.JobRequest{Job: "j1"})
	require.NoError(t, err)
	s.answered(query.JobWhy, `{"job":"j1"}`)
	require.Contains(t, got.Summary, "given up for dead (unavailable)")
	require.Greater(t, len(got.Chain), 100)
	require.Equal(t, "accepted", got.Chain[0].Kind)
	require.Equal(t, "dead", got.Chain[len(got.Chain)-1].Kind)
}
