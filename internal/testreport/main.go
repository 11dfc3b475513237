// Command testreport runs "go test", prints what it says as it says it, and
// ends by naming what was not tested: the tests that were skipped and why, and
// the real programs that this machine lacks.
//
//	go run ./internal/testreport go test ./...
//
// It exits as go test does. With REQUIRE_REAL=1 a missing program is a failure
// before any test runs. With AGAIN=N up to N tests that failed in a crowd are
// run once more, alone; what passes then is named as unsteady and does not fail
// the run. A data race, a panic, a timeout, a build that fails and a go test that is
// ended from outside are final.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
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
	again, err := strconv.Atoi(cmp.Or(os.Getenv("AGAIN"), "0"))
	if err != nil {
		return 2, fmt.Errorf("AGAIN: want a number of tests")
	}
	argv = slices.Insert(slices.Clone(argv), 2, "-json")
	r := newReport(w)
	ok, err := r.follow(ctx, argv)
	if err != nil {
		return 1, err
	}
	if !ok && len(r.failures) > 0 && len(r.failures) <= again && !r.final {
		ok, err = r.again(ctx, argv)
	}
	r.close()
	printMissing(w, missing)
	if err != nil || !ok || r.final {
		return 1, err
	}
	return 0, nil
}

// follow runs one command line to its end and reports what it prints. ok says
// that it ended well.
func (r *report) follow(ctx context.Context, argv []string) (ok bool, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	readErr := r.read(out)
	runErr := cmd.Wait()
	var exit *exec.ExitError
	if len(r.open) > 0 || runErr != nil && !(errors.As(runErr, &exit) && exit.ExitCode() == 1) {
		r.final = true // go test itself was ended: what it had not come to is not known
		fmt.Fprintf(r.w, "go test ended early: %v; not finished: %s\n", runErr, strings.Join(sortedKeys(r.open), " "))
	}
	return runErr == nil, readErr
}
