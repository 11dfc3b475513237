package local

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// signalPlain signals the processes of a jail without namespaces, in rounds
// until no new one turns up: they may fork meanwhile. What was stopped is
// remembered, because it may have lost its mark on the way.
func (j *jail) signalPlain(sig syscall.Signal) error {
	seen := make(map[int]bool)
	send := func(pid int) error {
		if seen[pid] {
			return nil
		}
		seen[pid] = true
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %d to %d: %w", sig, pid, err)
		}
		return nil
	}
	for pid := range j.stopped {
		if err := send(pid); err != nil {
			return err
		}
	}
	for before := -1; before < len(seen); {
		before = len(seen)
		for _, pid := range j.plainProcesses() {
			if err := send(pid); err != nil {
				return err
			}
		}
	}
	j.stopped = nil
	if sig == syscall.SIGSTOP {
		j.stopped = seen
	}
	return nil
}

// plainProcesses finds the sandbox's processes: by the mark in their
// environment, by the holder's process group, and whatever descends from these.
// One that shed all three gets away: the price of None.
func (j *jail) plainProcesses() []int {
	mark := []byte("E2B_SANDBOX_ID=" + j.id)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	parents := make(map[int]int, len(dirs))
	ours := make(map[int]bool)
	for _, d := range dirs {
		pid, parent, group, ok := readStat(d)
		if !ok {
			continue
		}
		parents[pid] = parent
		env, _ := os.ReadFile(filepath.Join(d, "environ")) // not ours to read is not ours
		if hasLine(env, mark) || (j.holder != 0 && group == j.holder) {
			ours[pid] = true
		}
	}
	for before := -1; before < len(ours); {
		before = len(ours)
		for pid, parent := range parents {
			if ours[parent] {
				ours[pid] = true
			}
		}
	}
	return slices.Collect(maps.Keys(ours))
}

// readStat reads who a process is from its directory below /proc.
func readStat(dir string) (pid, parent, group int, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0, 0, false
	}
	// The name in brackets may hold anything; what follows it does not.
	_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ")
	var state string
	if _, err := fmt.Sscan(rest, &state, &parent, &group); err != nil {
		return 0, 0, 0, false
	}
	pid, err = strconv.Atoi(filepath.Base(dir))
	return pid, parent, group, err == nil
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
