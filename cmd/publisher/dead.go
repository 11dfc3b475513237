package main

import (
	"context"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
)

func (a *App) deadCommand() *cli.Command {
	return &cli.Command{
		Name:        "dead",
		Usage:       "look at jobs that nobody can run, put them back or drop them",
		Description: "publisher dead list --class auth",
		Action:      groupAction,
		Commands: []*cli.Command{
			{
				Name:        "list",
				Usage:       "list dead letters",
				Description: "publisher dead list --kind task.run",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "kind", Usage: "only of `KIND`"},
					&cli.StringFlag{Name: "class", Usage: "only of `CLASS`", Validator: checkClass},
					limitFlag(),
				},
				Action: a.connected(a.deadList),
			},
			{
				Name:        "get",
				Usage:       "show one with its body and what to do about it",
				ArgsUsage:   "SEQ",
				Description: "publisher dead get 12",
				Action:      a.onLetter(a.deadGet),
			},
			{
				Name:        "replay",
				Usage:       "put one back to work as a new series of attempts",
				ArgsUsage:   "SEQ",
				Description: "publisher dead replay 12",
				Action:      a.onLetter(a.deadReplay),
			},
			{
				Name:        "discard",
				Usage:       "drop one for good",
				ArgsUsage:   "SEQ",
				Description: "publisher dead discard 12",
				Action:      a.onLetter(a.deadDiscard),
			},
		},
	}
}

// onLetter makes an action out of f, which works on the letter that the only
// argument names.
func (a *App) onLetter(f func(context.Context, *cli.Command, *conn, query.DeadRequest) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		arg, err := oneArg(cmd, "SEQ")
		if err != nil {
			return err
		}
		seq, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || seq == 0 {
			return usagef(cmd, "SEQ %q is not the number of a dead letter; dead list shows them", arg)
		}
		return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
			return f(ctx, cmd, c, query.DeadRequest{Seq: seq})
		})(ctx, cmd)
	}
}

func (a *App) deadList(ctx context.Context, cmd *cli.Command, c *conn) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	req := query.DeadListRequest{Kind: cmd.String("kind"), Class: cmd.String("class")}
	found, next, err := pages(cmd.Int("limit"), func(n int, cursor string) ([]query.DeadLetter, string, error) {
		req.Limit, req.Cursor = n, cursor
		page, err := c.ask.DeadLetters(ctx, req)
		return page.Letters, page.Next, err
	})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(query.DeadListReply{Letters: found, Next: next})
	}
	now := time.Now()
	var rows [][]string
	for _, l := range found {
		rows = append(rows, []string{
			strconv.FormatUint(l.Seq, 10), l.Kind, l.Job, l.Session, l.Class, strconv.Itoa(l.Attempts), ago(l.Time, now), clean(l.Reason, 60),
		})
	}
	return a.list([]string{"seq", "kind", "job", "session", "class", "attempts", "age", "reason"}, rows, "dead letters", next)
}

func (a *App) deadGet(ctx context.Context, cmd *cli.Command, c *conn, req query.DeadRequest) error {
	l, err := c.ask.DeadLetter(ctx, req)
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(l)
	}
	return a.fields(
		[2]string{"seq", strconv.FormatUint(l.Seq, 10)},
		[2]string{"job", l.Job},
		[2]string{"session", l.Session},
		[2]string{"kind", l.Kind},
		[2]string{"subject", l.Subject},
		[2]string{"died", withAge(l.Time, time.Now())},
		[2]string{"attempts", strconv.Itoa(l.Attempts)},
		[2]string{"class", l.Class},
		[2]string{"reason", clean(l.Reason, 500)},
		[2]string{"to do", jobs.Class(l.Class).Says()},
		[2]string{"body", clean(l.Body, 4000)},
	)
}

func (a *App) deadReplay(ctx context.Context, cmd *cli.Command, c *conn, req query.DeadRequest) error {
	r, err := c.ask.Replay(ctx, req)
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(r)
	}
	return a.printf("job %s is back on %s\n", r.Job, r.Subject)
}

func (a *App) deadDiscard(ctx context.Context, cmd *cli.Command, c *conn, req query.DeadRequest) error {
	r, err := c.ask.Discard(ctx, req)
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(r)
	}
	return a.printf("dead letter %d is gone\n", r.Seq)
}
