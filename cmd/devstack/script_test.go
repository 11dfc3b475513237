package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
//	await FILE      wait until the file is there; FILE may be a pattern
//	api FILE PATH   ask the sandbox server of an env file
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(5 * time.Minute), // a script that hangs fails, not the package
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			env.Setenv("TMPDIR", env.WorkDir+"/.tmp")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"await": await, "api": api},
	})
}

// api prints the answer to GET PATH of the sandbox server whose address and key
// stand in FILE.
func api(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: api FILE PATH")
	}
	vars := make(map[string]string)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		vars[k] = v
	}
	req, err := http.NewRequest(http.MethodGet, vars["E2B_API_URL"]+args[1], nil)
	ts.Check(err)
	req.Header.Set("X-API-Key", vars["E2B_API_KEY"])
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	_, err = io.Copy(ts.Stdout(), res.Body)
	ts.Check(err)
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	deadline := time.Now().Add(time.Minute)
	for {
		if found, err := filepath.Glob(ts.MkAbs(args[0])); err == nil && found != nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s is not there after a minute", args[0])
		}
		time.Sleep(5 * time.Millisecond)
	}
}
