package jobs

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/wire"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Namespace: "staging"})
	p := NewPublisher(b.pub, "staging")
	r := b.consume(t, ConsumerConfig{Slots: 1})

	run := &Run{Common: Common{Session: "s"}, Argv: []string{"echo"}, Timeout: wire.Duration(time.Minute)}
	got, err := p.Publish(t.Context(), TaskRun, run, PublishOptions{
		Priority: High, Owner: "bob", Header: nats.Header{"Traceparent": {"00-ab"}},
	})
	require.NoError(t, err)
	require.Empty(t, run.ID, "the caller's payload is not changed")
	require.True(t, wire.ValidID(got.Job))
	require.Equal(t, Published{Session: "s", Job: got.Job, Subject: "staging.high.task.run.bob", Stream: "staging_JOBS", StreamSeq: 1}, got)
	h := r.next(t)
	require.NoError(t, h.Err)
	require.Equal(t, got.Job, h.ID)
	require.Equal(t, "bob", h.Owner)
	require.Equal(t, "00-ab", h.Header.Get("Traceparent"))
	require.Equal(t, time.Minute, h.Timeout())
	h.finish(t)

	own, err := p.Publish(t.Context(), TaskRun, &Run{Argv: []string{"echo"}}, PublishOptions{})
	require.NoError(t, err)
	require.Equal(t, own.Job, own.Session)
	r.next(t).finish(t)
}

// Ids are unique in their session: the same id in two sessions is two jobs, in
// one it is the same job.
func TestPublishSameID(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := NewPublisher(b.pub, "")
	pause := func(session string) Published {
		got, err := p.Publish(t.Context(), SandboxPause, &Lifecycle{Common: Common{ID: "pause", Session: session}}, PublishOptions{})
		require.NoError(t, err)
		return got
	}
	require.False(t, pause("a").Duplicate)
	require.False(t, pause("b").Duplicate)
	require.True(t, pause("a").Duplicate)
	require.Equal(t, uint64(2), b.msgs(t, StreamJobs))
}

// A stranger who knows an owner's session and job, and stores a message with the id that
// theirs would have, does not keep the owner's out of the queue.
func TestPublishOfAnOwnerIsNoDuplicate(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.send(t, "task.run.eve", `{"id":"j1","session":"s7","argv":["x"]}`, nats.MsgIdHdr, "s7.j1")
	p := NewPublisher(b.pub, "")
	for n := range 2 { // the workers know that it is one job
		got, err := p.Publish(t.Context(), TaskRun, &Run{Common: Common{ID: "j1", Session: "s7"}, Argv: []string{"y"}}, PublishOptions{Owner: "ann"})
		require.NoError(t, err)
		require.False(t, got.Duplicate)
		require.Equal(t, "j1", got.Job)
		require.Equal(t, uint64(n+2), b.msgs(t, StreamJobs))
	}
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	p := NewPublisher(b.pub, "")
	for name, tc := range map[string]struct {
		kind    Kind
		payload Payload
		owner   string
		pointer string
	}{
		"no command":     {TaskRun, &Run{}, "", ""},
		"bad id":         {TaskRun, &Run{Common: Common{ID: "a b"}, Argv: []string{"a"}}, "", "/id"},
		"long timeout":   {TaskRun, &Run{Argv: []string{"a"}, Timeout: wire.Duration(48 * time.Hour)}, "", "/timeout"},
		"a local path":   {TaskRun, &Run{Argv: []string{"a"}, Repo: &Repo{URL: "file:///r"}}, "", "/repo/url"},
		"bad owner":      {TaskRun, &Run{Argv: []string{"a"}}, "a.b", ""},
		"path":           {FileUpload, &File{Common: Common{Session: "s"}, Path: "../a", Object: "o"}, "", "/path"},
		"another's body": {SandboxPause, &Run{Common: Common{Session: "s"}, Argv: []string{"a"}}, "", "/argv"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := p.Publish(t.Context(), tc.kind, tc.payload, PublishOptions{Owner: tc.owner})
			var bad *Invalid
			require.ErrorAs(t, err, &bad)
			require.Equal(t, tc.pointer, bad.Pointer)
		})
	}
}
