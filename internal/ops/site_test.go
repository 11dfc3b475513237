package ops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/schemas"
)

// patience is how long tests wait for what must come, on a machine that has much else
// to do.
const patience = 60 * time.Second

// site is what a worker answers from, real: NATS with all streams, and Redis.
type site struct {
	t     *testing.T
	ns    wire.Namespace
	srv   *server.Server
	redis *stack.Redis

	nc     *nats.Conn // of the worker
	js     jetstream.JetStream
	facts  *events.Log
	queue  *jobs.Queue
	jobs   *jobs.Publisher
	view   *store.Store
	logged *logs

	asker *nats.Conn // of whoever asks
	ask   *query.Client
	stop  func()
}

// newSite starts everything and one service. E2B knows the sandbox "i1".
func newSite(t *testing.T, change ...func(*ops.Service)) *site {
	t.Helper()
	s := &site{t: t, ns: "staging", logged: &logs{}}
	var err error
	s.srv, err = stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { s.srv.Shutdown(); s.srv.WaitForShutdown() })
	s.redis, err = stack.StartRedis(stack.RedisOptions{})
	require.NoError(t, err)
	if os.Getenv("REQUIRE_REAL") == "1" {
		require.Equal(t, stack.RedisServer, s.redis.Kind)
	}
	t.Cleanup(func() { _ = s.redis.Stop() })
	s.nc, s.asker = s.connect(), s.connect()
	s.open()
	s.ask = query.NewClient(s.asker, s.ns, patience)
	s.stop = s.serve(s.nc, change...)
	return s
}

func (s *site) connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	require.NoError(s.t, err)
	s.t.Cleanup(nc.Close)
	return nc
}

func (s *site) open() {
	t, ctx := s.t, s.t.Context()
	var err error
	s.js, err = jetstream.New(s.nc)
	require.NoError(t, err)
	pub, err := natsx.NewPublisher(s.nc)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pub.Close() })
	require.NoError(t, events.Setup(ctx, s.js, events.Config{
		Namespace: s.ns, MaxBytes: 64 << 20, SessionBytes: 16 << 20, AuditBytes: 1 << 20, ArtifactBytes: 1 << 20,
	}))
	s.facts, err = events.Open(s.nc, pub, s.ns, "/sandjet/worker/w1")
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.facts.Close() })
	s.queue, err = jobs.Open(s.js, pub, jobs.Config{Namespace: s.ns, JobsMaxBytes: 16 << 20, SchedulesMaxBytes: 16 << 20, DeadMaxBytes: 16 << 20}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, s.queue.Setup(ctx))
	s.jobs = jobs.NewPublisher(pub, s.ns)
	s.view, err = store.Open(ctx, s.redis.URL(), s.ns)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.view.Close() })
}

// serve starts a service on a connection.
func (s *site) serve(nc *nats.Conn, change ...func(*ops.Service)) (stop func()) {
	s.t.Helper()
	svc := &ops.Service{
		Namespace: s.ns, Worker: "w1", Version: "1.2.3", SlotLimit: 20,
		JS: s.js, Facts: s.facts, Queue: s.queue, View: s.view, Sandbox: knows("i1"),
		Log: slog.New(slog.NewTextHandler(s.logged, nil)),
	}
	for _, f := range change {
		f(svc)
	}
	stop, err := svc.Start(nc)
	require.NoError(s.t, err)
	s.t.Cleanup(stop)
	require.NoError(s.t, nc.Flush())
	return stop
}

func knows(id string) func(context.Context, string) (*query.Sandbox, error) {
	return func(_ context.Context, asked string) (*query.Sandbox, error) {
		if asked != id {
			return nil, errors.New("sandbox " + asked + " is not known")
		}
		return &query.Sandbox{ID: id, State: "running", Template: "base", StartedAt: time.Now(), CPUCount: 2}, nil
	}
}

// request asks as nats req does, and holds every answer against its schema.
func (s *site) request(subject, body string) (reply string, refused *query.Error) {
	s.t.Helper()
	return s.requestAs("", subject, body)
}

// requestAs is request with an owner in the subject.
func (s *site) requestAs(who, subject, body string) (reply string, refused *query.Error) {
	s.t.Helper()
	to := s.ns.Subject(subject)
	if who != "" {
		to += "." + who
	}
	msg, err := s.asker.Request(to, []byte(body), patience)
	require.NoError(s.t, err)
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		require.NotEmpty(s.t, msg.Header.Get(micro.ErrorHeader))
		require.Empty(s.t, msg.Data)
		return "", &query.Error{Code: code, Description: msg.Header.Get(micro.ErrorHeader)}
	}
	schema, ok := schemas.Reply(subject)
	require.True(s.t, ok)
	require.NoError(s.t, schema.Validate(msg.Data), "%s %s: %s", subject, body, msg.Data)
	return string(msg.Data), nil
}

// answered asks for an answer.
func (s *site) answered(subject, body string) map[string]any {
	s.t.Helper()
	reply, refused := s.request(subject, body)
	require.Nil(s.t, refused, "%s %s", subject, body)
	var out map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(reply), &out))
	return out
}

// refused asks for a refusal.
func (s *site) refused(subject, body, code string) string {
	s.t.Helper()
	reply, refused := s.request(subject, body)
	require.NotNil(s.t, refused, "%s %s: %s", subject, body, reply)
	require.Equal(s.t, code, refused.Code, refused.Description)
	return refused.Description
}

// session writes a session's record to the stream and to Redis.
func (s *site) session(rec session.Record) session.Record {
	s.t.Helper()
	now := time.Now().UTC()
	rec.CreatedAt, rec.UpdatedAt = now, now
	_, prev, err := s.facts.Session(s.t.Context(), rec.Session)
	if !errors.Is(err, events.ErrNotFound) {
		require.NoError(s.t, err)
	}
	seq, err := s.facts.PutSession(s.t.Context(), rec, prev)
	require.NoError(s.t, err)
	require.NoError(s.t, s.view.PutSession(s.t.Context(), rec, seq))
	return rec
}

// claim takes a job up as a worker does. Its owner is one that its body named.
func (s *site) claim(key events.Job, owner string) *events.Claim {
	s.t.Helper()
	return s.claimOf(key, owner, "task.run")
}

// claimOf takes up a job that was published on a subject.
func (s *site) claimOf(key events.Job, owner, subject string) *events.Claim {
	s.t.Helper()
	ctx := s.t.Context()
	require.NoError(s.t, s.facts.Accept(ctx, key, events.Accepted{
		Kind: "task.run", Owner: owner, Subject: s.ns.Subject(subject), StreamSeq: 1, MaxAttempts: 3, Labels: map[string]string{"team": "core"},
	}))
	c, err := s.facts.Claim(ctx, key, events.Claimed{Worker: "w1", Attempt: 1, StreamSeq: 1, Origin: 1}, 0)
	require.NoError(s.t, err)
	s.show(store.JobView{
		Session: key.Session, Job: key.ID, Seq: c.Token(), Owner: owner, Proven: subject != "task.run", State: "claimed",
	})
	return c
}

func (s *site) show(v store.JobView) {
	s.t.Helper()
	v.Kind = "task.run"
	require.NoError(s.t, s.view.PutJob(s.t.Context(), v))
}

func (s *site) end(c *events.Claim, kind events.Kind, out events.Outcome) {
	s.t.Helper()
	require.NoError(s.t, c.End(s.t.Context(), kind, out))
}

// letter puts a job on the shelf and returns its number there.
func (s *site) letter(session, id string, body string, class jobs.Class) uint64 {
	s.t.Helper()
	return s.letterOf("task.run", session, id, body, class)
}

// letterOf is letter for a job that was published on a subject.
func (s *site) letterOf(subject, session, id string, body string, class jobs.Class) uint64 {
	s.t.Helper()
	j, _ := jobs.Decode(jobs.Raw{
		Subject: s.ns.Subject(subject), Data: []byte(body), Stream: s.ns.Stream(jobs.StreamJobs), StreamSeq: 1, Delivered: 1, Time: time.Now(),
	}, s.ns)
	require.Equal(s.t, id, j.ID)
	require.Equal(s.t, session, j.Session)
	require.NoError(s.t, s.queue.Dead(s.t.Context(), jobs.DeadLetter{Job: j, Class: class, Reason: "it cannot be", Attempts: 1}))
	page, err := s.queue.DeadList(s.t.Context(), jobs.DeadFilter{Limit: 1000})
	require.NoError(s.t, err)
	return page.Letters[len(page.Letters)-1].Seq
}

// logs is what the service logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*logs)(nil)

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (s *site) flushRedis() {
	s.t.Helper()
	opt, err := redis.ParseURL(s.redis.URL())
	require.NoError(s.t, err)
	c := redis.NewClient(opt)
	defer func() { _ = c.Close() }()
	require.NoError(s.t, c.FlushAll(s.t.Context()).Err())
}
