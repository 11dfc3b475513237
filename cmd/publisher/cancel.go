package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
)

func (a *App) cancelCommand() *cli.Command {
	return a.completes(&cli.Command{
		Name:        "cancel",
		Usage:       "end a job, whether it waits or runs",
		ArgsUsage:   "JOB",
		Description: "publisher cancel --reason 'wrong branch' j7",
		Flags: []cli.Flag{
			sessionFlag("session `ID`, where the job's id alone is not enough"),
			&cli.StringFlag{Name: "owner", Usage: "only if it belongs to owner `ID`", Validator: idCheck("owner")},
			&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the record"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			id, err := idArg(cmd, "JOB")
			if err != nil {
				return err
			}
			return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
				return a.cancel(ctx, cmd, c, id)
			})(ctx, cmd)
		},
	}, jobNames)
}

func (a *App) cancel(ctx context.Context, cmd *cli.Command, c *conn, id string) error {
	r, err := c.ask.Cancel(ctx, query.JobCancelRequest{
		JobRequest: query.JobRequest{Session: cmd.String("session"), Job: id, Owner: cmd.String("owner")},
		Reason:     cmd.String("reason"),
	})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(r)
	}
	if events.Kind(r.State).Terminal() {
		return a.printf("job %s of session %s had ended before: %s\n", r.Job, r.Session, r.State)
	}
	return a.printf("job %s of session %s: cancel requested\n", r.Job, r.Session)
}
