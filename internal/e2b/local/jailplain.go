package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// signalPlain signals the processes of a jail without namespaces, in rounds
// until no new one turns up: they may fork meanwhile.
func (j *jail) signalPlain(sig string) error {
	num := map[string]syscall.Signal{"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "KILL": syscall.SIGKILL}[sig]
	seen := make(map[int]bool)
	for fresh := true; fresh; {
		fresh = false
		for _, pid := range j.plainProcesses() {
			if seen[pid] {
				continue
			}
			seen[pid], fresh = true, true
			if err := syscall.Kill(pid, num); err != nil && err != syscall.ESRCH {
				return fmt.Errorf("signal %s to %d: %w", sig, pid, err)
			}
		}
	}
	return nil
}

func (j *jail) killPlain() { _ = j.signalPlain("KILL") }

// plainProcesses finds the sandbox's processes by the mark in their
// environment. One that wipes its environment gets away: the price of None.
func (j *jail) plainProcesses() []int {
	mark := []byte("E2B_SANDBOX_ID=" + j.id)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, d := range dirs {
		env, err := os.ReadFile(filepath.Join(d, "environ"))
		if err != nil || !hasLine(env, mark) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

func hasLine(env, line []byte) bool {
	for l := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(l, line) {
			return true
		}
	}
	return false
}

// limitedBuffer keeps the first bytes of what a helper complains about.
type limitedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := 4096 - l.b.Len(); room > 0 {
		l.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (l *limitedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
