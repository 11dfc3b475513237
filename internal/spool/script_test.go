package spool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shells are the POSIX shells of the systems that sandboxes are made of.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}}
	for name, argv := range all {
		if _, err := exec.LookPath(argv[0]); err != nil {
			if os.Getenv("REQUIRE_REAL") == "1" && name != "bash" {
				t.Fatalf("%s is not installed", argv[0])
			}
			delete(all, name)
		}
	}
	if len(all) == 0 {
		all["sh"] = []string{"sh"}
	}
	return all
}

// bench is one sandbox-like place for the scripts: a shell under the name of
// sh, first on PATH.
type bench struct {
	t    *testing.T
	dir  string
	path string
	// root is what leads into a root of its own; empty is this machine's.
	root []string
}

// withShells runs f for each shell. For busybox every tool is busybox's.
func withShells(t *testing.T, f func(t *testing.T, b *bench)) {
	for name, argv := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			real, err := exec.LookPath(argv[0])
			require.NoError(t, err)
			if name == "busybox" {
				out, err := exec.Command(real, "--install", "-s", bin).CombinedOutput()
				require.NoError(t, err, string(out))
			} else {
				script := fmt.Sprintf("#!%s\nexec %s %s \"$@\"\n", real, real, strings.Join(argv[1:], " "))
				if len(argv) == 1 {
					require.NoError(t, os.Symlink(real, filepath.Join(bin, "sh")))
				} else {
					program(t, filepath.Join(bin, "sh"), []byte(script))
				}
			}
			base := filepath.Join(t.TempDir(), "runs")
			path := bin + ":" + os.Getenv("PATH")
			if name == "busybox" {
				path = bin
			}
			t.Cleanup(func() { endAll(base) })
			f(t, &bench{t: t, dir: base, path: path})
		})
	}
	for _, shell := range []string{"busybox", "dash"} {
		t.Run(shell+" alone", func(t *testing.T) {
			t.Parallel()
			base := filepath.Join(t.TempDir(), "runs")
			t.Cleanup(func() { endAll(base) })
			f(t, &bench{t: t, dir: base, path: "/bin", root: smallRoot(t, shell)})
		})
	}
}

// program writes one that is run at once. Nobody forks meanwhile: the child would have
// the file open until its exec, and the kernel runs nothing that is being written.
func program(t *testing.T, path string, b []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, b, 0o755))
}

// endAll ends what a test left that killed a shell: the shell's children.
func endAll(base string) {
	for _, pid := range named(base) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// smallRoot is a system as small as Alpine's: every tool is busybox's, the root and
// the home are read-only, and there is a /tmp. It returns what leads in.
func smallRoot(t *testing.T, shell string) []string {
	t.Helper()
	for _, tool := range []string{"bwrap", "busybox", shell} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("REQUIRE_REAL") == "1" {
				t.Fatalf("%s is not installed", tool)
			}
			t.Skipf("%s is not installed", tool)
		}
	}
	bin := t.TempDir()
	for _, tool := range []string{"busybox", shell} {
		from, err := exec.LookPath(tool)
		require.NoError(t, err)
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		program(t, filepath.Join(bin, tool), b)
	}
	list, err := exec.Command("busybox", "--list").Output()
	require.NoError(t, err)
	for _, name := range strings.Fields(string(list)) {
		_ = os.Symlink("busybox", filepath.Join(bin, name)) // busybox itself is there
	}
	sh := filepath.Join(bin, "sh")
	_ = os.Remove(sh)
	require.NoError(t, os.Symlink(shell, sh))
	args := []string{
		"bwrap", "--die-with-parent", "--ro-bind", bin, "/bin", "--bind", "/proc", "/proc", "--dev", "/dev", "--ro-bind", t.TempDir(), "/home/user",
		"--bind", os.TempDir(), os.TempDir(), "--chdir", "/", "--setenv", "HOME", "/home/user",
	}
	for _, lib := range []string{"/lib", "/lib64", "/usr/lib"} { // of the loader; a static busybox needs none
		if _, err := os.Stat(lib); err == nil {
			args = append(args, "--ro-bind", lib, lib)
		}
	}
	args = append(args, "--remount-ro", "/", "--")
	if out, err := exec.Command(args[0], append(args[1:], "/bin/sh", "-c", "! touch /x && ! touch ~/x")...).CombinedOutput(); err != nil {
		if os.Getenv("REQUIRE_REAL") == "1" {
			t.Fatalf("bwrap: %v: %s", err, out)
		}
		t.Skipf("bwrap: %v: %s", err, out)
	}
	return args
}

func (b *bench) run(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) sh(ctx context.Context, script string, args ...string) *exec.Cmd {
	argv := append(slices.Clone(b.root), filepath.Join(strings.Split(b.path, ":")[0], "sh"), "-c", script, "sandjet")
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Env = []string{"PATH=" + b.path, "HOME=" + b.t.TempDir()}
	if b.root != nil {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.Args = slices.Insert(cmd.Args, len(b.root)-1, "--setenv", "PATH", b.path)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (b *bench) follow(ctx context.Context, dir string, out, errOff int64, c Command) *exec.Cmd {
	args := append([]string{runnerScript, dir, fmt.Sprint(out), fmt.Sprint(errOff)}, c.args()...)
	return b.sh(ctx, followScript, args...)
}

func (b *bench) result(dir string) Result {
	b.t.Helper()
	f, err := os.Open(filepath.Join(dir, "exit"))
	require.NoError(b.t, err)
	defer f.Close()
	res, err := parseResult(f)
	require.NoError(b.t, err)
	return res
}

func (b *bench) spool(dir, name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(b.t, err)
	return data
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func TestRunRecordsTheEnd(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("j.1")
		cmd := b.follow(t.Context(), dir, 0, 0, Command{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 7"}})
		require.NoError(t, cmd.Run())
		res := b.result(dir)
		require.Equal(t, 7, res.Code)
		require.Empty(t, res.Stop)
		require.Equal(t, "out\n", string(b.spool(dir, "out")))
		require.Equal(t, "err\n", string(b.spool(dir, "err")))
		require.Equal(t, sum([]byte("out\n")), res.Stdout.SHA256)
		require.Equal(t, sum([]byte("err\n")), res.Stderr.SHA256)
		require.EqualValues(t, 4, res.Stdout.Size)
	})
}

func TestArgumentsArriveAsGiven(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		argv := []string{"printf", `%s\n`, "", " ", "a b", `"`, `'`, `\`, "$HOME", "`id`", "*", "-n", "--", "new\nline", "ü", "\x01", "#x", "a=b"}
		dir := b.run("quoting.1")
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, Command{Argv: argv}).Run())
		require.Equal(t, strings.Join(argv[2:], "\n")+"\n", string(b.spool(dir, "out")))
	})
}

func FuzzArgumentsArriveAsGiven(f *testing.F) {
	f.Add("a b", "'$(id)'")
	f.Add("", "\n")
	f.Fuzz(func(t *testing.T, a, c string) {
		if strings.ContainsRune(a, 0) || strings.ContainsRune(c, 0) {
			t.Skip()
		}
		dir := filepath.Join(t.TempDir(), "runs", "f.1")
		args := append([]string{"-c", followScript, "sandjet", runnerScript, dir, "0", "0"},
			Command{Argv: []string{"printf", `%s|%s`, a, c}}.args()...)
		out, err := exec.Command("sh", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		got, err := os.ReadFile(filepath.Join(dir, "out"))
		require.NoError(t, err)
		require.Equal(t, a+"|"+c, string(got))
	})
}

// TestManyStartersOneStart is the once-only lock: starters race, and every one
// of them may be killed at any moment.
func TestManyStartersOneStart(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("race.1")
		count := filepath.Join(t.TempDir(), "starts")
		const lines = 3000
		script := `echo start >>` + count + `; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i"; done; sleep 1`
		c := Command{Argv: []string{"sh", "-c", script}}

		var wg sync.WaitGroup
		for range 8 {
			kill := rand.IntN(120)
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(kill)*time.Millisecond)
				defer cancel()
				_ = b.follow(ctx, dir, 0, 0, c).Run()
			})
		}
		wg.Wait()
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, c).Run())

		starts, err := os.ReadFile(count)
		require.NoError(t, err)
		require.Equal(t, "start\n", string(starts))
		require.Equal(t, lines, bytes.Count(b.spool(dir, "out"), []byte("\n")))
	})
}

func TestFollowShowsFromTheOffset(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("offset.1")
		c := Command{Argv: []string{"sh", "-c", "printf 0123456789; printf abcdef >&2"}}
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, c).Run())
		var out, errOut bytes.Buffer
		cmd := b.follow(t.Context(), dir, 4, 2, c)
		cmd.Stdout, cmd.Stderr = &out, &errOut
		require.NoError(t, cmd.Run())
		require.Equal(t, "456789", out.String())
		require.Equal(t, "cdef", errOut.String())
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		t.Run("time", func(t *testing.T) {
			dir := b.run("time.1")
			require.NoError(t, b.follow(t.Context(), dir, 0, 0, Command{
				Argv: []string{"sh", "-c", "echo on; sleep 600"}, Timeout: time.Second, Grace: 30 * time.Second,
			}).Run())
			res := b.result(dir)
			require.Equal(t, StopTimeout, res.Stop)
			require.Equal(t, "SIGTERM", res.Signal())
		})
		t.Run("silence", func(t *testing.T) {
			dir := b.run("silent.1")
			require.NoError(t, b.follow(t.Context(), dir, 0, 0, Command{
				Argv: []string{"sh", "-c", "echo on; sleep 600"}, Silent: time.Second, Grace: time.Second,
			}).Run())
			require.Equal(t, StopSilent, b.result(dir).Stop)
		})
		t.Run("cap", func(t *testing.T) {
			dir, text := b.run("cap.1"), filepath.Join(t.TempDir(), "text")
			require.NoError(t, os.WriteFile(text, bytes.Repeat([]byte("0123456789\n"), 4000), 0o600))
			// It says no more until it was cut: what is said meanwhile is not counted.
			require.NoError(t, b.follow(t.Context(), dir, 0, 0, Command{
				Argv: []string{"sh", "-c", `cat "$0"; until [ -s "${SANDJET_RUN}out.dropped" ]; do sleep 1; done; echo more`, text}, Cap: 1000,
			}).Run())
			res := b.result(dir)
			require.EqualValues(t, 1000, res.Stdout.Size)
			require.EqualValues(t, 44005-1000, res.Stdout.Dropped)
			want := strings.Repeat("0123456789\n", 100)[:1000]
			require.Equal(t, want, string(b.spool(dir, "out")))
			require.Equal(t, sum([]byte(want)), res.Stdout.SHA256)
		})
		t.Run("directory", func(t *testing.T) {
			dir := b.run("cwd.1")
			require.NoError(t, b.follow(t.Context(), dir, 0, 0, Command{Argv: []string{"true"}, Cwd: "/nope"}).Run())
			res := b.result(dir)
			require.Equal(t, StopCwd, res.Stop)
			require.Contains(t, string(b.spool(dir, "err")), "/nope")
		})
	})
}

// TestStopLeavesNothing covers children that ignore TERM and children that
// left the process group.
func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("stop.1")
		script := `trap '' TERM; (trap '' TERM; setsid sleep 611) & sh -c 'trap "" TERM; sleep 612' & echo ready; wait; sleep 613`
		follow := b.follow(t.Context(), dir, 0, 0, Command{Argv: []string{"sh", "-c", script}})
		require.NoError(t, follow.Start())
		require.Eventually(t, func() bool {
			out, _ := os.ReadFile(filepath.Join(dir, "out"))
			return string(out) == "ready\n"
		}, 30*time.Second, 10*time.Millisecond)
		require.NotEmpty(t, marked(dir))

		require.NoError(t, b.sh(t.Context(), stopScript, dir, StopCancelled, "1").Run())
		require.NoError(t, follow.Wait())
		res := b.result(dir)
		require.Equal(t, StopCancelled, res.Stop)
		require.Equal(t, "SIGKILL", res.Signal())
		require.Eventually(t, func() bool { return len(marked(dir)) == 0 }, 30*time.Second, 10*time.Millisecond)
	})
}

// TestStopBeforeStart keeps a run from ever beginning.
func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("early.1")
		require.NoError(t, b.sh(t.Context(), stopScript, dir, StopCancelled, "1").Run())
		touched := filepath.Join(t.TempDir(), "touched")
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, Command{Argv: []string{"touch", touched}}).Run())
		require.NoFileExists(t, touched)
		require.Equal(t, StopCancelled, b.result(dir).Stop)
	})
}

// TestLateStartAfterCleaning is a worker that was frozen before its start and
// wakes after its successor has finished the job.
func TestLateStartAfterCleaning(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("late.1")
		count := filepath.Join(t.TempDir(), "starts")
		c := Command{Argv: []string{"sh", "-c", "echo start >>" + count}}
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, c).Run())
		require.NoError(t, b.sh(t.Context(), cleanScript, dir).Run())
		require.NoFileExists(t, filepath.Join(dir, "out"))
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, c).Run())
		starts, err := os.ReadFile(count)
		require.NoError(t, err)
		require.Equal(t, "start\n", string(starts))
	})
}

// TestRunnerVanishes kills the runner, as the kernel does when memory is short.
func TestRunnerVanishes(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("gone.1")
		follow := b.follow(t.Context(), dir, 0, 0, Command{Argv: []string{"sh", "-c", "while sleep 1; do echo 0123456789; done"}, Cap: 5})
		require.NoError(t, follow.Start())
		var pid int
		require.Eventually(t, func() bool {
			data, err := os.ReadFile(filepath.Join(dir, "out.dropped")) // by the watcher
			if err != nil || len(data) == 0 {
				return false
			}
			data, _ = os.ReadFile(filepath.Join(dir, "pid"))
			n, _ := fmt.Sscan(string(data), &pid)
			return n == 1
		}, 30*time.Second, 10*time.Millisecond)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		err := follow.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, exitVanished, exit.ExitCode())
		// The command goes on, and its output stays bounded.
		for last, cuts := "", 0; cuts < 3; {
			require.Eventually(t, func() bool {
				now, _ := os.ReadFile(filepath.Join(dir, "out.dropped"))
				changed := string(now) != last
				last = string(now)
				return changed
			}, 30*time.Second, 10*time.Millisecond)
			cuts++
		}
		require.NotEmpty(t, marked(dir))
		for _, p := range marked(dir) {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
		require.Eventually(t, func() bool { return len(named(dir)) == 0 }, 30*time.Second, 10*time.Millisecond, "the watcher goes with the command")
	})
}

// named lists the processes whose command lines have a path in them.
func named(path string) []int { return processes("cmdline", path) }

// marked lists the processes that carry the run's name in their environment.
func marked(dir string) []int { return processes("environ", "SANDJET_RUN="+dir+"/") }

// processes lists those that live and have text in a file that the kernel keeps of
// them.
func processes(file, text string) (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		has, _ := os.ReadFile(filepath.Join(p, file))
		stat, _ := os.ReadFile(filepath.Join(p, "stat"))
		if bytes.Contains(has, []byte(text)) && !bytes.Contains(stat, []byte(") Z ")) {
			pid, _ := strconv.Atoi(filepath.Base(p))
			pids = append(pids, pid)
		}
	}
	return pids
}
