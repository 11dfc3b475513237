//go:build faultpoints

package point

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Built reports whether the points are compiled in.
const Built = true

// Before is passed right before an effect. An error means that the effect must
// not be done: the call has failed.
func Before(_ context.Context, at At) error {
	name := at.String()
	record(name)
	switch r := armed.before(name); {
	case r == nil:
		return nil
	case r.fault == failing:
		record("fired " + r.String())
		return fmt.Errorf("%s: %w", name, ErrFailed)
	case r.fault == pausing:
		record("fired " + r.String())
		freeze(r.pause)
		record("woke " + r.String())
	}
	return nil
}

// After is passed between an effect and its record. An error means that the
// caller must take the answer for lost.
func After(_ context.Context, at At) error {
	name := at.String()
	r := armed.after(name)
	if r == nil {
		return nil
	}
	record("fired " + r.String())
	if r.fault == crashing {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return fmt.Errorf("%s: %w", name, ErrLost)
}

// Off reports whether a mechanism is switched off.
func Off(s Switch) bool { return off[s] }

var (
	armed *plan
	off   map[Switch]bool
	log   struct {
		sync.Mutex
		file *os.File
	}
)

func init() {
	var err error
	if armed, err = parsePlan(os.Getenv("SANDJET_POINTS")); err == nil {
		off, err = parseOff(os.Getenv("SANDJET_OFF"))
	}
	if path := os.Getenv("SANDJET_POINTS_LOG"); path != "" && err == nil {
		if log.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			err = fmt.Errorf("SANDJET_POINTS_LOG: %w", err)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// record appends a line to the log, if there is one.
func record(line string) {
	log.Lock()
	defer log.Unlock()
	if log.file != nil {
		_, _ = log.file.WriteString(line + "\n") // what is not written was not reached: the sweep says so
	}
}

// freeze stops the process, as a machine that sleeps would, and has it go on
// after d. Its child does the waking: a stopped process cannot.
func freeze(d time.Duration) {
	begun := time.Now()
	wake := exec.Command("/bin/sh", "-c", `sleep "$1"; kill -CONT "$2"`, "wake",
		strconv.FormatFloat(d.Seconds(), 'f', 3, 64), strconv.Itoa(os.Getpid()))
	if err := wake.Start(); err != nil {
		record("not paused: " + err.Error())
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	// The signal may take a moment to reach this thread.
	for time.Since(begun) < d {
		time.Sleep(time.Millisecond)
	}
	go func() { _ = wake.Wait() }()
}
