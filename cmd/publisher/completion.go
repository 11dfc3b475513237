package main

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/query"
)

// completionCommand shows the library's completion command, with the shells we
// test.
func completionCommand(c *cli.Command) {
	c.Hidden = false
	c.Usage = "print a completion script for bash, zsh or fish"
	c.Description = "source <(publisher completion bash)"
	c.OnUsageError = usageError
	c.HideHelpCommand = true
	c.Action = groupAction
	c.Commands = slices.DeleteFunc(c.Commands, func(s *cli.Command) bool { return s.Name == "pwsh" })
	for _, shell := range c.Commands {
		shell.OnUsageError = usageError
		shell.Usage = "print the completion script for " + shell.Name
		if shell.Name == "fish" {
			shell.Description = "publisher completion fish | source"
		} else {
			shell.Description = "source <(publisher completion " + shell.Name + ")"
		}
	}
}

// completionPatience is how long a person waits after Tab before it feels
// broken. Without an answer there are simply no suggestions.
const completionPatience = 700 * time.Millisecond

// completes wraps a command so that Tab offers what list asks a worker for,
// beside the flags.
func (a *App) completes(cmd *cli.Command, list func(context.Context, *query.Client) ([]string, error)) *cli.Command {
	cmd.ShellComplete = func(ctx context.Context, cmd *cli.Command) {
		if args := cmd.Args().Slice(); len(args) > 0 && strings.HasPrefix(args[len(args)-1], "-") {
			cli.DefaultCompleteWithFlags(ctx, cmd)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, completionPatience)
		defer cancel()
		c, err := a.connect(ctx, cmd, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		defer c.Close()
		names, err := list(ctx, c.ask)
		if err != nil {
			return
		}
		_, _ = io.WriteString(cmd.Root().Writer, strings.Join(append(names, ""), "\n"))
	}
	return cmd
}

func sessionNames(ctx context.Context, ask *query.Client) ([]string, error) {
	page, err := ask.Sessions(ctx, query.SessionListRequest{Limit: 100})
	var names []string
	for _, s := range page.Sessions {
		names = append(names, s.Session+":"+string(s.State))
	}
	return names, err
}

func jobNames(ctx context.Context, ask *query.Client) ([]string, error) {
	page, err := ask.Jobs(ctx, query.JobListRequest{Limit: 50})
	var names []string
	for _, j := range page.Jobs {
		names = append(names, j.Job+":"+j.Kind+" "+j.State)
	}
	return names, err
}
