package local

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	bwrapPath   = "bwrap"
	nsenterPath = "nsenter"
	setprivPath = "setpriv"
)

//go:embed sudo.sh
var sudo string

// installSudo gives a sandbox its sudo, over a folder that is empty on most
// machines: bubblewrap lets no setuid program of the tree work. Without that
// folder there is none.
const installSudo = `(mount -n -t tmpfs -o mode=755,size=1m sudo /usr/local/sbin && cd /usr/local/sbin &&
printf %s "$0" >sudo && install -m 4755 "$1" .setpriv && chmod 755 sudo) >/dev/null 2>&1
`

// noNesting lets nobody inside make a user namespace: in one of his own he would
// have every capability again. It is the first thing in the jail's own.
const noNesting = `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`

// bwrapCommand is the holder of a strong jail. As root we make the user
// namespace ourselves, because bubblewrap maps one id only and a sandbox needs
// two: its root and its user.
func bwrapCommand(root string, users accounts, ownNetwork bool, t *trust) *exec.Cmd {
	args := []string{
		"--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--hostname", hostName, "--info-fd", "4", "--bind", root, "/",
	}
	for _, d := range systemDirs {
		if st, err := os.Lstat(d); err == nil && st.IsDir() {
			args = append(args, "--ro-bind", d, d)
		}
	}
	for _, name := range etcShared {
		p := filepath.Join("/etc", name)
		if real, err := filepath.EvalSymlinks(p); err == nil {
			args = append(args, "--ro-bind", real, p)
		}
	}
	if t != nil {
		for _, seat := range t.seats {
			args = append(args, "--ro-bind", t.file, seat)
		}
	}
	args = append(args, "--proc", "/proc") // with what of it is the machine's read-only
	args = append(args, devices(users)...)
	if ownNetwork {
		args = append(args, "--unshare-net")
	}
	script := hold
	if users.mapped {
		script = installSudo + hold
	} else {
		id := strconv.Itoa(userID)
		args = append(args, "--unshare-user", "--uid", id, "--gid", id)
	}
	setpriv, _ := exec.LookPath(setprivPath)
	args = append(args, "--chdir", "/", "--", "/bin/sh", "-c", script, sudo, setpriv)
	cmd := exec.Command(bwrapPath, args...)
	if users.mapped && cmd.Err == nil {
		cmd = exec.Command("/bin/sh", append([]string{"-c", noNesting, cmd.Path}, args...)...)
	}
	cmd.Env = []string{"PATH=" + sandboxPath}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if users.mapped {
		mapUsers(cmd.SysProcAttr)
	}
	return cmd
}

// devices makes the sandbox's /dev. As an ordinary user bubblewrap would need a
// second user namespace for terminals of the sandbox's own, and nobody could
// enter the first one again; there the terminals are the machine's.
func devices(users accounts) []string {
	if users.mapped {
		return []string{"--dev", "/dev"}
	}
	args := []string{"--tmpfs", "/dev", "--dev-bind", "/dev/pts", "/dev/pts", "--symlink", "pts/ptmx", "/dev/ptmx"}
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		args = append(args, "--dev-bind", "/dev/"+d, "/dev/"+d)
	}
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		args = append(args, "--symlink", "/proc/self/fd/"+strconv.Itoa(i), "/dev/"+name)
	}
	return append(args, "--symlink", "/proc/self/fd", "/dev/fd", "--dir", "/dev/shm", "--tmpfs", "/dev/shm")
}

// mapUsers makes the command's user namespace: root and user inside are ids
// outside that own nothing but the sandbox's files.
func mapUsers(a *syscall.SysProcAttr) {
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uidBase, Size: 1}, {ContainerID: userID, HostID: uidBase + userID, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: uidBase, Size: 1}, {ContainerID: 5, HostID: 5, Size: 1}, // tty, for /dev/pts
		{ContainerID: userID, HostID: uidBase + userID, Size: 1},
	}
	a.GidMappingsEnableSetgroups = true
	a.Credential = &syscall.Credential{}
}

// setUpNamespaces is the script of a basic jail's pid 1. The trees are bound to
// a staging place first, since either may lie below /tmp or /home, or below the
// place itself.
const setUpNamespaces = `set -e
cd "$0"
mount --make-rprivate /
for seat in $2; do mount --bind "$1" "$seat"; done
mount -t tmpfs -o mode=755 stage /mnt
mkdir /mnt/home /mnt/root /mnt/tmp
mount -c --bind home/user /mnt/home
mount -c --bind root /mnt/root
mount -c --bind tmp /mnt/tmp
cd /
if ! [ -d /home/user ]; then mount -t tmpfs -o mode=755 home /home; mkdir /home/user; fi
mount --bind /mnt/home /home/user
mount --bind /mnt/root /root
mount --bind /mnt/tmp /tmp
umount -l /mnt
mount -t proc proc /proc
read -r _ <&3 &
echo $$ >&3
wait $!`

// namespaceCommand is the holder of a basic jail.
func namespaceCommand(root string, users accounts, t *trust) *exec.Cmd {
	if t == nil {
		t = &trust{}
	}
	cmd := exec.Command("/bin/sh", "-c", setUpNamespaces, root, t.file, strings.Join(t.seats, " "))
	cmd.Env = []string{"PATH=" + sandboxPath}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWUSER,
	}
	if users.mapped {
		mapUsers(cmd.SysProcAttr)
		return cmd
	}
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return cmd
}
