package local

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// loops are the images below dir that a loop device has.
func loops(t *testing.T, dir string) (images []string) {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.HasPrefix(string(b), dir) {
			images = append(images, strings.TrimSpace(string(b)))
		}
	}
	return images
}

// disksOf is the configuration of a server whose sandboxes have disks of n MiB.
func disksOf(t *testing.T, n int64) Config {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("an ordinary user mounts nothing")
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT PROVEN HERE: this machine's kernel gives no loop devices: %v", err)
	}
	control.Close()
	cfg := Config{DataDir: t.TempDir(), APIKey: "k", Limits: Limits{Disk: n << 20}}
	m := newMachine(cfg)
	defer m.close()
	if _, err := newBlank(cfg.DataDir, n<<20); err != nil || m.tryIsolation(Strong) != nil {
		missing(t, "no disks here: %v", err)
	}
	return cfg
}

// TestDiskFiller: who fills his disk harms nobody else, and has room again when
// he removes what he wrote.
func TestDiskFiller(t *testing.T) {
	t.Parallel()
	cfg := disksOf(t, 32)
	c := newClient(t, start(t, cfg))
	a, b := c.create(""), c.create("")
	require.Equal(t, 32, a.detail().DiskSizeMB)
	for _, fill := range []string{
		"mkdir many && cd many && i=0 && while :>$i; do i=$((i+1)); done",
		"rm -r many; yes | head -c 100000000 >fill",
		// What was removed is free again when the journal says so.
		"rm fill; sudo sh -c 'yes | head -c 100000000 >/root/fill'; sync; yes >fill",
	} {
		require.Contains(t, a.run(fill).stderr.String(), "No space left on device", fill)
		unharmed(c, b)
	}
	r := a.envd("POST", "/files?path=up", strings.Repeat("x", 1<<20), "Content-Type", "application/octet-stream")
	require.Equal(t, http.StatusInsufficientStorage, r.status, r.body)
	require.Contains(t, r.body, `"code":507`)
	var err error
	for i := 0; err == nil && i < 10000; i++ {
		err = a.mkdir(fmt.Sprint("dirs/", i))
	}
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "%v", err)

	var m struct {
		Total int64 `json:"disk_total"`
		Used  int64 `json:"disk_used"`
	}
	a.envd("GET", "/metrics", "").into(t, &m)
	require.InDelta(t, 32<<20, m.Total, 8<<20)
	require.Greater(t, m.Used, m.Total*9/10)
	require.NoError(t, b.run("yes | head -c 10000000 >f && rm f").err)
	require.Empty(t, b.run("ls /lost+found 2>/dev/null").stdout.String())

	onMachine := func() int64 {
		st, err := os.Stat(filepath.Join(cfg.DataDir, a.SandboxID, imageFile))
		require.NoError(t, err)
		return st.Sys().(*syscall.Stat_t).Blocks * 512
	}
	require.Greater(t, onMachine(), int64(24<<20))
	require.Equal(t, "done\n", a.run("sudo rm fill /root/fill && echo done").stdout.String())
	require.Eventually(t, func() bool { return onMachine() < 8<<20 }, patience, 10*time.Millisecond, "the machine has it back")
	require.NoError(t, a.mkdir("dir"))
	require.Equal(t, "10000000\n", a.run("yes | head -c 10000000 >f; stat -c %s f").stdout.String())
	require.Equal(t, 204, c.call("DELETE", a.on(""), "").status)
	require.Eventually(t, func() bool { return len(loops(t, cfg.DataDir)) == 1 }, patience, 5*time.Millisecond)
	unharmed(c, b)
}

// TestDiskStaysAsItWasMade: servers with other limits take over what is there.
func TestDiskStaysAsItWasMade(t *testing.T) {
	t.Parallel()
	cfg := disksOf(t, 32)
	cfg.Limits.Disk = -1
	srv, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	c := newClient(t, srv)
	before := map[string]*testBox{}
	const full = "yes | head -c 50000000 >f; stat -c %s f; rm f"
	begun := func(name, body string) {
		before[name] = c.create(body)
		before[name].put("of", name)
	}
	begun("none", "")
	require.Equal(t, "50000000\n", before["none"].run(full).stdout.String())
	var machine syscall.Statfs_t
	require.NoError(t, syscall.Statfs(cfg.DataDir, &machine))
	require.EqualValues(t, int64(machine.Blocks)*machine.Bsize>>20, before["none"].detail().DiskSizeMB)
	for _, size := range []int64{32, 64, -1} {
		written := map[string]string{"none": "50000000\n"}
		if size == 32 { // of one file at least
			written["none"] = "33554432\n"
		}
		require.NoError(t, srv.Close())
		cfg.Limits.Disk = max(size<<20, -1)
		srv, err = Start(t.Context(), cfg)
		require.NoError(t, err)
		c.srv = srv
		for name, b := range before { // of the first that is asked, nothing was used since the start
			require.Equal(t, name, c.create(fmt.Sprintf(`{"templateID":%q}`, b.snapshot("{}").ID)).content("of"))
			require.Equal(t, name, b.content("of"))
			r := b.run(full)
			if want := written[name]; want != "" {
				require.Equal(t, want, r.stdout.String())
			} else {
				require.Contains(t, r.stderr.String(), "No space left on device")
			}
		}
		if size == 32 {
			begun("small", "")
			require.Equal(t, 32, before["small"].detail().DiskSizeMB)
		}
		require.Equal(t, 32, before["small"].detail().DiskSizeMB)
	}
	require.NoError(t, srv.Close())
	require.Eventually(t, func() bool { return len(loops(t, cfg.DataDir)) == 0 }, patience, 5*time.Millisecond)
}

// TestDiskIsMended: what a machine that went down left is made good before it is
// used.
func TestDiskIsMended(t *testing.T) {
	t.Parallel()
	cfg := disksOf(t, 32)
	srv, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	c := newClient(t, srv)
	b := c.create("")
	b.put("f", "kept")
	image := filepath.Join(cfg.DataDir, b.SandboxID, imageFile)
	state := func() string {
		out, err := exec.Command(sbin("dumpe2fs"), "-h", image).Output()
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(out), "Filesystem state:")
		line, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(line)
	}
	require.Equal(t, "not clean", state(), "while it is in use")
	require.NoError(t, srv.Close())
	require.Eventually(t, func() bool { return state() == "clean" }, patience, 5*time.Millisecond)
	out, err := exec.Command(sbin("debugfs"), "-w", "-R", "set_super_value state 0", image).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "not clean", state())
	srv, err = Start(t.Context(), cfg)
	require.NoError(t, err)
	c.srv = srv
	require.Equal(t, "kept", b.content("f"))
	require.NoError(t, srv.Close())
	require.Eventually(t, func() bool { return state() == "clean" }, patience, 5*time.Millisecond)

	require.NoError(t, os.Truncate(image, 4096)) // beyond that
	c.srv = start(t, cfg)
	require.Equal(t, 500, b.envd("GET", "/files?path=f", "").status)
	unharmed(c, c.create(""))
}

// TestDiskHasOneUser: what a server left must be gone before the next mounts it.
func TestDiskHasOneUser(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), imageFile)
	open := func() *os.File {
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	require.NoError(t, lockImage(first, patience))
	require.ErrorContains(t, lockImage(second, time.Millisecond), "in use by another server")
	got := make(chan error)
	go func() { got <- lockImage(second, patience) }()
	require.NoError(t, first.Close())
	require.NoError(t, <-got)

	cfg := disksOf(t, 32)
	c := newClient(t, start(t, cfg))
	b := c.create("")
	image, err := os.OpenFile(filepath.Join(cfg.DataDir, b.SandboxID, imageFile), os.O_RDWR, 0)
	require.NoError(t, err)
	defer image.Close()
	require.Error(t, lockImage(image, time.Millisecond), "a sandbox in use holds it")
	require.Equal(t, 204, c.call("DELETE", b.on(""), "").status)
	require.NoError(t, lockImage(image, patience))
}

// TestFileSizeLimit: where there are no disks, a file has a limit.
func TestFileSizeLimit(t *testing.T) {
	eachLevel(t, func(c *client) {
		c.srv = start(c.T, Config{Isolation: Isolation(c.srv.Isolation()), Limits: Limits{Disk: 2 << 20}})
		if c.srv.blank != nil {
			require.Contains(c, c.call("GET", "/health", "").body, "\ndisk: 2 MiB a sandbox (ext4 in a file)\n")
			return
		}
		require.Contains(c, c.call("GET", "/health", "").body, "\ndisk: 2 MiB of each file (RLIMIT_FSIZE): disks of their own need ")
		b := c.create("")
		require.Equal(c, "2097152\n", b.run("(yes >f) 2>/dev/null; stat -c %s f").stdout.String())
	})
}

// TestMachinesDiskIsFull: sandboxes may be promised more than the machine has. It
// is theirs to notice; the server goes on, and so does what can when there is room.
func TestMachinesDiskIsFull(t *testing.T) {
	t.Parallel()
	cfg := disksOf(t, 64)
	require.NoError(t, syscall.Mount("small", cfg.DataDir, "tmpfs", 0, "size=24m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(cfg.DataDir, syscall.MNT_DETACH)) })
	c := newClient(t, start(t, cfg))
	a, b := c.create(""), c.create("")
	r := a.run("yes | head -c 40000000 >fill; sync fill")
	require.NotEmpty(t, r.stderr.String(), "who syncs is told")
	full := c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`)
	require.Equal(t, http.StatusServiceUnavailable, full.status, full.body)
	require.Contains(t, full.body, `"error_code":"sandbox_capacity_unavailable"`)
	require.Equal(t, "well\n", b.run("echo well").stdout.String())
	require.Equal(t, 204, c.call("DELETE", a.on(""), "").status)
	require.Eventually(t, func() bool { return c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`).status == 201 }, patience, 50*time.Millisecond)
	require.Equal(t, "kept\n", b.run("echo kept >f; sync f; cat f").stdout.String())
}

// TestBlankIsWhole: what sandboxes begin from is taken when all is written, also
// while processes are started, which hold whatever is open for a moment.
func TestBlankIsWhole(t *testing.T) {
	t.Parallel()
	cfg := disksOf(t, 16)
	stop := make(chan struct{})
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer starters.Wait()
	defer close(stop)
	for i := range 40 {
		blank, err := newBlank(cfg.DataDir, 16<<20)
		require.NoError(t, err)
		f, err := os.Create(filepath.Join(cfg.DataDir, fmt.Sprint(i)))
		require.NoError(t, err)
		require.NoError(t, blank.writeTo(f))
		require.NoError(t, f.Close())
		out, err := exec.Command(sbin("e2fsck"), "-fn", f.Name()).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// TestLoopDevicesOfAContainer: its /dev was made when it began, and has not the
// devices that the kernel has made since.
func TestLoopDevicesOfAContainer(t *testing.T) {
	t.Parallel()
	cfg := disksOf(t, 16)
	image, err := os.Create(filepath.Join(cfg.DataDir, imageFile))
	require.NoError(t, err)
	defer image.Close()
	require.NoError(t, image.Truncate(1<<20))
	var control unix.Stat_t
	require.NoError(t, unix.Stat("/dev/loop-control", &control))
	attached := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the mounts go with the thread
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("dev", "/dev", "tmpfs", 0, "")
		}
		if err == nil {
			err = unix.Mknod("/dev/loop-control", unix.S_IFCHR|0o600, int(control.Rdev))
		}
		if err == nil {
			var loop *os.File
			if loop, err = attach(image); err == nil {
				err = loop.Close()
			}
		}
		attached <- err
	}()
	require.NoError(t, <-attached)
}
