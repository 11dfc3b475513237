package query

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/wire"
)

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// serve answers one question with the micro framework, as a worker does.
func serve(t *testing.T, nc *nats.Conn, subject string, h micro.HandlerFunc) {
	t.Helper()
	svc, err := micro.AddService(nc, micro.Config{Name: ServiceName, Version: "0.0.0"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = svc.Stop() })
	require.NoError(t, svc.AddEndpoint("q", h, micro.WithEndpointSubject(subject)))
	require.NoError(t, nc.Flush())
}

// Each method must ask its own subject, with its own request, in its namespace.
func TestEveryQuestionHasItsSubject(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	c := NewClient(nc, wire.Namespace("staging"), time.Minute)
	job := JobRequest{Session: "s", Job: "j", Owner: "o"}
	questions := []struct {
		subject string
		request any
		ask     func(ctx context.Context) error
	}{
		{SessionGet, SessionRequest{Session: "s"}, func(ctx context.Context) error {
			_, err := c.Session(ctx, SessionRequest{Session: "s"})
			return err
		}},
		{SessionList, SessionListRequest{State: "paused", Limit: 3}, func(ctx context.Context) error {
			_, err := c.Sessions(ctx, SessionListRequest{State: "paused", Limit: 3})
			return err
		}},
		{SessionStatus, SessionRequest{Session: "s"}, func(ctx context.Context) error {
			_, err := c.SessionStatus(ctx, SessionRequest{Session: "s"})
			return err
		}},
		{JobGet, job, func(ctx context.Context) error { _, err := c.Job(ctx, job); return err }},
		{JobList, JobListRequest{Kind: "task.run"}, func(ctx context.Context) error {
			_, err := c.Jobs(ctx, JobListRequest{Kind: "task.run"})
			return err
		}},
		{JobCancel, JobCancelRequest{JobRequest: job, Reason: "r"}, func(ctx context.Context) error {
			_, err := c.Cancel(ctx, JobCancelRequest{JobRequest: job, Reason: "r"})
			return err
		}},
		{JobWhy, job, func(ctx context.Context) error { _, err := c.Why(ctx, job); return err }},
		{DeadList, DeadListRequest{Class: "auth"}, func(ctx context.Context) error {
			_, err := c.DeadLetters(ctx, DeadListRequest{Class: "auth"})
			return err
		}},
		{DeadGet, DeadRequest{Seq: 7}, func(ctx context.Context) error { _, err := c.DeadLetter(ctx, DeadRequest{Seq: 7}); return err }},
		{DeadReplay, DeadRequest{Seq: 7}, func(ctx context.Context) error { _, err := c.Replay(ctx, DeadRequest{Seq: 7}); return err }},
		{DeadDiscard, DeadRequest{Seq: 7}, func(ctx context.Context) error { _, err := c.Discard(ctx, DeadRequest{Seq: 7}); return err }},
		{Reconcile, ReconcileRequest{DryRun: true}, func(ctx context.Context) error {
			_, err := c.Reconcile(ctx, ReconcileRequest{DryRun: true})
			return err
		}},
		{Doctor, struct{}{}, func(ctx context.Context) error { _, err := c.Doctor(ctx); return err }},
		{Stats, struct{}{}, func(ctx context.Context) error { _, err := c.Stats(ctx); return err }},
	}
	require.Len(t, questions, reflect.TypeFor[*Client]().NumMethod()-1, "a question without a test")
	everything := c
	for _, owner := range []string{"", "ann"} {
		c = everything.As(owner)
		for _, q := range questions {
			subject := "staging." + q.subject
			if owner != "" {
				subject += "." + owner
			}
			t.Run(subject, func(t *testing.T) {
				got := make(chan []byte, 1)
				serve(t, nc, subject, func(r micro.Request) {
					got <- r.Data()
					_ = r.Respond([]byte(`{}`))
				})
				require.NoError(t, q.ask(t.Context()))
				want, err := json.Marshal(q.request)
				require.NoError(t, err)
				require.JSONEq(t, string(want), string(<-got))
			})
		}
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	serve(t, nc, SessionGet, func(r micro.Request) {
		_ = r.Respond([]byte(`{"session":"s1","state":"paused","generation":2,"of_a_newer_worker":true}`))
	})
	rec, err := NewClient(nc, "", 0).Session(t.Context(), SessionRequest{Session: "s1"})
	require.NoError(t, err)
	require.Equal(t, session.Record{Session: "s1", State: session.Paused, Generation: 2}, rec)
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	serve(t, nc, JobGet, func(r micro.Request) {
		_ = r.Error(CodeNotFound, `no job "j9"`, nil)
	})
	_, err := NewClient(nc, "", 0).Job(t.Context(), JobRequest{Job: "j9"})
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, Error{Code: CodeNotFound, Description: `no job "j9"`}, *refused)
	require.EqualError(t, err, `no job "j9"`)
	require.True(t, IsNotFound(err))
	require.False(t, IsConflict(err))
}

func TestNoWorker(t *testing.T) {
	t.Parallel()
	_, err := NewClient(connect(t), "staging", 0).Stats(t.Context())
	require.ErrorIs(t, err, ErrNoWorker)
	require.EqualError(t, err, "no worker answers on staging.api.stats: start one, or check --server and --namespace")
}

func TestSilentWorker(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	serve(t, nc, Stats, func(micro.Request) {})
	_, err := NewClient(nc, "", 20*time.Millisecond).Stats(t.Context())
	require.ErrorIs(t, err, ErrTimeout)
}

func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	serve(t, nc, Stats, func(micro.Request) { cancel() })
	_, err := NewClient(nc, "", time.Minute).Stats(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrTimeout)
}

func TestNonsenseAnswer(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	serve(t, nc, Stats, func(r micro.Request) { _ = r.Respond([]byte("<html>")) })
	_, err := NewClient(nc, "", 0).Stats(t.Context())
	require.ErrorContains(t, err, "api.stats: decode answer")
}
