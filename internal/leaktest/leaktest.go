// Package leaktest finds goroutines that tests leave behind. It is for tests only.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the tests: goleak itself
// waits for less than half a second, and a busy machine stands still for longer.
const patience = 30 * time.Second

// Main runs a package's tests and ends the process. With tests that passed it fails if
// goroutines are left after cleanup, which may be nil. Those with one of the ignored
// functions in their stack may go on.
func Main(m *testing.M, cleanup func(), ignored ...string) {
	code := m.Run()
	if cleanup != nil {
		cleanup()
	}
	if code == 0 {
		if err := Find(ignored...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find returns an error that shows the goroutines that have not ended for a while.
func Find(ignored ...string) (err error) { return find(patience, ignored...) }

func find(patience time.Duration, ignored ...string) (err error) {
	var opts []goleak.Option
	for _, f := range ignored {
		opts = append(opts, goleak.IgnoreAnyFunction(f))
	}
	for deadline := time.Now().Add(patience); ; {
		if err = goleak.Find(opts...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
