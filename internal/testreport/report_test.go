package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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
	require.True(t, r.final, "a build that failed")
	require.Equal(t, map[failure]int{{"p", "TestB"}: 1}, r.failures)
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
	require.True(t, r.final)
}

// A module with a test that fails once, one that always fails, one that races
// and one that hangs: what may be run again and what is final.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module m\n\ngo 1.24\n")
	write("m_test.go", `package m

import (
	"os"
	"testing"
)

func TestGood(t *testing.T) {}

func TestOnce(t *testing.T) {
	t.Run("within", func(t *testing.T) {
		if _, err := os.Stat("seen"); err != nil {
			os.WriteFile("seen", nil, 0o600)
			t.Error("the first time")
		}
	})
}

func TestNever(t *testing.T) { t.Error("never") }

func TestPanic(t *testing.T) { panic("final") }
`)
	for name, test := range map[string]struct {
		tests, again string
		code         int
		want         []string
	}{
		"passes alone":     {"Good|Once", "2", 0, []string{"3 passed, 0 failed, 0 skipped", "UNSTEADY failed among the others, passed alone: m TestOnce"}},
		"without the word": {"Good|Once", "", 1, []string{"1 passed, 2 failed"}},
		"fails again":      {"Good|Never", "2", 1, []string{"again, alone: m TestNever", "1 passed, 1 failed"}},
		"too many":         {"Once|Never", "1", 1, []string{"0 passed, 3 failed"}},
		"a panic is final": {"Good|Panic", "2", 1, []string{"panic: final"}},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(filepath.Join(dir, "seen"))
			t.Chdir(dir)
			t.Setenv("AGAIN", test.again)
			t.Setenv("REQUIRE_REAL", "")
			t.Setenv("GOFLAGS", "-mod=mod")
			var out strings.Builder
			code, err := run(t.Context(), []string{"go", "test", "-count=1", "-run=^Test(" + test.tests + ")$", "."}, &out)
			require.NoError(t, err)
			require.Equal(t, test.code, code, out.String())
			for _, want := range test.want {
				require.Contains(t, out.String(), want)
			}
			if test.again == "" || name == "too many" || name == "a panic is final" {
				require.NotContains(t, out.String(), "again, alone")
			}
		})
	}
}

// A go test that is killed has told of some failures at most: whatever passes when it is
// run again, the rest was never run.
func TestEndedFromOutsideIsFinal(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("AGAIN", "2")
	t.Setenv("REQUIRE_REAL", "")
	for name, script := range map[string]string{
		"killed in a package": `
echo '{"Action":"start","Package":"p"}'
echo '{"Action":"start","Package":"q"}'
echo '{"Action":"fail","Package":"p","Test":"TestA"}'
echo '{"Action":"fail","Package":"p"}'
exit 1`,
		"killed between two": `
echo '{"Action":"start","Package":"p"}'
echo '{"Action":"fail","Package":"p","Test":"TestA"}'
echo '{"Action":"fail","Package":"p"}'
kill -KILL $$`,
		"another code": `
echo '{"Action":"fail","Package":"p","Test":"TestA"}'
echo '{"Action":"fail","Package":"p"}'
exit 2`,
	} {
		again := "case $* in *-run=*) echo '{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestA\"}'; exit;; esac\n"
		require.NoError(t, os.WriteFile("fake", []byte(again+script), 0o600))
		var out strings.Builder
		code, err := run(t.Context(), []string{"sh", "fake", "p"}, &out)
		require.NoError(t, err, name)
		require.Equal(t, 1, code, "%s: %s", name, &out)
		require.Contains(t, out.String(), "go test ended early", name)
		require.NotContains(t, out.String(), "again, alone", name)
	}
	// What fails by itself may show alone that it holds.
	require.NoError(t, os.WriteFile("fake", []byte(`case $* in *-run=*) echo '{"Action":"pass","Package":"p","Test":"TestA"}'; exit;; esac
echo '{"Action":"start","Package":"p"}'
echo '{"Action":"fail","Package":"p","Test":"TestA"}'
echo '{"Action":"fail","Package":"p"}'
exit 1`), 0o600))
	var out strings.Builder
	code, err := run(t.Context(), []string{"sh", "fake", "p"}, &out)
	require.NoError(t, err)
	require.Zero(t, code, out.String())
	require.Contains(t, out.String(), "UNSTEADY")
}

func TestRaceIsFinal(t *testing.T) {
	t.Parallel()
	r := newReport(io.Discard)
	require.NoError(t, r.read(strings.NewReader(
		`{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`)))
	require.True(t, r.final)
}

// A race, a panic or a fatal error is printed wherever go test puts it.
func TestNothingGraveIsLost(t *testing.T) {
	t.Parallel()
	for _, grave := range []string{"WARNING: DATA RACE", "panic: of a goroutine", "fatal error: concurrent map writes"} {
		for _, ends := range []string{"pass", "skip", "fail"} {
			for _, test := range []string{`,"Test":"TestA"`, ""} {
				var out strings.Builder
				r := newReport(&out)
				require.NoError(t, r.read(strings.NewReader(strings.NewReplacer("GRAVE", grave, "ENDS", ends, "TEST", test).Replace(
					`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p"TEST,"Output":"GRAVE\n"}
{"Action":"output","Package":"p"TEST,"Output":"  m.f()\n"}
{"Action":"ENDS","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: chatter\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
`))))
				r.close()
				require.Contains(t, out.String(), grave+"\n  m.f()\n", "%s%s", ends, test)
				require.NotContains(t, out.String(), "chatter")
				require.True(t, r.final)
			}
		}
	}
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
