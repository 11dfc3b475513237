package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// helloTimeout bounds how long a started shell may take to say its pid.
const helloTimeout = 20 * time.Second

// ctl is our end of a socket to a shell in a sandbox. The shell writes its pid
// as it sees it; the kernel adds the pid as we see it; the shell then waits
// for a line. When our end closes the shell reads the end of the file: a
// sandbox cannot outlive its server.
type ctl struct{ conn *net.UnixConn }

// newCtl returns our end and the one to hand to the shell as fd 3.
func newCtl() (*ctl, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "ctl")
	ours := os.NewFile(uintptr(fds[0]), "ctl")
	defer ours.Close() // FileConn makes its own copy
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("pass credentials: %w", err)
	}
	c, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("socket: %w", err)
	}
	return &ctl{conn: c.(*net.UnixConn)}, theirs, nil
}

// hello waits for the shell: its pid inside the sandbox and outside.
func (c *ctl) hello() (inside, outside int, err error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(helloTimeout))
	buf, oob := make([]byte, 64), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := c.conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return 0, 0, fmt.Errorf("hello: %w", err)
	}
	if n == 0 {
		return 0, 0, errors.New("hello: it ended first")
	}
	inside, err = strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0, 0, fmt.Errorf("hello: %w", err)
	}
	msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) == 0 {
		return 0, 0, fmt.Errorf("hello: no credentials: %w", err)
	}
	cred, err := syscall.ParseUnixCredentials(&msgs[0])
	if err != nil {
		return 0, 0, fmt.Errorf("hello: credentials: %w", err)
	}
	return inside, int(cred.Pid), nil
}

// release lets the shell go on.
func (c *ctl) release() error {
	if _, err := c.conn.Write([]byte("go\n")); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

func (c *ctl) close() { _ = c.conn.Close() }

// pidfd holds one process, whatever becomes of its number.
type pidfd struct{ f *os.File }

func openPidfd(pid int) (*pidfd, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("pidfd of %d: %w", pid, err)
	}
	return &pidfd{f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// signal sends a signal; a process that is gone is os.ErrProcessDone.
func (p *pidfd) signal(sig syscall.Signal) error {
	rc, err := p.f.SyscallConn()
	if err != nil {
		return fmt.Errorf("signal: %w", err)
	}
	var sent error
	if err := rc.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return fmt.Errorf("signal: %w", err)
	}
	if errors.Is(sent, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return sent
}

// wait returns when the process has ended or the pidfd is closed. No thread
// waits meanwhile: the runtime's poller does.
func (p *pidfd) wait() {
	rc, err := p.f.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
}

func (p *pidfd) close() { _ = p.f.Close() }
