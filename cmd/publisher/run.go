package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/wire"
)

// stdinLimit keeps a body below NATS's usual message limit of 1 MiB.
const stdinLimit = 512 << 10

func (a *App) runCommand() *cli.Command {
	one := 1
	return &cli.Command{
		Name:         "run",
		Usage:        "run a command in a session's sandbox and show its output",
		UsageText:    "publisher run [flags] -- argv...",
		Description:  "publisher run --session s1 -e CI=1 -- go test ./...",
		StopOnNthArg: &one, // what follows argv[0] is the command's
		Flags: slices.Concat([]cli.Flag{
			sessionFlag("session `ID`; without one the command gets a sandbox of its own that goes when it ends"),
			&cli.BoolFlag{Name: "shell", Usage: "the one argument is a shell command line"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "environment `K=V`, or K alone to pass ours on; may be repeated"},
			&cli.StringSliceFlag{Name: "secret", Usage: "`NAME` of a secret that the worker knows, given as the variable of that name, or VAR=NAME; may be repeated"},
			&cli.StringFlag{Name: "cwd", Usage: "working `DIR` in the sandbox"},
			&cli.StringFlag{Name: "user", Usage: "run as `USER` of the sandbox"},
			&cli.StringFlag{Name: "stdin", Usage: "feed the command `FILE`, - being our own stdin"},
			&cli.DurationFlag{Name: "timeout", Usage: "end the command after `DURATION` (5m unless given)", HideDefault: true, Validator: positive},
			&cli.DurationFlag{Name: "silent-timeout", Usage: "end the command after `DURATION` without output", HideDefault: true, Validator: positive},
			&cli.IntSliceFlag{Name: "retry-on-exit", Usage: "exit `CODE` worth another attempt; may be repeated"},
			&cli.IntFlag{Name: "max-attempts", Usage: "`N` attempts at most (3 unless given)", HideDefault: true, Validator: atLeastOne},
			&cli.DurationFlag{Name: "expires-in", Usage: "give up if it has not begun after `DURATION`", HideDefault: true, Validator: positive},
			&cli.DurationFlag{Name: "delay", Usage: "begin no sooner than after `DURATION`", HideDefault: true, Validator: positive},
			&cli.StringFlag{Name: "unique", Usage: "`KEY` of which only one job may be alive"},
			&cli.BoolFlag{Name: "parallel", Usage: "run beside the session's other jobs, not after them"},
			&cli.StringFlag{Name: "repo", Usage: "clone `URL` and run in it; the flags from here on are of the repository"},
		}, cloneFlags(), publishFlags(), []cli.Flag{credentialFlag()}, jobFlags()),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return withCode(exitNotRun, a.run(ctx, cmd))
		},
	}
}

func (a *App) run(ctx context.Context, cmd *cli.Command) error {
	payload, err := a.runPayload(cmd)
	if err != nil {
		return err
	}
	return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
		s, err := c.submit(ctx, cmd, jobs.TaskRun, payload)
		if err != nil {
			return err
		}
		if cmd.Bool("detach") {
			return a.detached(cmd, s)
		}
		return a.show(ctx, cmd, c, s.key(), events.FollowOptions{Verify: true})
	})(ctx, cmd)
}

// show follows a command's output to its end, which becomes ours.
func (a *App) show(ctx context.Context, cmd *cli.Command, c *conn, job events.Job, opts events.FollowOptions) error {
	var view view = a.streamView
	if cmd.Bool("json") {
		view = a.jsonView
	}
	opts, view = uncut(opts, view)
	end, err := a.newWatch(c, job, opts, view).Run(ctx)
	if err != nil {
		return err
	}
	return outcome(job, end)
}

func (a *App) runPayload(cmd *cli.Command) (*jobs.Run, error) {
	base, err := common(cmd, cmd.String("session"))
	if err != nil {
		return nil, err
	}
	base.MaxAttempts = cmd.Int("max-attempts")
	base.ExpiresIn = wire.Duration(cmd.Duration("expires-in"))
	base.Delay = wire.Duration(cmd.Duration("delay"))
	base.Unique = cmd.String("unique")
	if cmd.Bool("parallel") {
		base.Exclusive = new(bool)
	}
	p := &jobs.Run{
		Common:        base,
		Argv:          a.argv(cmd),
		Cwd:           cmd.String("cwd"),
		User:          cmd.String("user"),
		Timeout:       wire.Duration(cmd.Duration("timeout")),
		SilentTimeout: wire.Duration(cmd.Duration("silent-timeout")),
		RetryOnExit:   cmd.IntSlice("retry-on-exit"),
	}
	if len(p.Argv) == 0 {
		return nil, usagef(cmd, "no command to run")
	}
	if cmd.Bool("shell") {
		if len(p.Argv) != 1 {
			return nil, usagef(cmd, "--shell takes the command line as one argument, got %d; quote it", len(p.Argv))
		}
		p.Shell, p.Argv = p.Argv[0], nil
	}
	if p.Env, err = pairs("env", cmd.StringSlice("env"), a.Env); err != nil {
		return nil, &usageErr{cmd: cmd, err: err}
	}
	if p.Secrets, err = secretRefs(cmd.StringSlice("secret")); err != nil {
		return nil, &usageErr{cmd: cmd, err: err}
	}
	if p.Repo, err = repoOf(cmd); err != nil {
		return nil, err
	}
	p.Stdin, err = a.readStdin(cmd.String("stdin"))
	return p, err
}

// argv is what stands after run's own flags. The flag parser drops a "--" also
// where it is the command's own ("git -- x"), so the tail is cut from the
// arguments as they came.
func (a *App) argv(cmd *cli.Command) []string {
	parsed := cmd.Args().Slice()
	tail := a.args[len(a.args)-len(parsed):]
	if !slices.Equal(tail, parsed) {
		tail = a.args[len(a.args)-len(parsed)-1:]
	}
	return slices.Clone(tail)
}

// readStdin reads the command's input. It travels in the job's body, so it is
// small and it is text.
func (a *App) readStdin(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	in := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("stdin: %w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, stdinLimit+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("stdin: %w", err)
	case len(b) > stdinLimit:
		return "", fmt.Errorf("stdin is over %d KiB: upload it and read it from the sandbox", stdinLimit>>10)
	case !utf8.Valid(b):
		return "", fmt.Errorf("stdin is not UTF-8: upload it and read it from the sandbox")
	}
	return string(b), nil
}
