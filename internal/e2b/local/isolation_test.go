package local

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChosenLevel(t *testing.T) {
	t.Parallel()
	best := levels(t)
	srv := start(t, Config{})
	require.Equal(t, string(best[len(best)-1]), srv.Isolation(), "the best the machine allows")
	_, err := Start(t.Context(), Config{Isolation: "perfect"})
	require.ErrorContains(t, err, `isolation "perfect": no such level`)
}

// TestIsolationIsToldOf: why it is no better, where the machine lacks something,
// and that a temporary folder which cannot be written is no reason to do without.
func TestIsolationIsToldOf(t *testing.T) {
	temp, dir := os.Getenv("TMPDIR"), t.TempDir()
	t.Setenv("TMPDIR", "/nowhere")
	_, err := Start(t.Context(), Config{DataDir: dir})
	require.ErrorContains(t, err, "try isolation strong: stat /nowhere")

	t.Setenv("TMPDIR", temp)
	t.Setenv("PATH", "/nowhere")
	var log lockedBuffer
	srv := start(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NotEqual(t, "strong", srv.Isolation())
	require.Contains(t, log.String(), "NOT ISOLATED")
	for _, program := range []string{bwrapPath, nsenterPath} {
		require.Contains(t, log.String(), program+`\": executable file not found`)
	}
}

func TestSandboxesDoNotMeet(t *testing.T) {
	eachLevel(t, func(c *client) {
		if c.srv.Isolation() == "none" {
			c.Skip("nothing is promised without isolation")
		}
		a, b := c.create(""), c.create("")
		_, pid := a.begin(sh("sleep 100"))
		for _, x := range []*testBox{a, b} {
			require.NoError(c, x.run("echo "+x.SandboxID+" > /tmp/f; echo "+x.SandboxID+" > /home/user/f").err)
		}
		for _, x := range []*testBox{a, b} {
			require.Equal(c, strings.Repeat(x.SandboxID+"\n", 2), x.run("cat /tmp/f /home/user/f").stdout.String())
			require.Equal(c, x.SandboxID+"\n", x.envd("GET", "/files?path=/tmp/f", "").body)
		}
		require.Equal(c, "no\n", b.run(fmt.Sprintf("kill -0 %d 2>/dev/null && grep -q sleep /proc/%d/cmdline && echo yes || echo no", pid, pid)).stdout.String())
		require.NotContains(c, b.run("ls -d /proc/[0-9]*").stdout.String(), fmt.Sprint("/", os.Getpid(), "\n"), "nor does the server show")
	})
}

func TestStrongHoldsRootToo(t *testing.T) {
	t.Parallel()
	if best := levels(t); best[len(best)-1] != Strong {
		missing(t, "no strong isolation here")
	}
	c := newClient(t, start(t, Config{Isolation: Strong}))
	b := c.create("")
	secret := t.TempDir() + "/secret"
	writeFile(t, secret, "outside")
	st, err := b.processes().Start(t.Context(), as(ask(b, sh(`
		try() { if "$@" >/dev/null 2>&1; then echo "possible: $*"; fi; }
		try cat `+secret+`
		try cat /etc/shadow
		try touch /usr/local/x
		try mount -o remount,rw,bind /usr
		try mount -t tmpfs x /mnt
		try sh -c 'echo 1 > /proc/sys/vm/drop_caches'
		try sh -c 'echo x > /proc/sys/kernel/core_pattern'
		try mknod /tmp/disk b 254 0
		try cat /dev/vda
		try chroot /proc/1/root true
		try touch /proc/1/root/usr/local/y
		echo done`)), "root"))
	require.NoError(t, err)
	r := finish(st)
	require.NoError(t, r.err)
	out := strings.ReplaceAll(r.stdout.String(), "possible: chroot /proc/1/root true\n", "") // its own root: no way out
	require.Equal(t, "done\n", out)
}

// TestNobodyOutside: who is root in a sandbox is nobody on the machine, also where
// the server's directory is closed to nobody.
func TestNobodyOutside(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("an ordinary user has one id to give")
	}
	t.Parallel()
	for _, level := range levels(t)[1:] {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			dir, outside := t.TempDir(), t.TempDir()+"/file"
			writeFile(t, outside, "")
			require.NoError(t, os.Chmod(dir, 0o700))
			cfg := Config{Isolation: level, DataDir: dir + "/data", Limits: Limits{Disk: -1}}
			srv, err := Start(t.Context(), cfg)
			require.NoError(t, err)
			b := newClient(t, srv).create("")
			st, err := b.processes().Start(t.Context(), as(ask(b, sh("echo mine >/root/f; echo x >/tmp/f; id -u; exec sleep 100")), "root"))
			require.NoError(t, err)
			defer st.Close()
			for r := (&result{}); r.stdout.String() != "0\n"; r.take(st.Msg().GetEvent()) {
				require.True(t, st.Receive(), "%v", st.Err())
			}
			tree := filepath.Join(dir, "data", b.SandboxID, "root")
			for name, uid := range map[string]int{"root/f": uidBase, "tmp/f": uidBase, "root": uidBase, "home/user": uidBase + userID} {
				require.Equal(t, uid, ownerOf(os.Lstat(filepath.Join(tree, name))), name)
			}
			sb := b.within()
			sb.launch.RLock()
			holder := sb.jail.holder
			sb.launch.RUnlock()
			require.Equal(t, uidBase, ownerOf(os.Lstat(fmt.Sprint("/proc/", holder))))
			require.NoError(t, srv.Close())

			// What a server left for which the two roots were one is taken over.
			require.NoError(t, os.Symlink(outside, tree+"/root/link"))
			for _, name := range []string{".", "root", "root/f"} {
				require.NoError(t, os.Chown(filepath.Join(tree, name), 0, 0))
			}
			b.client = newClient(t, start(t, cfg))
			st, err = b.processes().Start(t.Context(), as(ask(b, sh("cat /root/f; stat -c %U /root/link; echo more >>/root/f")), "root"))
			require.NoError(t, err)
			require.Equal(t, "mine\nroot\n", finish(st).stdout.String())
			require.Equal(t, 0, ownerOf(os.Stat(outside)))
		})
	}
}

// TestPreloadStaysInside: what leads a command in runs with the server's rights
// and must not take the client's environment.
func TestPreloadStaysInside(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		req := sh("true")
		req.Process.Envs = map[string]string{"LD_PRELOAD": "/nowhere/evil.so", "BASH_ENV": "/nowhere", "ENV": "/nowhere"}
		st, err := b.processes().Start(c.Context(), ask(b, req))
		require.NoError(c, err)
		r := finish(st)
		require.EqualValues(c, 0, r.end.GetExitCode())
		for line := range strings.SplitSeq(strings.TrimSpace(r.stderr.String()), "\n") {
			require.NotContains(c, line, "nsenter")
		}
		require.LessOrEqual(c, strings.Count(r.stderr.String(), "cannot be preloaded"), 2, "the command's own, not those of what leads in")
	})
}

func TestCloneFromLoopback(t *testing.T) {
	need(t, "git")
	eachLevel(t, func(c *client) {
		repo := filepath.Join(c.TempDir(), "r.git")
		for _, args := range [][]string{
			{"init", "-q", "--bare", repo},
			{"-C", repo, "-c", "user.name=n", "-c", "user.email=e@e", "commit-tree", "-m", "m", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"},
		} {
			if args[0] == "-C" {
				tree := exec.CommandContext(c.Context(), "git", "-C", repo, "mktree")
				require.NoError(c, tree.Run())
			}
			out, err := exec.CommandContext(c.Context(), "git", args...).CombinedOutput()
			require.NoError(c, err, "%s", out)
			if args[0] == "-C" {
				out, err := exec.CommandContext(c.Context(), "git", "-C", repo, "update-ref", "refs/heads/master", strings.TrimSpace(string(out))).CombinedOutput()
				require.NoError(c, err, "%s", out)
			}
		}
		backend, err := exec.CommandContext(c.Context(), "git", "--exec-path").Output()
		require.NoError(c, err)
		web := httptest.NewServer(&cgi.Handler{
			Path: strings.TrimSpace(string(backend)) + "/git-http-backend",
			Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(repo), "GIT_HTTP_EXPORT_ALL=1", "HOME=/nonexistent"},
		})
		defer web.Close()
		b := c.create("")
		r := b.run("git clone -q " + web.URL + "/r.git r && git -C r log --format=%s")
		require.Equal(c, "m\n", r.stdout.String(), "%s", r.stderr.String())
	})
}

func TestServersInsideAreReachable(t *testing.T) {
	need(t, "python3")
	t.Parallel()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3 below /usr, so none in a sandbox")
	}
	c := newClient(t, start(t, Config{}))
	b := c.create("")
	b.put("page", "served inside")
	st, _ := b.begin(sh("exec /usr/bin/python3 -u -m http.server --bind 127.0.0.1 0"))
	said := regexp.MustCompile(` port (\d+) `)
	var port []string
	for r := (&result{}); port == nil; port = said.FindStringSubmatch(r.stdout.String()) {
		require.True(t, st.Receive(), "%v", st.Err())
		r.take(st.Msg().GetEvent())
	}
	r := c.call("GET", "/page", "", headerSandbox, b.SandboxID, headerPort, port[1])
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.Equal(t, "served inside", r.body)
}
