package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	tests := []struct {
		name    string
		end     ending
		want    int
		explain bool // says a word about it
	}{
		{"success", ending{events.Succeeded, events.Outcome{Class: "ok", ExitCode: code(0)}}, 0, false},
		{"the command's own", ending{events.Failed, events.Outcome{Class: "command_failed", ExitCode: code(7)}}, 7, false},
		{"the command's own 125", ending{events.Failed, events.Outcome{Class: "command_failed", ExitCode: code(125)}}, 125, false},
		{"signal", ending{events.Failed, events.Outcome{Class: "command_failed", ExitCode: code(137), Signal: "SIGKILL"}}, 137, false},
		{"signal without a code", ending{events.Failed, events.Outcome{Class: "command_failed", Signal: "term"}}, 143, true},
		{"unknown signal", ending{events.Failed, events.Outcome{Class: "command_failed", Signal: "SIGWHAT"}}, 137, true},
		{"failed, no code known", ending{events.Failed, events.Outcome{Class: "command_failed"}}, exitNotRun, true},
		{"failed with an impossible 0", ending{events.Failed, events.Outcome{Class: "command_failed", ExitCode: code(0)}}, exitNotRun, false},
		{"code that no exit status holds", ending{events.Failed, events.Outcome{Class: "command_failed", ExitCode: code(256)}}, exitNotRun, false},
		{"timeout", ending{events.Failed, events.Outcome{Class: "command_timeout", ExitCode: code(137)}}, exitTimeout, true},
		{"silence", ending{events.Failed, events.Outcome{Class: "silent_timeout"}}, exitTimeout, true},
		{"expired", ending{events.Failed, events.Outcome{Class: "expired"}}, exitNotRun, true},
		{"cancelled", ending{events.Cancelled, events.Outcome{Class: "cancelled", ExitCode: code(143)}}, exitCancelled, true},
		{"dead", ending{events.Dead, events.Outcome{Class: "invalid"}}, exitNotRun, true},
		{"dead of a command that failed", ending{events.Dead, events.Outcome{Class: "command_failed", ExitCode: code(1)}}, exitNotRun, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := outcome(events.Job{Session: "s1", ID: "j1"}, tt.end)
			if tt.want == 0 {
				require.NoError(t, err)
				return
			}
			var exit *exitCode
			require.ErrorAs(t, err, &exit)
			require.Equal(t, tt.want, exit.code)
			require.Equal(t, tt.explain, exit.err != nil, "explained: %v", exit.err)
		})
	}
}

// No class may end in a code that the command itself could have meant, except
// its own failure.
func TestEveryClassHasACode(t *testing.T) {
	t.Parallel()
	for _, class := range jobs.Classes() {
		for _, kind := range []events.Kind{events.Failed, events.Dead, events.Cancelled} {
			got := codeOf(ending{kind, events.Outcome{Class: string(class)}})
			require.Contains(t, []int{exitTimeout, exitNotRun, exitCancelled}, got, "%s %s", kind, class)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	job := events.Job{Session: "s1", ID: "j1"}
	for want, end := range map[string]ending{
		"job j1 is dead (invalid) at /argv: want one": {events.Dead, events.Outcome{Class: "invalid", Pointer: "/argv", Reason: "want one"}},
		"job j1 failed (expired)":                     {events.Failed, events.Outcome{Class: "expired"}},
		"job j1 was cancelled: by hand":               {events.Cancelled, events.Outcome{Class: "cancelled", Reason: "by hand"}},
	} {
		require.EqualError(t, verdict(job, end), want)
	}
}
