package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/audit"
)

func (a *App) auditCommand() *cli.Command {
	return &cli.Command{
		Name:        "audit",
		Usage:       "read the record of what was done to the outside, and verify it",
		Description: "publisher audit verify",
		Action:      groupAction,
		Commands: []*cli.Command{
			{
				Name:        "list",
				Usage:       "list the newest records, oldest first",
				Description: "publisher audit list --session s1",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "session", Usage: "only of session `ID`"},
					&cli.StringFlag{Name: "job", Usage: "only of job `ID`"},
					&cli.StringFlag{Name: "owner", Usage: "only of owner `ID`"},
					&cli.StringFlag{Name: "system", Usage: "only on `SYSTEM`: e2b, git or github", Validator: func(s string) error {
						return oneOf(s, []string{audit.E2B, audit.Git, audit.GitHub})
					}},
					&cli.StringFlag{Name: "action", Usage: "only of `ACTION`, such as create, run, kill, push or pull_request.create"},
					limitFlag(),
				},
				Action: a.connected(a.auditList),
			},
			{
				Name:        "verify",
				Usage:       "find records that were removed, changed or moved",
				Description: "publisher audit verify --json >heads.json; publisher audit verify --kept heads.json",
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "kept", Usage: "compare with `FILE` too, kept from an earlier audit verify --json; repeatable", TakesFile: true},
				},
				Action: a.connected(a.auditVerify),
			},
		},
	}
}

// auditRecord is a record with its place in the stream.
type auditRecord struct {
	Seq uint64 `json:"seq"`
	audit.Record
}

func (a *App) auditList(ctx context.Context, cmd *cli.Command, c *conn) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	found := []auditRecord{}
	limit := cmd.Int("limit")
	more := false
	for s, err := range audit.Read(ctx, c.js, c.ns) {
		if err != nil {
			return noAudit(c, err)
		}
		if s.Err != nil || !wanted(cmd, s.Record) {
			continue
		}
		if found = append(found, auditRecord{s.Seq, s.Record}); limit > 0 && len(found) > 2*limit {
			found, more = slices.Delete(found, 0, limit), true
		}
	}
	if limit > 0 && len(found) > limit {
		found, more = found[len(found)-limit:], true
	}
	if cmd.Bool("json") {
		return a.printJSON(struct {
			Records []auditRecord `json:"records"`
		}{found})
	}
	now, next := time.Now(), ""
	if more {
		next = "more"
	}
	var rows [][]string
	for _, r := range found {
		rows = append(rows, []string{
			strconv.FormatUint(r.Seq, 10), ago(r.Time, now), r.Owner, r.Session, r.Job, r.Action, clean(onWhat(r.Record), 60), r.Outcome,
			(time.Duration(r.DurationMS) * time.Millisecond).String(), clean(strings.Join(r.Argv, " "), 50),
		})
	}
	return a.list([]string{"seq", "age", "owner", "session", "job", "action", "target", "outcome", "took", "command"}, rows, "audit records", next)
}

// onWhat is what was done something to: a sandbox, a file, a branch, a pull request.
func onWhat(r audit.Record) string {
	if r.Remote == "" {
		return r.Target
	}
	number := ""
	if r.Number != 0 {
		number = "#" + strconv.Itoa(r.Number)
	}
	at := r.Branch
	if r.Commit != "" {
		at += "@" + r.Commit[:min(10, len(r.Commit))]
	}
	_, where, _ := strings.Cut(r.Remote, "://")
	return join(" ", where+number, at)
}

func wanted(cmd *cli.Command, r audit.Record) bool {
	for flag, have := range map[string]string{"session": r.Session, "job": r.Job, "owner": r.Owner, "action": r.Action, "system": r.System} {
		if want := cmd.String(flag); want != "" && want != have {
			return false
		}
	}
	return true
}

// auditVerify prints where the records are not as they were written. Exit code 1 says
// that there is such a place.
func (a *App) auditVerify(ctx context.Context, cmd *cli.Command, c *conn) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	kept, err := keptReports(cmd.StringSlice("kept"))
	if err != nil {
		return err
	}
	r, err := audit.Verify(ctx, c.js, c.ns, kept...)
	if err != nil {
		return noAudit(c, err)
	}
	if cmd.Bool("json") {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if err := a.printAudit(r); err != nil {
		return err
	}
	if !r.Whole() {
		return &exitCode{code: exitError}
	}
	return nil
}

// keptReports reads what earlier verifications have printed.
func keptReports(files []string) (out []audit.Report, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--kept: %w", err)
		}
		var r audit.Report
		if err := json.Unmarshal(text, &r); err != nil || len(r.Chains) == 0 {
			return nil, fmt.Errorf("--kept: %s is not what publisher audit verify --json prints", name)
		}
		out = append(out, r)
	}
	return out, nil
}

func (a *App) printAudit(r audit.Report) error {
	for _, f := range r.Faults {
		where := "record " + strconv.FormatUint(f.Seq, 10)
		if f.Chain != "" {
			where += fmt.Sprintf(" (number %d of %s)", f.N, f.Chain)
		}
		if err := a.printf("%s: %s\n", where, f.What); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, c := range r.Chains {
		state := "open"
		if c.Closed {
			state = "closed"
		}
		lost := ""
		if c.Lost > 0 {
			lost = strconv.Itoa(c.Lost)
		}
		rows = append(rows, []string{c.Name, strconv.Itoa(c.Records), state, lost, ago(c.Ends, time.Now()), c.Head})
	}
	if err := a.list([]string{"chain", "records", "state", "lost", "age", "head"}, rows, "audit records", ""); err != nil {
		return err
	}
	if r.Whole() && r.Records > 0 {
		return a.printf("%d records, none removed, changed or moved\n", r.Records)
	}
	return nil
}

// noAudit explains why the records cannot be read.
func noAudit(c *conn, err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("there is no stream %s: a worker makes it", c.ns.Stream(audit.Stream))
	}
	return err
}
