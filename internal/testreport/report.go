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
	w       io.Writer
	failed  bool
	passed  int
	broken  int
	pending map[string][]string // output of tests that have not ended, by package and test
	skipped map[string][]string // tests by the reason they gave
}

func newReport(w io.Writer) *report {
	return &report{w: w, pending: map[string][]string{}, skipped: map[string][]string{}}
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
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "build-fail":
		r.failed = true
	case "output":
		r.output(key, e)
	case "fail":
		r.failed = true
		if e.Test != "" {
			r.broken++
		}
		r.flush(key)
	case "skip":
		if e.Test != "" {
			reason := skipReason(r.pending[key])
			r.skipped[reason] = append(r.skipped[reason], e.Test)
		}
		delete(r.pending, key)
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		delete(r.pending, key)
	}
}

// output keeps a test's lines until it is known whether it fails; a package's
// own lines go out at once, but for a bare PASS and the like.
func (r *report) output(key string, e event) {
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
	for _, key := range sortedKeys(r.pending) {
		if r.failed {
			r.flush(key)
		}
	}
	n := 0
	for _, tests := range r.skipped {
		n += len(tests)
	}
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped\n", r.passed, r.broken, n)
	for _, reason := range sortedKeys(r.skipped) {
		tests := r.skipped[reason]
		fmt.Fprintf(r.w, "  SKIPPED %s: %s\n", reason, strings.Join(tests, " "))
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
