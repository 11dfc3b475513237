package events_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

func TestSetupIsRepeatable(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	require.NoError(t, events.Setup(t.Context(), w.js, s.cfg))
	s.cfg.MaxAge = time.Hour
	require.NoError(t, events.Setup(t.Context(), w.js, s.cfg))
	st, err := w.js.Stream(t.Context(), events.StreamEvents)
	require.NoError(t, err)
	cfg := st.CachedInfo().Config
	require.Equal(t, time.Hour, cfg.MaxAge)
	require.Equal(t, []string{"event.>"}, cfg.Subjects)
	require.Equal(t, 2*time.Minute, cfg.Duplicates)
	require.True(t, cfg.AllowDirect)
	_, err = w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)

	st, err = w.js.Stream(t.Context(), events.StreamAudit)
	require.NoError(t, err)
	_, err = w.js.PublishMsg(t.Context(), nats.NewMsg("audit.x"))
	require.NoError(t, err)
	require.Error(t, st.DeleteMsg(t.Context(), 1), "no record is deleted")
}

func TestSetupRefusesAForeignStream(t *testing.T) {
	t.Parallel()
	s := single(t)
	w := s.join(t)
	cfg := small()
	cfg.Namespace = "other"
	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "theirs", Subjects: []string{"other.event.s1.>"}})
	require.NoError(t, err)
	err = events.Setup(t.Context(), w.js, cfg)
	var foreign *natsx.ForeignError
	require.ErrorAs(t, err, &foreign)
	require.Equal(t, "theirs", foreign.Stream)
	require.ErrorContains(t, err, "other.event.>")
}

// Two namespaces on one server do not see each other.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	s := single(t)
	in := func(ns wire.Namespace) *worker {
		o := *s
		o.cfg.Namespace = ns
		o.setup(t)
		return o.join(t)
	}
	a, b := in("staging"), s.join(t)
	j := job(t)
	c := a.claim(t, j, 0)
	require.NoError(t, c.Publish(t.Context(), events.KindProgress, events.Progress{}))
	h, err := b.log.History(t.Context(), j)
	require.NoError(t, err)
	require.Zero(t, h.Last)
	b.claim(t, j, 0)
	require.NoError(t, c.End(t.Context(), events.Succeeded, events.Outcome{}))
	all, err := read(t.Context(), a.log, j, events.FollowOptions{})
	require.NoError(t, err)
	require.Len(t, all, 3)

	_, err = a.log.PutSession(t.Context(), session.Record{Session: j.Session, State: session.Active}, 0)
	require.NoError(t, err)
	_, _, err = b.log.Session(t.Context(), j.Session)
	require.ErrorIs(t, err, events.ErrNotFound)
	require.Len(t, last(t, a, j.Session[:1], 1), 1)
	wishes := make(chan wish, 1)
	require.NoError(t, a.log.WatchCancels(t.Context(), func(j events.Job, c events.CancelRequested) { wishes <- wish{j, c} }))
	require.NoError(t, a.log.Cancel(t.Context(), j, events.CancelRequested{}))
	require.Equal(t, j, one(t, wishes, "the wish").job)
}
