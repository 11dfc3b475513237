package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"
)

// level is how good or bad a finding is.
type level string

const (
	ok      level = "ok"
	warning level = "warning" // works, but look at it
	problem level = "problem" // does not work
)

// finding is what one check of doctor found.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Says  string `json:"says"`
	ToDo  string `json:"to_do,omitempty"`
}

func (a *App) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "look at the deployment from here and say what to repair",
		Description: "publisher doctor --context prod",
		Flags: append(reconcileFlags(), &cli.StringFlag{
			Name: "policy", Usage: "look at nothing but the policy `FILE`, before a worker gets it", TakesFile: true,
		}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArgs(cmd); err != nil {
				return err
			}
			if file := cmd.String("policy"); file != "" {
				if cmd.Bool("reconcile") || cmd.Bool("dry-run") {
					return usagef(cmd, "--policy asks nobody: leave out --reconcile and --dry-run")
				}
				return a.conclude(cmd, examinePolicy(file))
			}
			if cmd.Bool("reconcile") {
				return a.connected(a.reconcile)(ctx, cmd)
			}
			if cmd.Bool("dry-run") {
				return usagef(cmd, "--dry-run goes with --reconcile")
			}
			return a.doctor(ctx, cmd)
		},
	}
}

func (a *App) doctor(ctx context.Context, cmd *cli.Command) error {
	var found []finding
	c, err := a.dial(ctx, cmd)
	if err != nil {
		if errors.Is(err, errInterrupted) {
			return err
		}
		found = append(found, finding{"nats", problem, firstLine(err), "start the server, or check --server, --context and --creds"})
	} else {
		defer c.Close()
		found = c.examine(ctx)
	}
	return a.conclude(cmd, found)
}

// conclude prints what was found. A problem is exit code 1.
func (a *App) conclude(cmd *cli.Command, found []finding) error {
	if err := a.printFindings(cmd, found); err != nil {
		return err
	}
	for _, f := range found {
		if f.Level == problem {
			return &exitCode{code: exitError}
		}
	}
	return nil
}

func (a *App) printFindings(cmd *cli.Command, found []finding) error {
	if cmd.Bool("json") {
		return a.printJSON(struct {
			Findings []finding `json:"findings"`
		}{found})
	}
	var rows [][]string
	for _, f := range found {
		says := f.Says
		if f.ToDo != "" {
			says += ": " + f.ToDo
		}
		rows = append(rows, []string{f.Check, a.paint(string(f.Level)), says})
	}
	return a.table([]string{"check", "result", "says"}, rows)
}

func fine(check, format string, args ...any) finding {
	return finding{Check: check, Level: ok, Says: fmt.Sprintf(format, args...)}
}
