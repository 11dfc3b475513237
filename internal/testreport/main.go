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
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: testreport go test [flags] [packages]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	stop()
	os.Exit(code)
}

// run runs the command line with -json and reports to w. The code is the one
// to exit with.
func run(ctx context.Context, argv []string, w io.Writer) (int, error) {
	missing := missingParts(exec.LookPath)
	if len(missing) > 0 && os.Getenv("REQUIRE_REAL") != "" {
		printMissing(w, missing)
		return 1, fmt.Errorf("REQUIRE_REAL is set and %d real parts are missing", len(missing))
	}
	argv = slices.Insert(slices.Clone(argv), 2, "-json")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
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
	if readErr != nil {
		return 1, readErr
	}
	if runErr != nil || r.failed {
		return 1, nil //nolint:nilerr // go test has said why
	}
	return 0, nil
}
