package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// jail is the running part of a sandbox: a shell that holds its namespaces
// open, and the way in. It ends with the server that made it.
type jail struct {
	*machine
	level  Isolation
	id     string
	group  *group
	disk   *disk
	root   string // the sandbox's own tree, as the machine sees it
	tree   *tree
	holder int // pid, outside, of the shell that holds the jail
	life   *ctl
	cmd    *exec.Cmd
	init   *pidfd        // pid 1 of the jail; with None, the holder
	done   chan struct{} // closed when the jail is no more
	net    *os.File      // its network; nil where that is the machine's

	stopped map[int]bool // with None, what freeze stopped
}

// hold is the shell's script: say the pid, then live until the server goes.
const hold = `echo $$ >&3; read -r _ <&3`

// startJail brings the sandbox id up on its disk.
func (m *machine) startJail(level Isolation, id string, d *disk) (*jail, error) {
	j := &jail{machine: m, level: level, id: id, disk: d, root: d.root, done: make(chan struct{})}
	if err := layout(j.root, m.users, level == Strong); err != nil {
		return nil, err
	}
	group, err := m.groups.make(id, m.bounds)
	if err != nil {
		return nil, fmt.Errorf("start sandbox %s (%s): %w", id, level, err)
	}
	j.group = group
	life, theirs, err := newCtl()
	if err != nil {
		group.remove()
		return nil, err
	}
	j.life = life
	err = j.start(theirs)
	theirs.Close()
	if err != nil {
		life.close()
		group.remove()
		return nil, fmt.Errorf("start sandbox %s (%s): %w", id, level, err)
	}
	if err := j.settle(); err != nil {
		j.kill()
		return nil, fmt.Errorf("start sandbox %s (%s): %w", id, level, err)
	}
	return j, nil
}

// start starts the holder; from here on kill works.
func (j *jail) start(theirs *os.File) error {
	info, infoW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	defer info.Close()
	root, trust, start := j.root, j.trust, j.forks.start
	if j.users.mapped && j.level != None {
		root, trust, start = stagedRoot, trust.at(stagedTrust), j.stage
	}
	switch j.level {
	case Strong:
		j.cmd = bwrapCommand(root, j.users, j.ownNetwork(j.level), trust)
	case Basic:
		j.cmd = namespaceCommand(root, j.users, trust)
	default:
		j.cmd = exec.Command("/bin/sh", "-c", hold)
		j.cmd.Env = []string{"E2B_SANDBOX_ID=" + j.id}
		j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	var stderr limitedBuffer
	j.cmd.Stderr = &stderr
	j.cmd.ExtraFiles = []*os.File{theirs, infoW}
	err = start(j.cmd)
	infoW.Close()
	if err != nil {
		return err
	}
	pid := j.cmd.Process.Pid
	if j.level == Strong {
		pid, err = readChildPid(info)
	}
	if err == nil {
		j.init, err = openPidfd(pid)
	}
	if err != nil {
		_ = j.cmd.Process.Kill()
		_ = j.cmd.Wait()
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	go j.watch()
	return nil
}

// settle waits until the jail is as it should be and opens its tree.
func (j *jail) settle() error {
	_, outside, err := j.life.hello()
	if err != nil {
		return fmt.Errorf("%w: %v", err, j.cmd.Stderr)
	}
	j.holder = outside
	if err := j.openNetwork(); err != nil {
		return err
	}
	root := j.root
	if j.level == Strong {
		root = "/proc/" + strconv.Itoa(outside) + "/root"
	}
	j.tree, err = openTree(root)
	if err != nil {
		return err
	}
	if j.level == None {
		return j.tree.alias(j.root)
	}
	return nil
}

// watch closes done when nothing of the jail is left.
func (j *jail) watch() {
	j.init.wait()
	_ = j.cmd.Wait()
	close(j.done)
}

// kill ends every process of the jail and waits until they are gone.
func (j *jail) kill() {
	j.group.killAll()
	if j.level == None {
		_ = j.signalPlain(syscall.SIGKILL)
	}
	_ = j.init.signal(syscall.SIGKILL)
	<-j.done
	j.group.remove()
	j.life.close()
	j.init.close()
	closeAll(j.net)
	if j.tree != nil {
		j.tree.close()
	}
}

// freeze stops every process of the jail, thaw lets them go on.
func (j *jail) freeze(ctx context.Context) error {
	if j.group.freeze == "" {
		return j.signalAll(ctx, syscall.SIGSTOP)
	}
	ctx, cancel := context.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	err := j.group.setFrozen(ctx, true)
	if err != nil { // all or nothing
		err = errors.Join(err, j.group.setFrozen(context.WithoutCancel(ctx), false))
	}
	return err
}

func (j *jail) thaw(ctx context.Context) error {
	if j.group.freeze == "" {
		return j.signalAll(ctx, syscall.SIGCONT)
	}
	return j.group.setFrozen(ctx, false)
}

// freezeTimeout bounds how long the kernel may take to freeze: a process that
// waits for a dead disk does not freeze.
const freezeTimeout = 20 * time.Second

// signalAll reaches all processes in one step: from inside the pid namespace,
// -1 is everyone but pid 1 and the sender, and none can fork away.
func (j *jail) signalAll(ctx context.Context, sig syscall.Signal) error {
	if j.level == None {
		return j.signalPlain(sig)
	}
	host, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return fmt.Errorf("signal %d to sandbox %s: %w", sig, j.id, err)
	}
	su, _ := j.users.byName("root")
	// Should the holder be gone and its pid taken anew, -1 must not be everyone
	// on this machine.
	script := fmt.Sprintf(`[ "$(readlink /proc/self/ns/pid)" != '%s' ] && kill -%d -1`, host, int(sig))
	args := append(j.nsenter(su, "--user", "--pid"), "/bin/sh", "-c", script)
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("signal %d to sandbox %s: %w: %s", sig, j.id, err, out)
	}
	return nil
}

// nsenter is the command line that joins the jail's namespaces as a user.
func (j *jail) nsenter(u account, spaces ...string) []string {
	args := append([]string{nsenterPath, "--target", strconv.Itoa(j.holder)}, spaces...)
	if !j.users.mapped {
		return append(args, "--preserve-credentials", "--")
	}
	id := strconv.Itoa(u.inner)
	return append(args, "--setuid", id, "--setgid", id, "--")
}

// dropCaps takes from whoever is inside what could reach outside, for good: it
// leaves to root there what acts on files and processes of its own.
var dropCaps = []string{
	setprivPath, "--inh-caps=-all",
	"--bounding-set=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service",
}

// entry is the command line in front of every command of a user.
func (j *jail) entry(u account) []string {
	if j.level == None {
		return nil
	}
	spaces := []string{"--user", "--mount", "--pid", "--ipc", "--uts"}
	if j.net != nil {
		spaces = append(spaces, "--net")
	}
	if !j.users.mapped {
		return j.nsenter(u, spaces...)
	}
	su, _ := j.users.byName("root") // who else may give capabilities up
	args := append(j.nsenter(su, spaces...), dropCaps...)
	if u.inner != 0 {
		id := strconv.Itoa(u.inner)
		args = append(args, "--reuid="+id, "--regid="+id, "--clear-groups")
	}
	return append(args, "--")
}

// hostPath is where a command has to look for a path of the sandbox.
func (j *jail) hostPath(path string) string {
	if j.level == None {
		return filepath.Join(j.root, path)
	}
	return path
}

func readChildPid(r io.Reader) (int, error) {
	var info struct {
		Pid int `json:"child-pid"`
	}
	if err := json.NewDecoder(r).Decode(&info); err != nil {
		return 0, fmt.Errorf("bwrap: %w", err)
	}
	if info.Pid == 0 {
		return 0, errors.New("bwrap: no child pid")
	}
	return info.Pid, nil
}
