package ops_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
)

// things is what somebody has: a session, a job that runs in it, and a dead letter.
type things struct {
	session, job string
	letter       uint64
}

// ofSubject makes things whose jobs were published on a subject and named an owner in
// their bodies.
func (s *site) ofSubject(name, subject, owner string) things {
	s.t.Helper()
	proven := subject != "task.run"
	s.session(session.Record{Session: name, State: session.Active, Generation: 1, SandboxID: "i1", Owner: owner, OwnerProven: proven})
	job := name + "-j"
	s.claimOf(events.Job{Session: name, ID: job}, owner, subject)
	body := fmt.Sprintf(`{"id":"%s-d","session":"%[1]s","owner":%[2]q,"argv":["x"]}`, name, owner)
	return things{name, job, s.letterOf(subject, name, name+"-d", body, jobs.ClassInvalid)}
}

// An owner asks about what subjects have proved to be his. Whatever else he asks about is
// not there: he cannot tell a stranger's things, those that only a body says are his, and
// those that never were from each other.
func TestOwnersAskAboutTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	own := s.ofSubject("mine", "task.run.ann", "ann")
	others := map[string]things{
		"a stranger's": s.ofSubject("his", "task.run.bob", "bob"),
		"by body":      s.ofSubject("said", "task.run", "ann"),
		"nobody's":     s.ofSubject("free", "task.run", ""),
		"absent":       {"none", "none-j", 4242},
	}

	questions := []struct {
		subject string
		body    func(things) string
		words   string // of what is not there
	}{
		{query.SessionGet, func(x things) string { return fmt.Sprintf(`{"session":%q}`, x.session) }, "session NAME is not found"},
		{query.SessionStatus, func(x things) string { return fmt.Sprintf(`{"session":%q}`, x.session) }, "session NAME is not found"},
		{query.JobGet, func(x things) string { return fmt.Sprintf(`{"job":%q}`, x.job) }, "job NAME-j is not found; one that no worker has taken up yet has no events, and one of which"},
		{query.JobGet, func(x things) string { return fmt.Sprintf(`{"job":%q,"session":%q}`, x.job, x.session) }, "job NAME-j is not found; one that no worker has taken up yet has no events"},
		{query.JobWhy, func(x things) string { return fmt.Sprintf(`{"job":%q}`, x.job) }, "job NAME-j is not found; one that"},
		{query.JobWhy, func(x things) string { return fmt.Sprintf(`{"job":%q,"session":%q}`, x.job, x.session) }, "job NAME-j is not found; one that"},
		{query.JobCancel, func(x things) string { return fmt.Sprintf(`{"job":%q}`, x.job) }, "job NAME-j is not found; to cancel"},
		{query.JobCancel, func(x things) string { return fmt.Sprintf(`{"job":%q,"session":%q}`, x.job, x.session) }, "job NAME-j is not found; to cancel"},
		{query.JobCancel, func(x things) string { return fmt.Sprintf(`{"job":"to-come","session":%q}`, x.session) }, "job to-come is not found; to cancel"},
		{query.DeadGet, func(x things) string { return fmt.Sprintf(`{"seq":%d}`, x.letter) }, "dead letter SEQ: no such dead letter"},
		{query.DeadDiscard, func(x things) string { return fmt.Sprintf(`{"seq":%d}`, x.letter) }, "dead letter SEQ: no such dead letter"},
		{query.DeadReplay, func(x things) string { return fmt.Sprintf(`{"seq":%d}`, x.letter) }, "dead letter SEQ: no such dead letter"},
	}
	// Before anything of the owner's own is changed, nothing of the others may.
	for _, q := range questions {
		for name, x := range others {
			for _, named := range []string{"", `,"owner":"ann"`, `,"owner":"bob"`} {
				body := q.body(x)
				if strings.HasPrefix(q.subject, "api.dead") {
					named = ""
				}
				body = strings.TrimSuffix(body, "}") + named + "}"
				_, refused := s.requestAs("ann", q.subject, body)
				require.NotNil(t, refused, "%s of %s: %s", q.subject, name, body)
				require.Equal(t, query.CodeNotFound, refused.Code, "%s of %s", q.subject, name)
				words := strings.ReplaceAll(strings.ReplaceAll(q.words, "NAME", x.session), "SEQ", fmt.Sprint(x.letter))
				require.Contains(t, refused.Description, words, "%s of %s", q.subject, name)
				_, none := s.requestAs("ann", q.subject, strings.NewReplacer(
					x.session, "none", fmt.Sprintf(`"seq":%d`, x.letter), `"seq":4242`).Replace(body))
				require.Equal(t, none.Description, strings.NewReplacer(
					x.session, "none", fmt.Sprintf("letter %d:", x.letter), "letter 4242:").Replace(refused.Description), "the words of %s of %s", q.subject, name)
			}
		}
	}
	for name, x := range others {
		h, err := s.facts.History(t.Context(), events.Job{Session: x.session, ID: x.job})
		require.NoError(t, err)
		require.False(t, h.Cancel.OK(), "%s job was cancelled", name)
	}
	require.Len(t, s.answered(query.DeadList, ``)["letters"], 4, "a letter of others is gone")

	// What there is of his own he gets, and what is written says who has asked.
	for _, q := range questions {
		_, refused := s.requestAs("ann", q.subject, q.body(own))
		if q.subject == query.DeadReplay {
			require.NotNil(t, refused, "it was discarded before")
			own.letter = s.letterOf("task.run.ann", "mine", "mine-e", `{"id":"mine-e","session":"mine","argv":["x"]}`, jobs.ClassInvalid)
			_, refused = s.requestAs("ann", q.subject, q.body(own))
		}
		require.Nil(t, refused, "%s: %v", q.subject, refused)
	}
	h, err := s.facts.History(t.Context(), events.Job{Session: "mine", ID: "mine-j"})
	require.NoError(t, err)
	require.Equal(t, "ann", h.Cancel.Value.By)

	// A filter in the body makes less of it, not more.
	for _, body := range []string{`{"session":"mine","owner":"bob"}`, `{"session":"his","owner":"bob"}`} {
		_, refused := s.requestAs("ann", query.SessionGet, body)
		require.Equal(t, query.CodeNotFound, refused.Code, body)
	}
	// And an operator asks about everything.
	for _, q := range questions[:6] {
		for name, x := range others {
			if name != "absent" {
				s.answered(q.subject, q.body(x))
			}
		}
	}
}

func (s *site) listAs(who, subject, body, field string) (ids []string) {
	s.t.Helper()
	reply, refused := s.requestAs(who, subject, body)
	require.Nil(s.t, refused, "%s %s", subject, body)
	var out map[string]json.RawMessage
	require.NoError(s.t, json.Unmarshal([]byte(reply), &out))
	require.NotContains(s.t, out, "next")
	var items []map[string]any
	for _, list := range []string{"sessions", "jobs", "letters"} {
		if out[list] != nil {
			require.NoError(s.t, json.Unmarshal(out[list], &items))
		}
	}
	for _, i := range items {
		ids = append(ids, i[field].(string))
	}
	slices.Sort(ids)
	return ids
}

func TestOwnersListTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ofSubject("a1", "task.run.ann", "ann")
	s.ofSubject("a2", "high.task.run.ann", "ann")
	s.ofSubject("b1", "task.run.bob", "bob")
	s.ofSubject("said", "task.run", "ann")
	s.ofSubject("free", "task.run", "")
	for _, list := range []struct{ subject, field, suffix string }{
		{query.SessionList, "session", ""}, {query.JobList, "job", "-j"}, {query.DeadList, "job", "-d"},
	} {
		of := func(names ...string) (out []string) {
			for _, n := range names {
				out = append(out, n+list.suffix)
			}
			return out
		}
		require.Equal(t, of("a1", "a2"), s.listAs("ann", list.subject, `{}`, list.field))
		require.Equal(t, of("b1"), s.listAs("bob", list.subject, `{}`, list.field))
		require.Empty(t, s.listAs("carl", list.subject, `{}`, list.field))
		require.Len(t, s.listAs("", list.subject, `{}`, list.field), 5)
		if list.subject == query.DeadList {
			continue // knows no such filter
		}
		require.Equal(t, of("a1", "a2"), s.listAs("ann", list.subject, `{"owner":"ann"}`, list.field))
		require.Empty(t, s.listAs("ann", list.subject, `{"owner":"bob"}`, list.field))
		require.Equal(t, of("a1", "a2", "said"), s.listAs("", list.subject, `{"owner":"ann"}`, list.field))
	}
	require.Empty(t, s.listAs("ann", query.JobList, `{"session":"b1"}`, "job"))
}

// Jobs of one name in several sessions are as many as the asker may know of.
func TestOwnersNameTheirJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, in := range []struct{ session, subject, owner string }{
		{"s1", "task.run.ann", "ann"}, {"s2", "task.run.ann", "ann"}, {"s3", "task.run.bob", "bob"}, {"s4", "task.run", "bob"},
	} {
		s.claimOf(events.Job{Session: in.session, ID: "j1"}, in.owner, in.subject)
	}
	for _, subject := range []string{query.JobGet, query.JobWhy, query.JobCancel} {
		_, refused := s.requestAs("ann", subject, `{"job":"j1"}`)
		require.Equal(t, &query.Error{Code: query.CodeConflict, Description: "2 sessions have a job j1: name one of s1, s2"}, refused)
		reply, refused := s.requestAs("bob", subject, `{"job":"j1"}`)
		require.Nil(t, refused)
		require.Contains(t, reply, `"session":"s3"`)
	}
}

// A job is its owner's also in a session that is another's by now.
func TestOwnersMayForestallInTheirSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.session(session.Record{Session: "mine", State: session.Active, Generation: 1, Owner: "ann", OwnerProven: true})
	s.session(session.Record{Session: "said", State: session.Active, Generation: 1, Owner: "ann"})
	s.claimOf(events.Job{Session: "mine", ID: "his"}, "bob", "task.run.bob")
	s.claimOf(events.Job{Session: "said", ID: "own"}, "ann", "task.run.ann")
	cancel := func(session, job string) *query.Error {
		_, refused := s.requestAs("ann", query.JobCancel, fmt.Sprintf(`{"session":%q,"job":%q}`, session, job))
		return refused
	}
	require.Nil(t, cancel("mine", "to-come"))
	require.Equal(t, query.CodeNotFound, cancel("mine", "his").Code)
	require.Equal(t, query.CodeNotFound, cancel("said", "to-come").Code)
	require.Nil(t, cancel("said", "own"))
}

// Of two publications with one id, of which one was accepted and the other one claimed, the
// claim says whose the job is; one of an older worker does not, and then nobody's it is.
func TestOwnersOfOneID(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	both := func(id, claims string) {
		key := events.Job{Session: "s1", ID: id}
		require.NoError(t, s.facts.Accept(t.Context(), key, events.Accepted{Kind: "task.run", Owner: "eve", Subject: "staging.task.run.eve", StreamSeq: 1, MaxAttempts: 3}))
		_, err := s.facts.Claim(t.Context(), key, events.Claimed{Worker: "w1", Attempt: 1, StreamSeq: 2, Origin: 2, Owner: claims}, 0)
		require.NoError(t, err)
	}
	both("j1", "ann")
	both("j2", "")
	for _, q := range []struct {
		who, job string
		sees     bool
	}{{"ann", "j1", true}, {"eve", "j1", false}, {"ann", "j2", false}, {"eve", "j2", false}, {"", "j1", true}, {"", "j2", true}} {
		for _, subject := range []string{query.JobGet, query.JobWhy, query.JobCancel} {
			reply, refused := s.requestAs(q.who, subject, fmt.Sprintf(`{"session":"s1","job":%q}`, q.job))
			require.Equal(t, q.sees, refused == nil, "%s of %s for %q", subject, q.job, q.who)
			if q.sees && subject == query.JobGet && q.job == "j1" {
				require.Contains(t, reply, `"owner":"ann"`)
			}
		}
	}
}

// What is about all owners is for operators.
func TestOwnersAskNothingAboutAll(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, subject := range []string{query.Stats, query.Reconcile, query.Doctor} {
		_, refused := s.requestAs("ann", subject, `{}`)
		require.Equal(t, &query.Error{Code: query.CodeForbidden, Description: "the answer is about all owners: ask without an owner in the subject"}, refused, subject)
	}
	require.Empty(t, s.logged.String())
}

func TestOwnerThatIsNoID(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, who := range []string{"a+b", strings.Repeat("a", 65), "ä"} {
		_, refused := s.requestAs(who, query.SessionList, `{}`)
		require.Equal(t, query.CodeInvalid, refused.Code)
		require.Contains(t, refused.Description, "owner in the subject")
	}
	// No token is no owner, and least of all an operator.
	msg, err := s.asker.Request("staging.api.session.list.", nil, time.Second)
	require.Error(t, err, "%v", msg)
}

// A client that asks as an owner does so with every question.
func TestClientAsks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ofSubject("mine", "task.run.ann", "ann")
	s.ofSubject("his", "task.run.bob", "bob")
	page, err := s.ask.As("ann").Sessions(t.Context(), query.SessionListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 1)
	page, err = s.ask.As("ann").As("").Sessions(t.Context(), query.SessionListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 2)
	_, err = s.ask.As("ann").Stats(t.Context())
	var refused *query.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, query.CodeForbidden, refused.Code)
}
