package main

import (
	"strings"

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

// signalNumber reads "SIGKILL" and "kill"; an unknown name counts as KILL.
func signalNumber(name string) int {
	if n, ok := linuxSignals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]; ok {
		return n
	}
	return linuxSignals["KILL"]
}

// linuxSignals are the sandbox's, whatever we run on.
var linuxSignals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10,
	"SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "XCPU": 24, "XFSZ": 25, "SYS": 31,
}
