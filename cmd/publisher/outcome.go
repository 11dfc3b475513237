package main

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// outcome turns a job's end into our own. A command that ended by itself
// speaks for itself; every other end is explained in one line.
func outcome(job events.Job, end ending) error {
	code := codeOf(end)
	if code == 0 {
		return nil
	}
	if spoke(end) {
		return &exitCode{code: code}
	}
	return &exitCode{code: code, err: verdict(job, end)}
}

// spoke reports whether the end is the command's own doing.
func spoke(end ending) bool {
	return end.Kind == events.Failed && end.Outcome.Class == string(jobs.ClassCommandFailed) &&
		end.Outcome.ExitCode != nil
}

// codeOf is the exit code for a job's end.
func codeOf(end ending) int {
	o := end.Outcome
	switch {
	case end.Kind == events.Succeeded:
		return 0
	case end.Kind == events.Cancelled:
		return exitCancelled
	case end.Kind == events.Failed:
		return codeOfFailure(o)
	}
	return exitNotRun
}

func codeOfFailure(o events.Outcome) int {
	switch jobs.Class(o.Class) {
	case jobs.ClassCommandTimeout, jobs.ClassSilentTimeout:
		return exitTimeout
	case jobs.ClassCommandFailed:
		if o.Signal != "" {
			return 128 + signalNumber(o.Signal)
		}
		if o.ExitCode != nil && *o.ExitCode > 0 && *o.ExitCode < 256 {
			return *o.ExitCode
		}
	}
	return exitNotRun
}

// signalNumber reads "SIGKILL" and "KILL"; an unknown name counts as KILL's.
func signalNumber(name string) int {
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + strings.ToUpper(name)
	}
	if n := unix.SignalNum(name); n > 0 {
		return int(n)
	}
	return int(unix.SIGKILL)
}
