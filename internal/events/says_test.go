package events

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

func TestSays(t *testing.T) {
	t.Parallel()
	seven := 7
	for _, c := range []struct {
		kind    Kind
		payload any
		want    string
	}{
		{KindAccepted, Accepted{Kind: "task.run", Owner: "bot"}, "task.run accepted, of bot"},
		{KindWaiting, Waiting{Why: WaitLane, Ahead: 2}, "waits for an earlier job of the session (2 ahead)"},
		{KindWaiting, Waiting{Why: WaitDelay, Until: time.Unix(0, 0)}, "waits for its time to come, until 1970-01-01T00:00:00Z at the latest"},
		{KindWaiting, Waiting{Why: "weather"}, "waits for weather"},
		{KindClaimed, Claimed{Worker: "w1", Attempt: 1}, "worker w1 claimed it for attempt 1"},
		{KindClaimed, Claimed{Worker: "w2", Attempt: 1, Takeover: true, Crashes: 1}, "worker w2 took it over in attempt 1 after its holder vanished (1 crashes in a row)"},
		{KindStarted, Started{Attempt: 1, SandboxID: "box", Argv: []string{"echo", "hi"}}, "attempt 1 started, in sandbox box, running echo hi"},
		{KindStep, Step{Name: "push", State: StepDone, Detail: "main"}, "step push done, main"},
		{KindProgress, Progress{Percent: 12.5, Message: "half way"}, "12.5% done, half way"},
		{KindProgress, Progress{Message: "still here"}, "progress, still here"},
		{KindReattached, Reattached{Worker: "w", Attempt: 1, StdoutOffset: 5}, "worker w joined the running command of attempt 1 at byte 5 of stdout and 0 of stderr"},
		{KindRetrying, Retrying{Class: "transport", Reason: "stream cut", Attempt: 1, Delay: wire.Duration(time.Second)}, "attempt 1 failed (transport), stream cut, tried again in 1s"},
		{KindInterrupted, Interrupted{Worker: "w", Reason: "shutdown"}, "worker w let go of the job, shutdown"},
		{KindCancelRequested, CancelRequested{By: "me"}, "cancel asked for, by me"},
		{Succeeded, Outcome{Class: "ok", DurationMS: 1500, Attempts: 1}, "succeeded, after 1.5s"},
		{Failed, Outcome{Class: "command_failed", ExitCode: &seven, DurationMS: 10, Attempts: 3}, "failed (command_failed), exit code 7, after 10ms and 3 attempts"},
		{Cancelled, Outcome{Class: "cancelled", Signal: "TERM"}, "cancelled, by signal TERM, after 0s"},
		{Dead, Outcome{Class: "invalid", Reason: "no argv"}, "given up for dead (invalid), no argv, after 0s"},
		{SessionState, session.Record{State: session.Paused, Reason: "idle"}, "session is paused, idle"},
		{"later", struct{}{}, "later"},
	} {
		data, err := json.Marshal(c.payload)
		require.NoError(t, err)
		require.Equal(t, c.want, Says(Event{Kind: c.kind, Data: data}))
	}
	require.Equal(t, "stdout up to byte 12", Says(Event{Kind: Stdout, Offset: 10, Data: []byte("ab")}))
	require.Equal(t, "failed, with a payload that cannot be read", Says(Event{Kind: Failed, Data: []byte("{")}))
	require.Equal(t, "cancel asked for", Says(Event{Kind: KindCancelRequested}))
}
