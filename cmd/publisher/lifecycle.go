package main

import (
	"context"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/jobs"
)

// verb is one of the commands that are alike but for the job they publish.
type verb struct {
	name, usage string
	kind        jobs.Kind
}

var (
	resume  = verb{"resume", "wake a session's sandbox", jobs.SandboxResume}
	pause   = verb{"pause", "put a session's sandbox to sleep; disk and memory are kept", jobs.SandboxPause}
	destroy = verb{"destroy", "end a session and its sandbox for good", jobs.SandboxDestroy}
)

func (a *App) lifecycleCommand(v verb) *cli.Command {
	return a.completes(&cli.Command{
		Name:        v.name,
		Usage:       v.usage,
		ArgsUsage:   "SESSION",
		Description: "publisher " + v.name + " s1",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the record"},
		}, jobFlags()),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			id, err := idArg(cmd, "SESSION")
			if err != nil {
				return err
			}
			base, err := common(cmd, id)
			if err != nil {
				return err
			}
			payload := &jobs.Lifecycle{Common: base, Reason: cmd.String("reason")}
			return a.change(ctx, cmd, v.kind, payload)
		},
	}, sessionNames)
}
