package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// submitted is a job that is in the queue. It is what --detach --json prints.
type submitted struct {
	Session   string    `json:"session"`
	Job       string    `json:"job"`
	Kind      jobs.Kind `json:"kind"`
	Subject   string    `json:"subject"`
	StreamSeq uint64    `json:"stream_seq"`
	Duplicate bool      `json:"duplicate,omitempty"`
}

func (s submitted) key() events.Job { return events.Job{Session: s.Session, ID: s.Job} }

// submit publishes a job. What is wrong with it is said before anything is
// sent.
func (c *conn) submit(ctx context.Context, cmd *cli.Command, kind jobs.Kind, p jobs.Payload) (submitted, error) {
	owner := cmd.String("owner")
	if owner != "" && c.owner != "" && owner != c.owner {
		return submitted{}, usagef(cmd, "--owner %s is not the owner of --as (SANDJET_OWNER), %s: leave one out", owner, c.owner)
	}
	priority, err := jobs.ParsePriority(cmd.String("priority"))
	if err != nil {
		return submitted{}, &usageErr{cmd: cmd, err: err}
	}
	// Publishing again is safe, but not for ever: a person waits.
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("not stored within %s; publisher doctor looks for the cause", c.timeout))
	defer cancel()
	got, err := c.jobs.Publish(ctx, kind, p, jobs.PublishOptions{Priority: priority, Owner: cmp.Or(owner, c.owner)})
	if err != nil {
		return submitted{}, refused(kind, err)
	}
	return submitted{got.Session, got.Job, kind, got.Subject, got.StreamSeq, got.Duplicate}, nil
}

// check is submit's judgement of a job alone, for when there is something to
// do before.
func (c *conn) check(kind jobs.Kind, p jobs.Payload) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = jobs.Decode(jobs.Raw{Subject: jobs.Address{Kind: kind}.Subject(c.ns), Data: body, Time: time.Now()}, c.ns)
	return refused(kind, err)
}

// refused says of an invalid job just that, and where.
func refused(kind jobs.Kind, err error) error {
	var invalid *jobs.Invalid
	if errors.As(err, &invalid) {
		return fmt.Errorf("%s is invalid: %w", kind, invalid)
	}
	return err
}

// detached prints a job that nobody waits for.
func (a *App) detached(cmd *cli.Command, s submitted) error {
	if cmd.Bool("json") {
		return a.printJSON(s)
	}
	a.note("follow it with: publisher follow --session %s %s", s.Session, s.Job)
	return a.printf("%s\n", s.Job)
}

// finished is what a command prints with --json that waits for a job's end.
type finished struct {
	Session string         `json:"session"`
	Job     string         `json:"job"`
	Kind    events.Kind    `json:"kind"`
	Outcome events.Outcome `json:"outcome"`
	Record  any            `json:"record,omitempty"`
	File    string         `json:"file,omitempty"`
}

// await waits for the end of a job that has no output to show. An end other
// than success is an error.
func (a *App) await(ctx context.Context, c *conn, s submitted) (finished, error) {
	end, err := a.newWatch(c, s.key(), events.FollowOptions{}, a.quietView).Run(ctx)
	if err != nil {
		return finished{}, err
	}
	f := finished{Session: s.Session, Job: s.Job, Kind: end.Kind, Outcome: end.Outcome}
	switch end.Kind {
	case events.Succeeded:
		return f, nil
	case events.Cancelled:
		return f, &exitCode{code: exitCancelled, err: verdict(s.key(), end)}
	}
	return f, verdict(s.key(), end)
}

// verdict says how a job ended, for people.
func verdict(job events.Job, end ending) error {
	o := end.Outcome
	msg := fmt.Sprintf("job %s %s", job.ID, ended(end.Kind))
	if o.Class != "" && o.Class != string(end.Kind) {
		msg += " (" + o.Class + ")"
	}
	if o.Pointer != "" {
		msg += " at " + o.Pointer
	}
	if o.Reason != "" {
		msg += ": " + o.Reason
	}
	return errors.New(msg)
}

func ended(k events.Kind) string {
	if k == events.Dead {
		return "is dead"
	}
	if k == events.Cancelled {
		return "was cancelled"
	}
	return string(k)
}
