package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The stream of a package with a pass, a failure, a skip and a build failure
// beside it, as go test -json writes it.
const stream = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: chatter of a good test\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:7: redis-server is not on PATH: install it\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
{"Action":"skip","Package":"q"}
{"ImportPath":"r","Action":"build-output","Output":"r.go:1: undefined: x\n"}
{"ImportPath":"r","Action":"build-fail"}
`

func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out)
	require.NoError(t, r.read(strings.NewReader(stream)))
	r.close()
	require.True(t, r.failed)
	require.Equal(t, `    b_test.go:9: got 1, want 2
FAIL	p	0.1s
r.go:1: undefined: x
1 passed, 1 failed, 1 skipped
  SKIPPED redis-server is not on PATH: install it: TestC
`, out.String())
}

func TestReportShowsTestsThatNeverEnded(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out)
	require.NoError(t, r.read(strings.NewReader(
		`{"Action":"output","Package":"p","Test":"TestHang","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}
`)))
	r.close()
	require.Contains(t, out.String(), "panic: test timed out")
}

func TestMissingParts(t *testing.T) {
	t.Parallel()
	none := missingParts(func(p string) (string, error) { return p, nil })
	require.Empty(t, none)
	all := missingParts(func(string) (string, error) { return "", errors.New("not found") })
	require.Len(t, all, len(parts))

	var out strings.Builder
	printMissing(&out, all)
	require.Contains(t, out.String(), "redis-server")
	out.Reset()
	printMissing(&out, none)
	require.Equal(t, "real parts: all here\n", out.String())
}
