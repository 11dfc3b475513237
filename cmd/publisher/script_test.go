package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// asPublisher makes the test binary be the publisher: tests that need a real
// process with a terminal start it with this variable set.
const asPublisher = "SANDJET_TEST_AS_PUBLISHER"

func TestMain(m *testing.M) {
	if os.Getenv(asPublisher) != "" {
		os.Exit(run())
	}
	testscript.Main(m, map[string]func(){
		"publisher": func() { os.Exit(run()) },
	})
}

// TestScripts runs one script a behaviour. Beside testscript's own commands
// they may use:
//
//	exits N cmd args...   run cmd, which must exit with code N
//	nats [-bare]          start NATS for this script, -bare without our streams
//	worker [DIR]          take the jobs of this script's NATS and run them here;
//	                      DIR stands for the sandbox's disk
//	queued N              JOBS must hold N jobs
//	history S J FILE      write a job's events as a worker would, see history.go
//	objects N             the object bucket must hold N objects
//
//	stack                 use the whole deployment that scripts share, see whole
func TestScripts(t *testing.T) {
	t.Parallel()
	w := new(whole)
	t.Cleanup(w.stop)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(10 * time.Minute), // a script that hangs fails, not the package
		Setup: func(env *testscript.Env) error {
			// Nobody listens on port 1: without "nats" a script has none.
			env.Setenv("NATS_URL", "nats://127.0.0.1:1")
			env.Setenv("NO_COLOR", "")
			env.Values[deploymentKey{}] = new(*deployment)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"nats":    startNATS,
			"worker":  startWorker,
			"queued":  queued,
			"history": playHistory,
			"objects": objects,
			"stack":   w.use,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N cmd args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\nstderr: %s", got, want, ts.ReadFile("stderr"))
	}
}

// TestScriptsAreSpecific keeps a script from testing nothing: each must look at
// what was printed or at an exit code.
func TestScriptsAreSpecific(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Regexp(t, `(?m)^(exits|! ?exec|! ?std|stdout|stderr|cmp)`, string(b), f)
		require.Regexp(t, `^# \S`, string(b), "%s does not begin with what it specifies", f)
	}
}
