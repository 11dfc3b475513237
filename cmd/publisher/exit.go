package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

// Exit codes. A command's own code goes through as it is, so what publisher
// itself has to say about run and follow stays clear of the low numbers.
const (
	exitError     = 1   // anything else went wrong
	exitUsage     = 2   // the command line is wrong
	exitTimeout   = 124 // the command ran into a time limit
	exitNotRun    = 125 // the job could not be run, or not be followed
	exitCancelled = 130 // the job was cancelled, or we were told to let go
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// exitCode carries an exit code. Without err it is silent.
type exitCode struct {
	code int
	err  error
}

func (e *exitCode) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitCode) Unwrap() error { return e.err }

// usageErr is a fault in the command line, as opposed to one met while doing
// what it says.
type usageErr struct {
	cmd *cli.Command // whose help to read
	err error
}

func (e *usageErr) Error() string { return e.err.Error() }
func (e *usageErr) Unwrap() error { return e.err }

// code keeps faults in the command lines of run and follow apart from what the
// command that they show may exit with.
func (e *usageErr) code() int {
	if name := e.cmd.Name; name == "run" || name == "follow" {
		return exitNotRun
	}
	return exitUsage
}

// usagef returns a usageErr for cmd.
func usagef(cmd *cli.Command, format string, args ...any) error {
	return &usageErr{cmd: cmd, err: fmt.Errorf(format, args...)}
}

// usageError is what the flag parser calls. Its words are for programmers.
func usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	text := strings.NewReplacer("flag provided but not defined: -", "no flag --", "flag needs an argument: ", "a value is missing after ", "for flag -", "for --").Replace(err.Error())
	if cmd.Name == "run" && strings.HasPrefix(text, "no flag") {
		text += "; flags of the command to run go after --"
	}
	return usagef(cmd, "%s", text)
}

// unknown is the error for a subcommand that cmd does not have.
func unknown(cmd *cli.Command) error {
	name := cmd.Args().First()
	if name == "help" && cmd.Args().Len() > 1 {
		name = cmd.Args().Get(1)
	}
	var names []string
	for _, c := range cmd.VisibleCommands() {
		if strings.HasPrefix(c.Name, name) || strings.HasPrefix(name, c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) > 0 {
		return usagef(cmd, "no command %q; did you mean %s?", name, strings.Join(names, " or "))
	}
	return usagef(cmd, "no command %q", name)
}

// report prints err, if it has something to say, and returns the exit code.
func (a *App) report(err error) int {
	if err == nil {
		return 0
	}
	var exit *exitCode
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	a.note("%s", firstLine(err))
	var usage *usageErr
	if errors.As(err, &usage) {
		a.note("see %s --help", usage.cmd.FullName())
	}
	switch {
	case exit != nil:
		return exit.code
	case usage != nil:
		return usage.code()
	case errors.Is(err, errInterrupted):
		return exitCancelled
	}
	return exitError
}

// note prints one line for people on stderr.
func (a *App) note(format string, args ...any) {
	a.console.Note(fmt.Sprintf("publisher: "+format, args...))
}

// withCode gives every error of an action that carries no code of its own the
// code: run and follow must not look like the command that they show.
func withCode(code int, err error) error {
	var exit *exitCode
	if err == nil || errors.As(err, &exit) {
		return err
	}
	if errors.Is(err, errInterrupted) {
		code = exitCancelled
	}
	return &exitCode{code: code, err: err}
}

// firstLine keeps a message to one line, whatever a server put into it.
func firstLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", " ")), " ")
}
