package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// again runs the tests that failed once more, each alone. ok says that all of
// them passed.
func (r *report) again(ctx context.Context, argv []string) (ok bool, err error) {
	failed := slices.SortedFunc(maps.Keys(r.failures), func(a, b failure) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.test, b.test))
	})
	ok = true
	for _, f := range failed {
		fmt.Fprintf(r.w, "again, alone: %s %s\n", f.pkg, f.test)
		one := newReport(r.w)
		passed, err := one.follow(ctx, only(argv, f))
		if err != nil {
			return false, err
		}
		one.flushAll()
		r.final = r.final || one.final
		if !passed || one.passed == 0 {
			ok = false
			continue
		}
		r.passed += one.passed
		r.unsteady = append(r.unsteady, f)
		delete(r.failures, f)
	}
	return ok, nil
}

// only is the command line for one test: the same flags, another -run, the
// test's package in place of those that were given.
func only(argv []string, f failure) []string {
	out := slices.Clone(argv[:3]) // go test -json
	for _, arg := range argv[3:] {
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "-run=") {
			out = append(out, arg)
		}
	}
	return append(out, "-run=^"+f.test+"$", f.pkg)
}
