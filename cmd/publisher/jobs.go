package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
)

func (a *App) jobsCommand() *cli.Command {
	return a.completes(&cli.Command{
		Name:        "jobs",
		Usage:       "list jobs, newest first, or show one",
		ArgsUsage:   "[JOB]",
		Description: "publisher jobs --state waiting --session s1",
		Flags: []cli.Flag{
			sessionFlag("only of session `ID`"),
			&cli.StringFlag{Name: "state", Usage: "only whose last event is `STATE`, such as waiting, started or failed"},
			&cli.StringFlag{Name: "kind", Usage: "only of `KIND`", Validator: checkKind},
			&cli.StringFlag{Name: "owner", Usage: "only of owner `ID`", Validator: idCheck("owner")},
			&cli.StringFlag{Name: "class", Usage: "only that ended with `CLASS`, such as command_failed", Validator: checkClass},
			limitFlag(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if !cmd.Args().Present() {
				return a.connected(a.jobs)(ctx, cmd)
			}
			id, err := idArg(cmd, "JOB")
			if err != nil {
				return err
			}
			return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
				return a.job(ctx, cmd, c, id)
			})(ctx, cmd)
		},
	}, jobNames)
}

func (a *App) jobs(ctx context.Context, cmd *cli.Command, c *conn) error {
	req := query.JobListRequest{
		State:   cmd.String("state"),
		Kind:    cmd.String("kind"),
		Session: cmd.String("session"),
		Owner:   cmd.String("owner"),
		Class:   cmd.String("class"),
	}
	found, next, err := pages(cmd.Int("limit"), func(n int, cursor string) ([]query.Job, string, error) {
		req.Limit, req.Cursor = n, cursor
		page, err := c.ask.Jobs(ctx, req)
		return page.Jobs, page.Next, err
	})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(query.JobListReply{Jobs: found, Next: next})
	}
	now := time.Now()
	var rows [][]string
	for _, j := range found {
		rows = append(rows, []string{
			j.Job, j.Session, j.Kind, a.paint(j.State), jobDetail(j), j.Owner, attempt(j), ago(j.AcceptedAt, now),
		})
	}
	return a.list([]string{"job", "session", "kind", "state", "detail", "owner", "attempt", "age"}, rows, "jobs", next)
}

// jobDetail says in a word why a job is where it is.
func jobDetail(j query.Job) string {
	if events.Kind(j.State).Terminal() {
		var o events.Outcome
		_ = json.Unmarshal(j.Outcome, &o)
		if o.ExitCode != nil && *o.ExitCode != 0 {
			return "exit " + strconv.Itoa(*o.ExitCode)
		}
		if j.Class == string(jobs.ClassOK) {
			return ""
		}
		return j.Class
	}
	if j.Waiting != "" {
		return j.Waiting
	}
	return j.Worker
}

func attempt(j query.Job) string {
	if j.Attempt == 0 {
		return ""
	}
	return strconv.Itoa(j.Attempt)
}

func (a *App) job(ctx context.Context, cmd *cli.Command, c *conn, id string) error {
	j, err := c.ask.Job(ctx, query.JobRequest{Session: cmd.String("session"), Job: id, Owner: cmd.String("owner")})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(j)
	}
	now := time.Now()
	return a.fields(
		[2]string{"job", j.Job},
		[2]string{"session", j.Session},
		[2]string{"kind", j.Kind},
		[2]string{"state", a.paint(j.State)},
		[2]string{"detail", clean(jobDetail(j), 200)},
		[2]string{"owner", j.Owner},
		[2]string{"labels", keyValues(j.Labels)},
		[2]string{"worker", j.Worker},
		[2]string{"attempt", attempt(j)},
		[2]string{"accepted", withAge(j.AcceptedAt, now)},
		[2]string{"changed", withAge(j.UpdatedAt, now)},
		[2]string{"outcome", clean(string(j.Outcome), 2000)},
	)
}

func checkKind(s string) error {
	var names []string
	for _, k := range jobs.Kinds() {
		names = append(names, string(k))
	}
	return oneOf(s, names)
}

func checkClass(s string) error {
	var names []string
	for _, c := range jobs.Classes() {
		names = append(names, string(c))
	}
	return oneOf(s, names)
}
