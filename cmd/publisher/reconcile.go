package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/query"
)

// reconcileFlags are doctor's flags for comparing sandboxes and sessions.
func reconcileFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "reconcile", Usage: "have a worker compare E2B's sandboxes with the sessions now, end what belongs to nobody, and account for each"},
		&cli.BoolFlag{Name: "dry-run", Usage: "with --reconcile: change nothing"},
	}
}

// reconcile prints what a worker makes of every sandbox. What could not be read
// is a failure of the command.
func (a *App) reconcile(ctx context.Context, cmd *cli.Command, c *conn) error {
	a.console.Status("reconciling")
	out, err := c.ask.Reconcile(ctx, query.ReconcileRequest{DryRun: cmd.Bool("dry-run")})
	a.console.Status("")
	if err != nil {
		return err
	}
	if cmd.Bool("json") {
		err = a.printJSON(out)
	} else {
		err = a.printReconciled(out)
	}
	if err == nil && !out.Complete {
		return &exitCode{code: exitError}
	}
	return err
}

func (a *App) printReconciled(out query.ReconcileReply) error {
	now := time.Now()
	var rows [][]string
	for _, s := range out.Sandboxes {
		generation := ""
		if s.Generation > 0 {
			generation = strconv.Itoa(s.Generation)
		}
		rows = append(rows, []string{s.Sandbox, s.State, ago(s.StartedAt, now), s.Session, generation, a.paint(s.Verdict), s.Why, s.Done})
	}
	if len(rows) > 0 {
		if err := a.table([]string{"sandbox", "state", "age", "session", "gen", "verdict", "why", "done"}, rows); err != nil {
			return err
		}
	}
	rows = nil
	for _, s := range out.Sessions {
		rows = append(rows, []string{s.Session, a.paint(s.State), s.Why, s.Done})
	}
	if len(rows) > 0 {
		if err := a.table([]string{"session", "state", "why", "done"}, rows); err != nil {
			return err
		}
	}
	for _, p := range out.Problems {
		if err := a.printf("not read, so nothing was killed: %s\n", p); err != nil {
			return err
		}
	}
	return a.printf("%s\n", summary(out))
}

// summary is the report in a line.
func summary(out query.ReconcileReply) string {
	total := 0
	var parts []string
	for _, verdict := range slices.Sorted(maps.Keys(out.Counts)) {
		total += out.Counts[verdict]
		parts = append(parts, fmt.Sprintf("%d %s", out.Counts[verdict], verdict))
	}
	s := fmt.Sprintf("%d sandboxes", total)
	if len(parts) > 0 {
		s += ": " + strings.Join(parts, ", ")
	}
	if out.LeftOut > 0 {
		s += fmt.Sprintf("; %d entries do not fit into the answer", out.LeftOut)
	}
	if out.DryRun {
		s += "; nothing was changed"
	}
	return fmt.Sprintf("%s (by %s in %s)", s, out.Worker, time.Duration(out.DurationMS)*time.Millisecond)
}
