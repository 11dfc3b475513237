package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
)

// What nats micro ls, info and ping ask.
func TestMicro(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	verb := func(verb micro.Verb, into any) {
		t.Helper()
		subject, err := micro.ControlSubject(verb, query.ServiceName, "")
		require.NoError(t, err)
		msg, err := s.asker.Request(subject, nil, patience)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(msg.Data, into))
	}
	var ping micro.Ping
	verb(micro.PingVerb, &ping)
	require.Equal(t, "sandjet", ping.Name)
	require.Equal(t, "1.2.3", ping.Version)
	require.Equal(t, map[string]string{"worker": "w1", "namespace": "staging"}, ping.Metadata)

	var info micro.Info
	verb(micro.InfoVerb, &info)
	require.NotEmpty(t, info.Description)
	endpoints := map[string]string{}
	var names []string
	for _, e := range info.Endpoints {
		endpoints[e.Subject] = e.Name
		names = append(names, e.Name)
	}
	want := map[string]string{
		"staging.api.session.get": "session-get", "staging.api.session.list": "session-list", "staging.api.session.status": "session-status",
		"staging.api.job.get": "job-get", "staging.api.job.list": "job-list", "staging.api.job.cancel": "job-cancel", "staging.api.job.why": "job-why",
		"staging.api.dead.list": "dead-list", "staging.api.dead.get": "dead-get", "staging.api.dead.replay": "dead-replay",
		"staging.api.dead.discard": "dead-discard", "staging.api.stats": "stats",
		"staging.api.reconcile": "reconcile", "staging.api.doctor": "doctor",
	}
	for subject, name := range maps.Clone(want) {
		want[subject+".*"] = name + "-owner"
	}
	require.Equal(t, want, endpoints)
	require.IsIncreasing(t, names, "the same order in every worker")

	s.answered(query.Stats, ``)
	var stats micro.Stats
	verb(micro.StatsVerb, &stats)
	require.Len(t, stats.Endpoints, 28)
}

func TestBadQuestions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, test := range []struct{ subject, body, want string }{
		{query.SessionGet, ``, "session"},
		{query.SessionGet, `{}`, "session"},
		{query.SessionGet, `{"session":"a b"}`, "/session"},
		{query.SessionGet, `{"session":7}`, "/session"},
		{query.SessionGet, `{"sesion":"s1"}`, "/sesion"},
		{query.SessionGet, `{"session":"s1","more":1}`, "/more"},
		{query.SessionGet, `{"session":"s1"`, "JSON"},
		{query.SessionGet, `null`, "object"},
		{query.SessionGet, `[]`, "object"},
		{query.JobCancel, `{"job":"j1","reason":7}`, "/reason"},
		{query.JobGet, `{"job":"session"}`, "/job"},
		{query.JobList, `{"limit":0}`, "/limit"},
		{query.DeadGet, `{"seq":-1}`, "/seq"},
		{query.DeadGet, `{"seq":1.5}`, "/seq"},
		{query.Stats, `{"all":true}`, "/all"},
	} {
		require.Contains(t, s.refused(test.subject, test.body, "400"), test.want, "%s %s", test.subject, test.body)
	}
	for _, empty := range []string{``, ` `, "\n", `{}`} {
		s.answered(query.Stats, empty)
	}
	_, err := s.ask.Session(t.Context(), query.SessionRequest{Session: "a b"})
	var refused *query.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, query.CodeInvalid, refused.Code)
	require.Empty(t, s.logged.String(), "another's fault is no news for an operator")
}

// Several workers share the questions: one answers each.
func TestOneAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.serve(s.connect(), func(svc *ops.Service) { svc.Worker = "w2" })
	inbox, err := s.asker.SubscribeSync(nats.NewInbox())
	require.NoError(t, err)
	const n = 50
	for range n {
		require.NoError(t, s.asker.PublishRequest("staging.api.stats", inbox.Subject, nil))
	}
	by := map[string]int{}
	for range n {
		msg, err := inbox.NextMsg(patience)
		require.NoError(t, err)
		var got query.StatsReply
		require.NoError(t, json.Unmarshal(msg.Data, &got))
		by[got.Worker]++
	}
	require.Len(t, by, 2, "both take part")
	// Whoever answered twice has done so before it answers this.
	s.stop()
	s.answered(query.Stats, ``)
	pending, _, err := inbox.Pending()
	require.NoError(t, err)
	require.Zero(t, pending)
}

// gate is a sandbox that answers when the test lets it.
type gate struct {
	asked chan struct{}
	open  chan struct{}
	cut   atomic.Int32
}

func (g *gate) serve(svc *ops.Service) {
	svc.Sandbox = func(ctx context.Context, id string) (*query.Sandbox, error) {
		g.asked <- struct{}{}
		select {
		case <-g.open:
			return &query.Sandbox{ID: id, State: "running"}, nil
		case <-ctx.Done():
			g.cut.Add(1)
			return nil, ctx.Err()
		}
	}
}

// isAsked waits until the sandbox is asked for.
func (g *gate) isAsked(t *testing.T) {
	t.Helper()
	select {
	case <-g.asked:
	case <-time.After(patience):
		t.Fatal("nobody asks for the sandbox")
	}
}

func newGate() *gate { return &gate{asked: make(chan struct{}, 1000), open: make(chan struct{})} }

func TestSlowAnswersBlockNoOthers(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := newSite(t, g.serve)
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 1, SandboxID: "i1"})
	inbox, err := s.asker.SubscribeSync(nats.NewInbox())
	require.NoError(t, err)
	const n = 100 // more than are answered at once
	begun := time.Now()
	for range n {
		require.NoError(t, s.asker.PublishRequest("staging.api.session.status", inbox.Subject, []byte(`{"session":"s1"}`)))
	}
	g.isAsked(t)
	g.isAsked(t) // of one question too, several are answered at once
	s.answered(query.SessionGet, `{"session":"s1"}`)
	s.answered(query.Stats, ``)
	close(g.open)
	inTime := time.Since(begun) < 4*time.Second // else the sandbox may have been given up
	for range n {
		msg, err := inbox.NextMsg(patience)
		require.NoError(t, err)
		if inTime {
			require.Contains(t, string(msg.Data), `"state":"running"`)
		}
	}
}

func TestStopWaitsForAnswersUnderWay(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := newSite(t, g.serve)
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 1, SandboxID: "i1"})
	inbox, err := s.asker.SubscribeSync(nats.NewInbox())
	require.NoError(t, err)
	require.NoError(t, s.asker.PublishRequest("staging.api.session.status", inbox.Subject, []byte(`{"session":"s1"}`)))
	g.isAsked(t)
	begun := time.Now()
	stopped := make(chan struct{})
	var both sync.WaitGroup
	for range 2 { // twice is once
		both.Go(s.stop)
	}
	go func() { both.Wait(); close(stopped) }()

	require.Eventually(t, func() bool {
		_, err := s.ask.Stats(t.Context())
		return errors.Is(err, query.ErrNoWorker)
	}, patience, 5*time.Millisecond, "no more questions are taken")
	early := false
	select {
	case <-stopped:
		early = true
	default:
	}
	close(g.open)
	inTime := time.Since(begun) < 4*time.Second // else it may have waited for long enough
	require.False(t, inTime && early, "stopped before the answer was made")
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("it does not stop")
	}
	msg, err := inbox.NextMsg(patience)
	require.NoError(t, err)
	if inTime {
		require.Contains(t, string(msg.Data), `"state":"running"`)
		require.Zero(t, g.cut.Load())
	}
	s.stop()
}

// What hangs does not hold up a stop for ever, and whoever asked hears of it.
func TestStopCutsWhatHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(svc *ops.Service) {
		svc.Sandbox = func(ctx context.Context, _ string) (*query.Sandbox, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 1, SandboxID: "i1"})
	inbox, err := s.asker.SubscribeSync(nats.NewInbox())
	require.NoError(t, err)
	for range 40 { // some wait for room
		require.NoError(t, s.asker.PublishRequest("staging.api.session.status", inbox.Subject, []byte(`{"session":"s1"}`)))
	}
	require.NoError(t, s.asker.Flush())
	s.stop()
	for range 40 {
		_, err := inbox.NextMsg(patience)
		require.NoError(t, err)
	}
}

// A question without a reply subject is a wish: nats pub api.job.cancel.
func TestQuestionWithoutAReply(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.NoError(t, s.asker.Publish("staging.api.job.cancel", []byte(`{"session":"s1","job":"j1"}`)))
	require.NoError(t, s.asker.Publish("staging.api.job.cancel", []byte(`nonsense`)))
	require.Eventually(t, func() bool {
		h, err := s.facts.History(t.Context(), events.Job{Session: "s1", ID: "j1"})
		return err == nil && h.Cancel.OK()
	}, patience, 10*time.Millisecond)
	s.answered(query.Stats, ``)
	require.Empty(t, s.logged.String())
}

func TestAPanicIsOneQuestionsError(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(svc *ops.Service) {
		svc.Sandbox = func(context.Context, string) (*query.Sandbox, error) { panic("oh\r\nno") }
	})
	s.session(session.Record{Session: "s1", State: session.Active, Generation: 1, SandboxID: "i1"})
	require.Equal(t, "panic: oh no", s.refused(query.SessionStatus, `{"session":"s1"}`, "500"))
	require.Contains(t, s.logged.String(), "question not answered")
	s.answered(query.Stats, ``)
}

// A stream that an operator deleted is trouble, and said as such.
func TestWithoutAStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.NoError(t, s.js.DeleteStream(t.Context(), "staging_JOBS"))
	require.Contains(t, s.refused(query.Stats, ``, "500"), jetstream.ErrStreamNotFound.Error())
	require.Contains(t, s.logged.String(), "question not answered")
}

func TestVersionThatIsNone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, err := (&ops.Service{Version: "of today"}).Start(s.connect())
	require.ErrorContains(t, err, "micro service")
}
