package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/query"
)

func (a *App) whyCommand() *cli.Command {
	return a.completes(&cli.Command{
		Name:        "why",
		Usage:       "tell a job's story: who holds it, why it waits, how it ended",
		ArgsUsage:   "JOB",
		Description: "publisher why j7",
		Flags: []cli.Flag{
			sessionFlag("session `ID`, where the job's id alone is not enough"),
			&cli.StringFlag{Name: "owner", Usage: "only if it belongs to owner `ID`", Validator: idCheck("owner")},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			id, err := idArg(cmd, "JOB")
			if err != nil {
				return err
			}
			return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
				return a.why(ctx, cmd, c, id)
			})(ctx, cmd)
		},
	}, jobNames)
}

func (a *App) why(ctx context.Context, cmd *cli.Command, c *conn, id string) error {
	r, err := c.ask.Why(ctx, query.JobRequest{Session: cmd.String("session"), Job: id, Owner: cmd.String("owner")})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(r)
	}
	if err := a.printf("%s\n\n", clean(r.Summary, 500)); err != nil {
		return err
	}
	var rows [][]string
	var before time.Time
	for _, l := range r.Chain {
		rows = append(rows, []string{l.Time.Local().Format("15:04:05.000"), since(before, l.Time), a.paint(l.Kind), clean(l.Says, 200)})
		before = l.Time
	}
	return a.list([]string{"time", "after", "event", "says"}, rows, "events", "")
}

// since is the time between two links of a chain.
func since(before, t time.Time) string {
	if before.IsZero() {
		return ""
	}
	d := t.Sub(before)
	if d < 10*time.Second {
		return "+" + d.Round(time.Millisecond).String()
	}
	return "+" + short(d)
}
