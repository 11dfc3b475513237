package spool

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Why a command was ended before it ended by itself.
const (
	StopTimeout   = "timeout"   // its time limit
	StopSilent    = "silent"    // no output for too long
	StopCancelled = "cancelled" // somebody asked
	StopAbandoned = "abandoned" // its job ended, or went on, without it
	StopCwd       = "cwd"       // it never began: the working directory is not there
)

// Result is how a command ended.
type Result struct {
	// Code is the exit code; 128 + n for a command killed by signal n, as
	// shells have it.
	Code int
	// Stop says who ended it; empty if it ended by itself.
	Stop   string
	Stdout Spool
	Stderr Spool
}

// Spool is what a command has written to one of its outputs.
type Spool struct {
	Size    int64  // bytes kept
	Dropped int64  // bytes past the cap
	SHA256  string // of the bytes kept, as the sandbox computed it; empty if it has no sha256sum
}

var signals = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS",
	8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2",
	13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}

// Signal names the signal that Code stands for by the shells' convention, or
// is empty.
func (r Result) Signal() string { return signals[r.Code-128] }

// parseResult reads an exit record. A record without all its numbers is an
// error: a half-read one must not look like success.
func parseResult(r io.Reader) (Result, error) {
	fields := map[string]string{}
	sc := bufio.NewScanner(io.LimitReader(r, 8<<10))
	for sc.Scan() {
		if k, v, ok := strings.Cut(sc.Text(), "="); ok {
			fields[k] = v
		}
	}
	if err := sc.Err(); err != nil {
		return Result{}, fmt.Errorf("read exit record: %w", err)
	}
	var bad error
	number := func(key string) int64 {
		n, err := strconv.ParseInt(fields[key], 10, 64)
		if (err != nil || n < 0) && bad == nil {
			bad = fmt.Errorf("%w: exit record: %s is %.40q, want a number", ErrDamaged, key, fields[key])
		}
		return n
	}
	res := Result{
		Code:   int(number("code")),
		Stop:   fields["stop"],
		Stdout: Spool{Size: number("out"), Dropped: number("out_dropped"), SHA256: fields["out_sha256"]},
		Stderr: Spool{Size: number("err"), Dropped: number("err_dropped"), SHA256: fields["err_sha256"]},
	}
	return res, bad
}
