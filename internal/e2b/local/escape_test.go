package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
)

// escapeEnv makes this test binary, inside a sandbox, try the ways out: a name
// and an argument a line.
const escapeEnv = "SANDJET_TEST_ESCAPE"

// tries are the ways out that need a program. Each returns nil if it worked.
var tries = map[string]func(arg string) error{
	"ptrace of a process outside": func(arg string) error {
		pid, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		return unix.PtraceAttach(pid)
	},
	"a signal to a process outside": func(arg string) error {
		pid, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGTERM)
	},
	"the server's keys": func(string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	},
	"a key for the machine": func(string) error {
		_, err := unix.AddKey("user", "sandjet-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	},
	"a program for the kernel": func(string) error {
		var attr [128]byte
		_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), uintptr(len(attr)))
		return errnoOf(errno)
	},
	"a call by x32's numbers": func(string) error {
		if runtime.GOARCH != "amd64" {
			return unix.ENOSYS
		}
		_, _, errno := unix.Syscall(0x40000000|unix.SYS_GETPID, 0, 0, 0)
		return errnoOf(errno)
	},
	"a call by i386's numbers": func(string) error { return int80(20) }, // getpid
	"io_uring": func(string) error {
		var params [120]byte
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
		return errnoOf(errno)
	},
	"a user namespace": func(string) error {
		return exec.CommandContext(context.Background(), "unshare", "--user", "true").Run()
	},
	"a mount namespace":      func(string) error { return unix.Unshare(unix.CLONE_NEWNS) },
	"the machine's loopback": func(arg string) error { return dialled("tcp", arg) },
	"an abstract socket":     func(arg string) error { return dialled("unix", arg) },
	"a file by its handle": func(string) error {
		root, err := os.Open("/")
		if err != nil {
			return err
		}
		defer root.Close()
		// Inode 2 is the top of ext4.
		_, err = unix.OpenByHandleAt(int(root.Fd()), unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
		return err
	},
}

// int80 makes a call to the kernel as a program of 32 bits does.
func int80(number byte) error {
	if runtime.GOARCH != "amd64" {
		return unix.ENOSYS
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(page, []byte{0xb8, number, 0, 0, 0, 0xcd, 0x80, 0xc3}) // mov eax, number; int 0x80; ret
	code := &page[0]
	entry := &code // what a func is: a pointer to a pointer to code
	call := *(*func() int32)(unsafe.Pointer(&entry))
	if n := call(); n < 0 {
		return syscall.Errno(-n)
	}
	return nil
}

func errnoOf(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func dialled(network, addr string) error {
	c, err := (&net.Dialer{Timeout: patience}).DialContext(context.Background(), network, addr)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// TestInsideOnly is no test by itself: TestEscapes starts it in a sandbox.
func TestInsideOnly(t *testing.T) {
	if os.Getenv(escapeEnv) == "" {
		t.Skip("only in a sandbox of another test")
	}
	for line := range strings.SplitSeq(os.Getenv(escapeEnv), "\n") {
		name, arg, _ := strings.Cut(line, "|")
		fmt.Printf("\n%s|%v\n", name, tries[name](arg))
	}
}

// TestEscapes tries the ways out of a sandbox and prints what stopped each.
func TestEscapes(t *testing.T) {
	t.Parallel()
	if best := levels(t); best[len(best)-1] != Strong {
		missing(t, "no strong isolation here")
	}
	if os.Getuid() != 0 {
		t.Log("NOT PROVEN HERE: a network of its own and the root inside need a server that is root")
		return
	}
	c := newClient(t, start(t, Config{Isolation: Strong, NoNetwork: true}))
	b := c.create("")
	e := newOutside(t, b)
	report := func(what, who, stopped string) { t.Logf("%-42s %-5s %s", what, who, stopped) }

	var asked []string
	for name := range tries {
		asked = append(asked, name+"|"+e.args[name])
	}
	for _, user := range []string{"user", "root"} {
		req := sh("cp escape /tmp/escape-$(id -u) && exec /tmp/escape-$(id -u) -test.run='^TestInsideOnly$' -test.v")
		home := "/home/user"
		req.Process.Cwd = &home
		req.Process.Envs = map[string]string{escapeEnv: strings.Join(asked, "\n")}
		st, err := b.processes().Start(t.Context(), as(ask(b, req), user))
		require.NoError(t, err)
		r := finish(st)
		for name := range tries {
			_, stopped, ok := strings.Cut(r.stdout.String(), "\n"+name+"|")
			require.True(t, ok, "%s as %s: %s%s", name, user, r.stdout.String(), r.stderr.String())
			stopped, _, _ = strings.Cut(stopped, "\n")
			require.NotEqual(t, "<nil>", stopped, "%s as %s: out", name, user)
			report(name, user, stopped)
		}
	}
	for _, x := range []struct{ name, script string }{
		{"read a file of the machine", "cat " + e.secret},
		{"read it by /proc/1/root", "cat /proc/1/root" + e.secret},
		{"read the passwords", "cat /etc/shadow"},
		{"read keys in the shared /etc", "ls /etc/ssl/private"},
		{"read what only the machine's root may", "cat /usr/" + e.private},
		{"read a process outside", fmt.Sprintf("cat /proc/%d/environ", e.pid)},
		{"find the server's environment", "cat /proc/[0-9]*/environ 2>/dev/null | grep -a " + e.token},
		{"mount", "mount -t tmpfs x /mnt"},
		{"make the system writable", "mount -o remount,rw,bind /usr"},
		{"write to the system", "touch /usr/local/lib/x"},
		{"write /proc/sys", "echo x >/proc/sys/kernel/core_pattern"},
		{"change its network's settings", "echo 1 >/proc/sys/net/ipv4/ip_forward"},
		{"share the machine's ipc", sameSpace(t, "ipc")},
		{"share the machine's host name", sameSpace(t, "uts")},
		{"share the machine's pids", sameSpace(t, "pid")},
		{"share the machine's users", sameSpace(t, "user")},
		{"share the machine's mounts", sameSpace(t, "mnt")},
		{"share the machine's network", sameSpace(t, "net")},
		{"press a kernel key", "echo h >/proc/sysrq-trigger"},
		{"make a disk", "mknod /tmp/disk b 254 0"},
		{"read the kernel's memory", "head -c 1 /proc/kcore"},
		{"leave by nsenter", "nsenter --target 1 --mount --pid true"},
		{"set the clock", "date -s 2001-01-01"},
		{"raise a limit", "prlimit --pid $$ --core=unlimited && ulimit -c 100"},
		{"join a control group", "find /sys/fs/cgroup -name cgroup.procs | grep . && echo $$ >/sys/fs/cgroup/cgroup.procs"},
	} {
		for _, user := range []string{"user", "root", "sudo"} {
			script := "if (" + x.script + ") 2>/tmp/why-" + user + "; then echo ESCAPED; else tail -n 1 /tmp/why-" + user + "; fi"
			who := user
			if user == "sudo" {
				script, who = "sudo sh -c '"+strings.ReplaceAll(script, "'", `'\''`)+"'", "user"
			}
			st, err := b.processes().Start(t.Context(), as(ask(b, sh(script)), who))
			require.NoError(t, err)
			r := finish(st)
			require.NotContains(t, r.stdout.String(), "ESCAPED", "%s as %s", x.name, user)
			require.NotContains(t, r.stdout.String(), e.token, "%s as %s", x.name, user)
			report(x.name, user, strings.TrimSpace(r.stdout.String()+r.stderr.String()))
		}
	}
	e.throughFiles(t, b, report)
	require.NoError(t, syscall.Kill(e.pid, 0), "who is outside lives")
}

// sameSpace is a script that succeeds in this process's namespace of a kind.
func sameSpace(t *testing.T, kind string) string {
	t.Helper()
	ours, err := os.Readlink("/proc/self/ns/" + kind)
	require.NoError(t, err)
	return `own=$(readlink /proc/self/ns/` + kind + `); echo "$own" >&2; [ "$own" = "` + ours + `" ]`
}

// outside is what an escape would reach.
type outside struct {
	token, dir, secret string
	private            string // below /usr, for the machine's root alone
	pid                int
	args               map[string]string
}

func newOutside(t *testing.T, b *testBox) *outside {
	t.Helper()
	e := &outside{token: "outside" + randomHex(8), dir: t.TempDir()}
	e.secret = e.dir + "/secret"
	writeFile(t, e.secret, e.token)
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	cmd.Env = []string{"TOKEN=" + e.token}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	e.pid = cmd.Process.Pid
	f, err := os.CreateTemp("/usr/local/lib", "private-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	_, err = f.WriteString(e.token)
	require.NoError(t, errors.Join(err, f.Close()))
	e.private = strings.TrimPrefix(f.Name(), "/usr/")
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "@"+e.token)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	pid := strconv.Itoa(e.pid)
	e.args = map[string]string{
		"ptrace of a process outside": pid, "a signal to a process outside": pid,
		"the machine's loopback": web.Listener.Addr().String(), "an abstract socket": "@" + e.token,
	}
	self, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	// It is run as a copy made inside: what this process has written may still be open
	// in a child of another test that has not come to its exec.
	require.NoError(t, os.WriteFile(b.outside("/home/user/escape"), self, 0o755))
	return e
}

// throughFiles tries what the server's file calls, which have its rights, reach.
func (e *outside) throughFiles(t *testing.T, b *testBox, report func(what, who, stopped string)) {
	t.Helper()
	require.NoError(t, b.run("ln -s "+e.dir+" dir; ln -s "+e.secret+" file; ln -s /proc/1/root top; ln -s ../../../../../../.. up; echo mine >own").err)
	for _, p := range []string{
		e.secret, "/home/user/file", "/home/user/dir/secret", "/home/user/top" + e.secret, "/home/user/up" + e.secret,
		"/../../.." + e.secret, "/proc/1/root" + e.secret, "/proc/self/root" + e.secret, "/proc/1/cwd/../.." + e.secret,
		"/proc/kcore", "/proc/kmsg", "/proc/1/environ", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
	} {
		q := "/files?path=" + url.QueryEscape(p)
		if !strings.HasPrefix(p, "/proc/sys/") { // everybody may read that
			r := b.envd("GET", q, "")
			require.NotContains(t, r.body, e.token, "%s", p)
			if strings.HasPrefix(p, "/proc/") {
				require.Contains(t, []int{400, 403, 404, 500}, r.status, "%s: %s", p, r.body)
			}
			report("GET /files "+shorten(p, e), "files", r.body)
		}
		before := readFile(t, "/proc/sys/kernel/core_pattern")
		r := b.envd("POST", q, "overwritten", "Content-Type", "application/octet-stream")
		require.Equal(t, e.token, readFile(t, e.secret), "%s", p)
		require.Equal(t, before, readFile(t, "/proc/sys/kernel/core_pattern"))
		if strings.HasPrefix(p, "/proc/") {
			require.NotEqual(t, 200, r.status, "%s", p)
		}
		report("POST /files "+shorten(p, e), "files", strings.TrimSpace(r.body))
		r = b.envd("POST", "/files/compose", fmt.Sprintf(`{"source_paths":[%q],"destination":"/home/user/joined"}`, p))
		require.NotContains(t, r.body+b.envd("GET", "/files?path=/home/user/joined", "").body, e.token, "%s", p)
	}
	// Everybody may read how soon the kernel ends a process, root may change it.
	const score = "/files?path=/proc/1/oom_score_adj"
	before := b.envd("GET", score, "").body
	r := b.envd("POST", score, "1000", "Content-Type", "application/octet-stream")
	require.NotEqual(t, 200, r.status)
	require.Equal(t, before, b.envd("GET", score, "").body)
	report("POST /files /proc/1/oom_score_adj", "files", strings.TrimSpace(r.body))
	for _, dir := range []string{e.dir, "/home/user/dir", "/home/user/up" + e.dir, "/home/user/top" + e.dir} {
		b.put("own", "mine")
		_, mk := b.files().MakeDir(t.Context(), as(ask(b, &filesystem.MakeDirRequest{Path: dir + "/made"}), "root"))
		_, mv := b.files().Move(t.Context(), as(ask(b, &filesystem.MoveRequest{Source: "/home/user/own", Destination: dir + "/moved"}), "root"))
		_, out := b.files().Move(t.Context(), as(ask(b, &filesystem.MoveRequest{Source: dir + "/secret", Destination: "/home/user/taken"}), "root"))
		_, rm := b.files().Remove(t.Context(), as(ask(b, &filesystem.RemoveRequest{Path: dir + "/secret"}), "root"))
		watch, err := b.files().WatchDir(t.Context(), as(ask(b, &filesystem.WatchDirRequest{Path: dir}), "root"))
		if err == nil {
			for watch.Receive() && watch.Msg().GetStart() == nil { // what it finds is of the sandbox, or nothing
			}
			err = errors.Join(watch.Err(), watch.Close())
		}
		require.NotContains(t, b.envd("GET", "/files?path=/home/user/taken", "").body, e.token)
		require.Equal(t, e.token, readFile(t, e.secret))
		left, lerr := os.ReadDir(e.dir)
		require.NoError(t, lerr)
		require.Len(t, left, 1, "nothing came or went outside")
		for verb, err := range map[string]error{"MakeDir": mk, "Move to": mv, "Move from": out, "Remove": rm, "Watch": err} {
			stopped := "it stays in the sandbox's own tree"
			if err != nil {
				stopped = connect.CodeOf(err).String()
			}
			report(verb+" "+shorten(dir, e), "files", stopped)
		}
	}
}

func shorten(p string, e *outside) string { return strings.ReplaceAll(p, e.dir, "OUTSIDE") }

func TestSudo(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{}))
	if !c.srv.sudo {
		t.Log("NOT PROVEN HERE: sudo needs strong isolation and a server that is root")
		return
	}
	b := c.create("")
	for script, want := range map[string]string{
		"id -u; sudo id -u; sudo -n -E -- id -un":                                        "1000\n0\nroot\n",
		"sudo -u user id -un; sudo A=b sh -c 'echo $A $HOME $SUDO_USER'":                 "user\nb /root user\n",
		"sudo sh -c 'echo x >/etc/made && chown user /etc/made' && stat -c %U /etc/made": "user\n",
		"sudo -s 'echo $0'; sudo -u nobody id || echo no":                                "/bin/sh\nno\n",
		"sudo sh -c 'exit 3'; echo $?":                                                   "3\n",
	} {
		r := b.run(script)
		require.Equal(t, want, r.stdout.String(), "%s: %s", script, r.stderr.String())
	}
}

// TestPortsOfANetworkOfItsOwn: the way in works where the way out does not.
func TestPortsOfANetworkOfItsOwn(t *testing.T) {
	need(t, "python3")
	t.Parallel()
	c := newClient(t, start(t, Config{NoNetwork: true}))
	if !c.srv.ownNetwork(c.srv.isolation) || !isFile("/usr/bin/python3") {
		t.Log("NOT PROVEN HERE: needs strong isolation, a server that is root, and python3 below /usr")
		return
	}
	for _, page := range []string{"first", "second"} { // both have the port
		b := c.create("")
		b.put("page", page)
		_, _ = b.begin(sh("/usr/bin/python3 -m http.server --bind 127.0.0.1 8123"))
		require.Eventually(t, func() bool {
			r := c.call("GET", "/page", "", headerSandbox, b.SandboxID, headerPort, "8123")
			return r.status == 200 && r.body == page
		}, patience, patience/1000)
		require.Equal(t, 502, c.call("GET", "/page", "", headerSandbox, b.SandboxID, headerPort, "8124").status)
	}
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
