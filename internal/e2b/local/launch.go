package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// sandboxPath is the PATH of a sandbox's commands.
const sandboxPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// command is what a client wants to run.
type command struct {
	user  account
	dir   string // as the sandbox sees it
	env   []string
	argv  []string
	stdin bool
	size  *winsize // of the terminal; nil means pipes
}

type winsize struct{ cols, rows uint16 }

// launched is a command that waits at the start line: its pid is known, its
// pipes are ours, and it runs once ctl is released.
type launched struct {
	pid    int // inside
	proc   *pidfd
	ctl    *ctl
	cmd    *exec.Cmd
	stdin  *os.File // or nil
	stdout *os.File // nil with a terminal
	stderr *os.File // nil with a terminal
	tty    *os.File // nil with pipes
}

// startLine is the script between the way in and the command: it says its pid,
// waits to be released and becomes the command. A command that does not exist
// exits with 127, as with envd.
const startLine = `echo $$ >&3; read -r _ <&3 || exit 126; exec 3>&-; cd -- "$1" || exit 126; shift; exec "$@"`

// launch brings a command to the start line.
func (j *jail) launch(c command) (*launched, error) {
	ctl, theirs, err := newCtl()
	if err != nil {
		return nil, err
	}
	l := &launched{ctl: ctl}
	ends, err := l.openStreams(j, c)
	ends = append(ends, theirs)
	defer closeAll(ends...) // the command has its own copies by then
	if err != nil {
		l.close()
		return nil, err
	}
	l.cmd = j.command(c)
	l.cmd.ExtraFiles = []*os.File{theirs}
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = ends[0], ends[1], ends[2]
	if err := j.forks.start(l.cmd); err != nil {
		l.close()
		return nil, err
	}
	closeAll(ends...)
	if err := l.meet(j); err != nil {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
		l.close()
		return nil, err
	}
	return l, nil
}

// meet learns who the command is and puts it under the sandbox's limits.
func (l *launched) meet(j *jail) error {
	inside, outside, err := l.ctl.hello()
	if err != nil {
		return err
	}
	l.pid = inside
	if l.proc, err = openPidfd(outside); err != nil {
		return err
	}
	return j.bound(outside)
}

// openStreams makes the pipes or the terminal; what it returns are the
// command's ends: stdin, stdout, stderr.
func (l *launched) openStreams(j *jail, c command) ([]*os.File, error) {
	if c.size != nil {
		tty, slave, err := j.openTerminal(*c.size)
		if err != nil {
			return []*os.File{nil, nil, nil}, err
		}
		l.tty = tty
		return []*os.File{slave, slave, slave}, nil
	}
	var ends [3]*os.File
	var err error
	if c.stdin {
		ends[0], l.stdin, err = os.Pipe()
	} else {
		ends[0], err = os.Open(os.DevNull)
	}
	if err == nil {
		l.stdout, ends[1], err = os.Pipe()
	}
	if err == nil {
		l.stderr, ends[2], err = os.Pipe()
	}
	return ends[:], err
}

// command is the whole command line: the way in, the start line, a clean
// environment and what the client asked for. The environment goes through env
// because what leads in runs with our rights and must not see the client's
// LD_PRELOAD.
func (j *jail) command(c command) *exec.Cmd {
	args := j.entry(c.user)
	if c.size != nil && j.level != None {
		args = append(args, "setsid", "--ctty")
	}
	args = append(args, "/bin/sh", "-c", startLine, "sh", j.hostPath(c.dir), "env", "-i", "--")
	args = append(args, c.env...)
	if strings.Contains(c.argv[0], "=") { // env would take it for a variable
		args = append(args, "/bin/sh", "-c", `exec "$@"`, "sh")
	}
	args = append(args, c.argv...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + sandboxPath, "E2B_SANDBOX_ID=" + j.id}
	switch {
	case j.level != None: // out of our terminal's reach
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	case c.size != nil:
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	default: // no group leader, as with envd
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: j.holder}
	}
	return cmd
}

func (l *launched) close() {
	if l.ctl != nil {
		l.ctl.close()
	}
	if l.proc != nil {
		l.proc.close()
	}
	closeAll(l.stdin, l.stdout, l.stderr, l.tty)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// errStart is a command that could not be started for the client's own fault.
var errStart = errors.New("error starting process")

func (c command) check() error {
	for _, s := range append(append([]string{c.dir}, c.argv...), c.env...) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%w: a string holds a zero byte", errStart)
		}
	}
	return nil
}
