package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/sandjet/sandjet/internal/stack"
)

// Child is a process of the rig. Its methods may be called concurrently.
type Child struct {
	Name string
	Log  string // the file that has all it said

	cmd  *exec.Cmd
	over chan struct{} // closed when it is gone
}

// start runs a program; what it says is added to the file log.
func start(name, log string, cmd *exec.Cmd) (*Child, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c := &Child{Name: name, Log: log, cmd: cmd, over: make(chan struct{})}
	if err := stack.StartTied(cmd, func() { _ = cmd.Wait(); close(c.over) }); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// PID is the process's id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Kill ends the process as a crash would, and waits for it.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.over
}

// Alive reports whether the process is there.
func (c *Child) Alive() bool {
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}

// Stop asks the process to end and waits; after the limit it is killed, and the
// error says so.
func (c *Child) Stop(limit time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-c.over:
		return nil
	case <-time.After(limit):
		c.Kill()
		return fmt.Errorf("%s did not stop within %s", c.Name, limit)
	}
}

// Freeze stops the process where it stands and reports whether it stands.
func (c *Child) Freeze() bool {
	_ = c.cmd.Process.Signal(syscall.SIGSTOP)
	for range 100 {
		if c.state() == "T" {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// Thaw lets a frozen process go on.
func (c *Child) Thaw() { _ = c.cmd.Process.Signal(syscall.SIGCONT) }

// state is the letter that the kernel has for what the process does.
func (c *Child) state() string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID()))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(1, len(rest))]
}

// said waits until the process's log, from an offset on, holds a word.
func (c *Child) said(word string, from int64, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		if b, err := os.ReadFile(c.Log); err == nil && int64(len(b)) > from && bytes.Contains(b[from:], []byte(word)) {
			return nil
		}
		if !c.Alive() {
			return errors.New(c.Name + " ended at once: " + c.Tail(400))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has not said %q within %s: %s", c.Name, word, limit, c.Tail(400))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Tail is the end of what the process said.
func (c *Child) Tail(n int) string {
	b, _ := os.ReadFile(c.Log)
	return strings.TrimSpace(string(b[max(0, len(b)-n):]))
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Peak is the most memory that the process ever held, 0 if it is gone.
func (c *Child) Peak() int64 { return c.status("VmHWM:") }

// Memory is what it holds now.
func (c *Child) Memory() int64 { return c.status("VmRSS:") }

// Threads is how many threads it has.
func (c *Child) Threads() int { return int(c.status("Threads:") >> 10) }

// Files is how many files and sockets it has open.
func (c *Child) Files() int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.PID()))
	return len(list)
}

// status reads a line of the kernel's page on the process, in bytes.
func (c *Child) status(name string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if rest, ok := strings.CutPrefix(line, name); ok {
			_, _ = fmt.Sscan(rest, &kb)
			return kb << 10
		}
	}
	return 0
}
