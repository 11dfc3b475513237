//go:build faultpoints

package point

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParsePlan(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want, err string }{
		"none":              {},
		"one":               {in: "e2b.create=crash", want: "e2b.create=crash@1"},
		"pass":              {in: "events.started=lost@3", want: "events.started=lost@3"},
		"pause":             {in: "redis.enter=pause:1500ms@2", want: "redis.enter=pause:1.5s@2"},
		"several":           {in: "a.b=error, c.d=lost", want: "a.b=error@1 c.d=lost@1"},
		"no fault":          {in: "e2b.create", err: "want <point>=<fault>"},
		"no room":           {in: "create=crash", err: "want <point>=<fault>"},
		"unknown fault":     {in: "a.b=explode", err: `not "explode"`},
		"pause without":     {in: "a.b=pause", err: "a duration goes with pause"},
		"crash with":        {in: "a.b=crash:5s", err: "a duration goes with pause"},
		"no such duration":  {in: "a.b=pause:soon", err: `not "soon"`},
		"pass that is zero": {in: "a.b=crash@0", err: `not "0"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := parsePlan(tc.in)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.ErrorContains(t, err, "SANDJET_POINTS")
				return
			}
			require.NoError(t, err)
			var got []string
			for _, r := range p.rules {
				got = append(got, r.String())
			}
			require.Equal(t, tc.want, strings.Join(got, " "))
		})
	}
}

func TestParseOff(t *testing.T) {
	t.Parallel()
	got, err := parseOff("fence,beat")
	require.NoError(t, err)
	require.Equal(t, map[Switch]bool{Fence: true, Beat: true}, got)
	_, err = parseOff("fence,gravity")
	require.ErrorContains(t, err, `SANDJET_OFF: "gravity"`)
}

// A rule strikes once, at its pass, on its side of the effect.
func TestStrikesOnce(t *testing.T) {
	t.Parallel()
	p, err := parsePlan("a.b=error@2,a.b=lost@1,c.d=crash")
	require.NoError(t, err)
	require.Nil(t, p.before("a.b"))
	require.Equal(t, losing, p.after("a.b").fault)
	require.Equal(t, failing, p.before("a.b").fault)
	require.Nil(t, p.before("a.b"))
	require.Nil(t, p.after("a.b"))
	require.Nil(t, p.before("c.d"))
	require.Equal(t, crashing, p.after("c.d").fault)
}

// TestMain makes the test's own binary a process that passes one point, so that
// what a fault does to a process can be seen from outside.
func TestMain(m *testing.M) {
	if os.Getenv("PASS_ONE_POINT") == "" {
		os.Exit(m.Run())
	}
	out := func(s string, err error) {
		if err != nil {
			s += ": " + err.Error()
		}
		_, _ = os.Stdout.WriteString(s + "\n")
	}
	begun := time.Now()
	err := Before(context.Background(), Of("a", "b"))
	out("before", err)
	if err == nil {
		out("after", After(context.Background(), Of("a", "b")))
	}
	if time.Since(begun) > 300*time.Millisecond {
		out("late", nil)
	}
	if Off(Fence) {
		out("off", nil)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env      []string
		out, log string
		code     int
		killed   bool
	}{
		"nothing":   {out: "before\nafter\n", log: "a.b\n"},
		"crash":     {env: []string{"SANDJET_POINTS=a.b=crash"}, out: "before\n", log: "a.b\nfired a.b=crash@1\n", killed: true},
		"error":     {env: []string{"SANDJET_POINTS=a.b=error"}, out: "before: a.b: " + ErrFailed.Error() + "\n", log: "a.b\nfired a.b=error@1\n"},
		"lost":      {env: []string{"SANDJET_POINTS=a.b=lost"}, out: "before\nafter: a.b: " + ErrLost.Error() + "\n", log: "a.b\nfired a.b=lost@1\n"},
		"pause":     {env: []string{"SANDJET_POINTS=a.b=pause:400ms"}, out: "before\nafter\nlate\n", log: "a.b\nfired a.b=pause:400ms@1\nwoke a.b=pause:400ms@1\n"},
		"off":       {env: []string{"SANDJET_OFF=fence"}, out: "before\nafter\noff\n", log: "a.b\n"},
		"malformed": {env: []string{"SANDJET_POINTS=nonsense"}, code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), append(tc.env, "PASS_ONE_POINT=1", "SANDJET_POINTS_LOG="+log)...)
			out, _ := cmd.Output()
			require.Equal(t, tc.out, string(out))
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.Equal(t, tc.killed, status.Signaled() && status.Signal() == syscall.SIGKILL)
			require.Equal(t, tc.code, max(status.ExitStatus(), 0))
			got, _ := os.ReadFile(log)
			require.Equal(t, tc.log, string(got))
		})
	}
}
