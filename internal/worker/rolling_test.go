package worker_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// A deploy of the whole fleet under a hundred running commands: nothing starts
// again, no attempt is spent, no byte is lost.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const commands, workers, lines = 100, 2, 40
	var fleet []*process
	for i := range workers {
		fleet = append(fleet, w.spawn(fmt.Sprintf("old%d", i), "WORKER_CONCURRENCY=128"))
	}
	beside := false
	var all []events.Job
	for i := range commands {
		all = append(all, w.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{Session: fmt.Sprintf("s%d", i%5), Exclusive: &beside},
			// It runs until it is told that the deploy is over.
			Argv: []string{"sh", "-c", fmt.Sprintf(`echo $$ >>starts-%d; seq 1 %d; until [ -e go ]; do sleep 0.5; done; seq %d %d`, i, lines/2, lines/2+1, lines)},
		}))
	}
	for _, job := range all {
		w.until(job, len(wantLines(lines/2)))
	}
	for i, old := range fleet {
		w.spawn(fmt.Sprintf("new%d", i), "WORKER_CONCURRENCY=128")
		old.Signal(syscall.SIGTERM)
		old.Wait()
	}
	begun := time.Now()
	for i := range 5 {
		w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: fmt.Sprintf("s%d", i), Exclusive: &beside}, Argv: []string{"touch", "go"}})
	}
	joined := 0
	for i, job := range all {
		e := w.follow(job)
		require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		require.Equal(t, wantLines(lines), string(e.Stdout))
		require.Equal(t, 1, e.Attempts)
		require.Equal(t, 1, e.count(events.KindStarted))
		require.Zero(t, e.count(events.KindRetrying))
		joined += min(1, e.count(events.KindReattached))
		if i%20 == 0 {
			starts := w.follow(w.run(job.Session, "sh", "-c", fmt.Sprintf("wc -l <starts-%d", i)))
			require.Equal(t, "1", string(starts.Stdout[:1]))
		}
	}
	require.Equal(t, commands, joined, "every command was joined")
	t.Logf("%d commands, %d workers replaced: 0 restarts, 0 attempts, 0 bytes lost; ends %s after the deploy", commands, workers, time.Since(begun).Round(time.Millisecond))
}
