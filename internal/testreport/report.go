package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	FailedBuild string
}

// report turns the events into go test's plain output (the summary line of
// every package, everything that a failing test printed) and remembers the
// tests that were skipped.
type report struct {
	w        io.Writer
	final    bool // something failed that is no test's own failure
	passed   int
	failures map[failure]int     // top-level tests that failed -> how many with those within
	unsteady []failure           // that passed when they were run again, alone
	ended    map[string]bool     // packages with a failed test
	open     map[string]bool     // packages that were begun and have not ended
	pending  map[string][]string // output of tests that have not ended, by package and test
	skipped  map[string][]string // tests by the reason they gave
}

// failure is a top-level test that failed.
type failure struct{ pkg, test string }

func newReport(w io.Writer) *report {
	return &report{
		w: w, failures: map[failure]int{}, ended: map[string]bool{}, open: map[string]bool{},
		pending: map[string][]string{}, skipped: map[string][]string{},
	}
}

func (r *report) read(src io.Reader) error {
	br := bufio.NewReader(src)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		_, _ = r.w.Write(line)
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "start":
		r.open[e.Package] = true
	case "fail", "skip", "pass":
		if e.Test == "" {
			delete(r.open, e.Package)
		}
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "build-fail":
		r.final = true
	case "output":
		r.output(key, e)
	case "fail":
		r.fail(e)
		r.flush(key)
	case "skip":
		if e.Test != "" {
			reason := skipReason(r.pending[key])
			r.skipped[reason] = append(r.skipped[reason], e.Test)
		}
		r.drop(key)
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		r.drop(key)
	}
}

// fail notes what failed. A package that fails without a failed test, or beside
// one that never ended, has crashed or run out of time.
func (r *report) fail(e event) {
	if e.Test != "" {
		top, _, _ := strings.Cut(e.Test, "/")
		r.failures[failure{e.Package, top}]++
		r.ended[e.Package] = true
		return
	}
	for key := range r.pending {
		if strings.HasPrefix(key, e.Package+" ") {
			r.final = true
		}
	}
	if !r.ended[e.Package] {
		r.final = true
	}
}

// broken is the number of tests that failed, those within others counted too.
func (r *report) broken() (n int) {
	for _, tests := range r.failures {
		n += tests
	}
	return n
}

// output keeps a test's lines until it is known whether it fails; a package's
// own lines go out at once, but for a bare PASS and the like.
func (r *report) output(key string, e event) {
	if grave(e.Output) {
		r.final = true
	}
	if e.Test != "" {
		r.pending[key] = append(r.pending[key], e.Output)
		return
	}
	switch strings.TrimSpace(e.Output) {
	case "PASS", "FAIL", "testing: warning: no tests to run":
		return
	}
	if strings.Contains(e.Output, "[no test files]") {
		return
	}
	fmt.Fprint(r.w, e.Output)
}

// grave says whether a line begins the report of what is wrong with the process,
// whichever test it seems to come from.
func grave(line string) bool {
	return strings.Contains(line, "WARNING: DATA RACE") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// drop forgets what a test that did not fail has printed. A race of others may
// stand in there: go test takes what the process prints for the words of the test
// that spoke last.
func (r *report) drop(key string) {
	if slices.ContainsFunc(r.pending[key], grave) {
		fmt.Fprintf(r.w, "printed during %s, which did not fail:\n", key)
		r.flush(key)
	}
	delete(r.pending, key)
}

func (r *report) flush(key string) {
	for _, s := range r.pending[key] {
		if strings.HasPrefix(s, "=== ") {
			continue // RUN, PAUSE, CONT, NAME
		}
		fmt.Fprint(r.w, s)
	}
	delete(r.pending, key)
}

// close prints the count and what was skipped. What is still pending belongs
// to tests that never ended: a panic, a timeout.
func (r *report) close() {
	r.flushAll()
	n := 0
	for _, tests := range r.skipped {
		n += len(tests)
	}
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped\n", r.passed, r.broken(), n)
	for _, f := range r.unsteady {
		fmt.Fprintf(r.w, "  UNSTEADY failed among the others, passed alone: %s %s\n", f.pkg, f.test)
	}
	for _, reason := range sortedKeys(r.skipped) {
		tests := r.skipped[reason]
		fmt.Fprintf(r.w, "  SKIPPED %s: %s\n", reason, strings.Join(tests, " "))
	}
}

// flushAll prints what tests that never ended have printed.
func (r *report) flushAll() {
	for _, key := range sortedKeys(r.pending) {
		if r.final {
			r.flush(key)
		}
	}
}

// skipReason finds what a test told t.Skip: the last line of its output that
// is not go test's own.
func skipReason(lines []string) string {
	for _, s := range slices.Backward(lines) {
		s = strings.TrimSpace(s)
		if s == "" || strings.HasPrefix(s, "===") || strings.HasPrefix(s, "---") {
			continue
		}
		// "file_test.go:12: reason"
		if _, rest, ok := strings.Cut(s, ".go:"); ok {
			if _, reason, ok := strings.Cut(rest, ": "); ok {
				return reason
			}
		}
		return s
	}
	return "no reason given"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
