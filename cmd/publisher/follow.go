package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
)

func (a *App) followCommand() *cli.Command {
	return a.completes(&cli.Command{
		Name:        "follow",
		Usage:       "show a job's output, from the start or an offset, to its end",
		ArgsUsage:   "JOB",
		Description: "publisher follow --session s1 --from 4096 j7",
		Flags: []cli.Flag{
			sessionFlag("session `ID`; asked of a worker when left out"),
			&cli.Int64Flag{Name: "from", Usage: "leave out stdout before `OFFSET`", Validator: notNegative, HideDefault: true},
			&cli.Int64Flag{Name: "from-stderr", Usage: "leave out stderr before `OFFSET`", Validator: notNegative, HideDefault: true},
			&cli.BoolFlag{Name: "verify", Usage: "check all of the output against the hashes in the last event"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			id, err := idArg(cmd, "JOB")
			if err == nil {
				err = a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
					return a.follow(ctx, cmd, c, id)
				})(ctx, cmd)
			}
			return withCode(exitNotRun, err)
		},
	}, jobNames)
}

func (a *App) follow(ctx context.Context, cmd *cli.Command, c *conn, id string) error {
	job, err := c.find(ctx, cmd.String("session"), id)
	if err != nil {
		return err
	}
	return a.show(ctx, cmd, c, job, events.FollowOptions{
		StdoutFrom: cmd.Int64("from"),
		StderrFrom: cmd.Int64("from-stderr"),
		Verify:     cmd.Bool("verify"),
	})
}

// uncut makes sure that a hash can be verified, which takes all bytes: the log
// is read from the start, and what was not asked for is cut off here.
func uncut(opts events.FollowOptions, show view) (events.FollowOptions, view) {
	if !opts.Verify {
		return opts, show
	}
	from := map[events.Kind]int64{events.Stdout: opts.StdoutFrom, events.Stderr: opts.StderrFrom}
	opts.StdoutFrom, opts.StderrFrom = 0, 0
	return opts, func(e events.Event) error {
		if n := from[e.Kind]; e.Kind.Output() && e.Offset < n {
			if e.End() <= n {
				return nil
			}
			e.Data, e.Offset = e.Data[n-e.Offset:], n
		}
		return show(e)
	}
}

// find completes a job's key.
func (c *conn) find(ctx context.Context, session, id string) (events.Job, error) {
	if session != "" {
		return events.Job{Session: session, ID: id}, nil
	}
	j, err := c.ask.Job(ctx, query.JobRequest{Job: id})
	if err != nil {
		return events.Job{}, withSessionHint(err)
	}
	return events.Job{Session: j.Session, ID: j.Job}, nil
}

// withSessionHint tells how to do without the worker that did not answer.
func withSessionHint(err error) error {
	if errors.Is(err, query.ErrNoWorker) {
		return &hinted{err, "with --session no worker is needed"}
	}
	return err
}

// hinted is an error with a way out.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() + "; " + h.hint }
func (h *hinted) Unwrap() error { return h.err }

func notNegative(n int64) error {
	if n < 0 {
		return errors.New("want 0 or more")
	}
	return nil
}
