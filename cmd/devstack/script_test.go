package main

import (
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"devstack": func() { os.Exit(run()) }})
}

// TestScripts runs one script a behaviour. Beside testscript's own commands
// they may use:
//
//	await FILE    wait until the file is there
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			env.Setenv("TMPDIR", env.WorkDir+"/.tmp")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"await": await},
	})
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s is not there after a minute", args[0])
		}
		time.Sleep(5 * time.Millisecond)
	}
}
