// Command testreport runs "go test", prints what it says as it says it, and
// ends by naming what was not tested: the tests that were skipped and why, and
// the real programs that this machine lacks.
//
//	go run ./internal/testreport go test ./...
//
// It exits as go test does. With REQUIRE_REAL=1 a missing program is a failure
// before any test runs.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: testreport go test [flags] [packages]")
		os.Exit(2)
	}
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	os.Exit(code)
}

// run runs the command line with -json and reports to w. The code is the one
// to exit with.
func run(argv []string, w io.Writer) (int, error) {
	missing := missingParts(exec.LookPath)
	if len(missing) > 0 && os.Getenv("REQUIRE_REAL") != "" {
		printMissing(w, missing)
		return 1, fmt.Errorf("REQUIRE_REAL is set and %d real parts are missing", len(missing))
	}
	argv = slices.Insert(slices.Clone(argv), 2, "-json")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	r := newReport(w)
	readErr := r.read(out)
	runErr := cmd.Wait()
	r.close()
	printMissing(w, missing)
	switch {
	case readErr != nil:
		return 1, readErr
	case runErr != nil:
		return 1, nil // go test has said why
	case r.failed:
		return 1, nil
	}
	return 0, nil
}
