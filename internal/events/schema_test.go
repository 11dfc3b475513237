package events_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/schemas"
	"github.com/sandjet/sandjet/schemas/schematest"
)

// payloads are the kinds of event whose payload is JSON.
var payloads = map[events.Kind]func(testing.TB, *schemas.Schema){
	events.KindAccepted:        schematest.Written[events.Accepted],
	events.KindWaiting:         schematest.Written[events.Waiting],
	events.KindClaimed:         schematest.Written[events.Claimed],
	events.KindStarted:         schematest.Written[events.Started],
	events.KindStep:            schematest.Written[events.Step],
	events.KindProgress:        schematest.Written[events.Progress],
	events.KindReattached:      schematest.Written[events.Reattached],
	events.KindRetrying:        schematest.Written[events.Retrying],
	events.KindInterrupted:     schematest.Written[events.Interrupted],
	events.KindCancelRequested: schematest.Written[events.CancelRequested],
	events.Succeeded:           schematest.Written[events.Outcome],
	events.Failed:              schematest.Written[events.Outcome],
	events.Cancelled:           schematest.Written[events.Outcome],
	events.Dead:                schematest.Written[events.Outcome],
	events.SessionState:        schematest.Written[session.Record],
}

// An event's Go type and its schema have the same fields of the same types,
// what Go always writes is required, and the examples pass through the type.
func TestPayloadsAgreeWithSchemas(t *testing.T) {
	t.Parallel()
	for kind, agree := range payloads {
		s, ok := schemas.Event(string(kind))
		require.True(t, ok, "%s has no schema", kind)
		agree(t, s)
	}
}

func TestEveryEventSchemaHasAKind(t *testing.T) {
	t.Parallel()
	for _, name := range schemas.Names() {
		if kind, ok := strings.CutPrefix(name, "events/"); ok {
			require.Contains(t, payloads, events.Kind(strings.TrimPrefix(kind, "session.")))
		}
	}
	for _, kind := range events.Kinds() {
		_, ok := schemas.Event(string(kind))
		isOutput := kind == events.Stdout || kind == events.Stderr // bytes, not JSON
		require.Equal(t, !isOutput, ok, kind)
	}
}

// What Go fills in is valid as Go writes it, up to the edges of the types.
func TestFilledPayloadsAreValid(t *testing.T) {
	t.Parallel()
	now := time.Now()
	code := 137
	type value struct {
		kind    events.Kind
		payload any
	}
	values := []value{
		{events.KindAccepted, events.Accepted{
			Kind: "task.run", Owner: "o", Subject: "task.run.o", StreamSeq: math.MaxUint64, Exclusive: true, Unique: "k",
			MaxAttempts: 3, Labels: map[string]string{"a": "b"}, PublishedAt: now, ExpiresAt: now, RunAfter: now,
		}},
		{events.KindClaimed, events.Claimed{Worker: "w", Attempt: 1, StreamSeq: 1, Origin: 1, Owner: "o", Previous: 1, Takeover: true, Crashes: 1}},
		{events.KindStarted, events.Started{Attempt: 1, SandboxID: "i", Generation: 1, Argv: []string{"a"}, Cwd: "/", StdoutOffset: math.MaxInt64}},
		{events.KindStep, events.Step{Name: "clone", State: events.StepBegun}},
		{events.KindStep, events.Step{Name: "pull_request", State: events.StepDone, Detail: "7"}},
		{events.KindProgress, events.Progress{Percent: 99.9, Message: "m"}},
		{events.KindProgress, events.Progress{}},
		{events.KindReattached, events.Reattached{Attempt: 1, Worker: "w", StdoutOffset: 1}},
		{events.KindRetrying, events.Retrying{Class: "transport", Reason: "r", Attempt: 1, Delay: wire.Duration(1234567)}},
		{events.KindInterrupted, events.Interrupted{Worker: "w", Reason: "r"}},
		{events.KindCancelRequested, events.CancelRequested{}},
		{events.Failed, events.Outcome{Class: "command_failed", ExitCode: &code, Signal: "SIGKILL", Attempts: 1, DurationMS: 1}},
	}
	for _, why := range []string{
		events.WaitLane, events.WaitQuota, events.WaitRate, events.WaitBreaker, events.WaitRemote, events.WaitDelay, events.WaitTransition, events.WaitVersion,
	} {
		values = append(values, value{events.KindWaiting, events.Waiting{Why: why, Ahead: 1, Since: now, Until: now, Rescheduled: true}})
	}
	for _, state := range session.States() {
		values = append(values, value{events.SessionState, session.Record{
			Session: "s1", State: state, Generation: 1, CreatedAt: now, UpdatedAt: now, IdleTimeout: wire.Duration(time.Minute), Deadline: now,
		}})
	}
	for _, v := range values {
		s, _ := schemas.Event(string(v.kind))
		require.NoError(t, schematest.Valid(s, v.payload), v.kind)
	}
}

// WaitUnique is a reason that is never published: the second job of a key ends.
func TestUniqueIsNoReasonToWait(t *testing.T) {
	t.Parallel()
	s, _ := schemas.Event(string(events.KindWaiting))
	require.Error(t, schematest.Valid(s, events.Waiting{Why: events.WaitUnique}))
}
