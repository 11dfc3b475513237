package spool

import (
	"strconv"
	"time"
)

// Command is what to run, and within which limits. Limits are kept in the
// sandbox, by whole seconds, so they hold while no worker is there.
type Command struct {
	Argv []string
	Env  map[string]string
	Cwd  string // absolute, or from the home directory; empty is the home directory
	User string // empty is the sandbox's default user
	// Stdin is what the command reads; nil is /dev/null.
	Stdin []byte

	// Secrets are given to the command in its environment; nil is none.
	Secrets *Secrets

	Timeout time.Duration // 0 = none
	Silent  time.Duration // longest time without output; 0 = none
	Grace   time.Duration // between TERM and KILL
	Cap     int64         // bytes kept of each output; 0 = no cap
}

// Shell returns the argv that runs a line of shell: bash as a login shell where
// there is one, as E2B's own tools do, else sh.
func Shell(line string) []string {
	return []string{
		"/bin/sh", "-c",
		`if command -v bash >/dev/null 2>&1; then exec bash -l -c "$1"; else exec sh -c "$1"; fi`,
		"sandjet-shell", line,
	}
}

// args are the runner's arguments after the directory.
func (c Command) args() []string {
	return append([]string{
		seconds(c.Timeout), seconds(c.Silent), seconds(c.Grace),
		strconv.FormatInt(c.Cap, 10), c.Cwd, c.secrets(),
	}, c.Argv...)
}

func (c Command) secrets() string {
	if c.Secrets == nil {
		return ""
	}
	return "secrets"
}

// seconds writes d in whole seconds, rounded up: a limit is never shorter than
// what was asked.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
