package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
)

func (a *App) sessionsCommand() *cli.Command {
	return a.completes(&cli.Command{
		Name:        "sessions",
		Usage:       "list sessions, or show one with E2B's view of it",
		ArgsUsage:   "[SESSION]",
		Description: "publisher sessions --state paused --label team=web",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "state", Usage: "only in `STATE`", Validator: checkState},
			&cli.StringFlag{Name: "owner", Usage: "only of owner `ID`", Validator: idCheck("owner")},
			&cli.StringFlag{Name: "label", Usage: "only with label `K[=V]`"},
			&cli.StringFlag{Name: "template", Usage: "only from template `NAME`"},
			limitFlag(),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if !cmd.Args().Present() {
				return a.connected(a.sessions)(ctx, cmd)
			}
			id, err := idArg(cmd, "SESSION")
			if err != nil {
				return err
			}
			return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
				return a.session(ctx, cmd, c, id)
			})(ctx, cmd)
		},
	}, sessionNames)
}

func (a *App) sessions(ctx context.Context, cmd *cli.Command, c *conn) error {
	req := query.SessionListRequest{
		State:    cmd.String("state"),
		Owner:    cmd.String("owner"),
		Label:    cmd.String("label"),
		Template: cmd.String("template"),
	}
	found, next, err := pages(cmd.Int("limit"), func(n int, cursor string) ([]session.Record, string, error) {
		req.Limit, req.Cursor = n, cursor
		page, err := c.ask.Sessions(ctx, req)
		return page.Sessions, page.Next, err
	})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(query.SessionListReply{Sessions: found, Next: next})
	}
	now := time.Now()
	var rows [][]string
	for _, s := range found {
		rows = append(rows, []string{
			s.Session, a.paint(string(s.State)), s.SandboxID, s.Owner, s.Template, in(s.IdleAt, now), ago(s.CreatedAt, now), clean(s.Reason, 40),
		})
	}
	return a.list([]string{"session", "state", "sandbox", "owner", "template", "idle in", "age", "reason"}, rows, "sessions", next)
}

func (a *App) session(ctx context.Context, cmd *cli.Command, c *conn, id string) error {
	st, err := c.ask.SessionStatus(ctx, query.SessionRequest{Session: id, Owner: cmd.String("owner")})
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		return a.printJSON(st)
	}
	now := time.Now()
	s := st.Session
	return a.fields(
		[2]string{"session", s.Session},
		[2]string{"state", a.paint(string(s.State))},
		[2]string{"reason", clean(s.Reason, 200)},
		[2]string{"owner", s.Owner},
		[2]string{"template", s.Template},
		[2]string{"labels", keyValues(s.Labels)},
		[2]string{"generation", strconv.Itoa(s.Generation)},
		[2]string{"sandbox", s.SandboxID},
		[2]string{"jobs", strconv.Itoa(st.Running) + " running, " + strconv.Itoa(st.Queued) + " in the lane"},
		[2]string{"created", withAge(s.CreatedAt, now)},
		[2]string{"changed", withAge(s.UpdatedAt, now)},
		[2]string{"paused in", in(s.IdleAt, now)},
		[2]string{"destroyed in", in(s.StaleAt, now)},
		[2]string{"at E2B", sandboxLine(st, now)},
	)
}

// sandboxLine is E2B's side of a session on one line.
func sandboxLine(st query.SessionStatusReply, now time.Time) string {
	b := st.Sandbox
	if b == nil {
		return clean(st.SandboxError, 200)
	}
	var use string
	if b.CPUCount > 0 {
		use = strconv.Itoa(b.CPUCount) + " CPU (" + strconv.FormatFloat(b.CPUPct, 'f', 0, 64) + "%)"
	}
	return join(", ", b.ID+" "+b.State, use, usage(b.MemUsed, b.MemoryMB, "memory"), usage(b.DiskUsed, b.DiskMB, "disk"),
		prefixed("ends in ", in(b.EndAt, now)))
}

func usage(used int64, totalMB int, what string) string {
	if totalMB == 0 {
		return ""
	}
	return size(used) + " of " + size(int64(totalMB)<<20) + " " + what
}

func withAge(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return at(t) + " (" + ago(t, now) + " ago)"
}

func keyValues(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

func checkState(s string) error {
	var names []string
	for _, st := range session.States() {
		names = append(names, string(st))
	}
	return oneOf(s, names)
}
