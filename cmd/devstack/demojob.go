package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// A told is a job as its events told it.
type told struct {
	kind    events.Kind // the terminal one
	outcome events.Outcome
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	pieces  int // output events
	kinds   []events.Kind
}

// run publishes a job, prints its output as it comes, and returns when its
// terminal event is there. It fails unless the job succeeded and its output is
// what the terminal event vouches for, byte by byte.
func (d *demoRun) run(ctx context.Context, id string, kind jobs.Kind, p jobs.Payload) (*told, error) {
	if _, err := d.jobs.Publish(ctx, kind, p, jobs.PublishOptions{}); err != nil {
		return nil, err
	}
	t, err := d.follow(ctx, events.Job{Session: d.session, ID: id})
	if err != nil {
		return nil, err
	}
	if t.kind != events.Succeeded {
		return nil, fmt.Errorf("job %s: %s: %s (class %s)%s", id, t.kind, t.outcome.Reason, t.outcome.Class, exit(t.outcome))
	}
	o := t.outcome
	return t, errors.Join(
		d.must(o.StdoutBytes == int64(t.stdout.Len()), "stdout: followed %d bytes, the command wrote %d", t.stdout.Len(), o.StdoutBytes),
		d.must(o.StdoutBytes == 0 || o.StdoutSHA256 == sum(t.stdout.Bytes()), "stdout: its hash is not the one of the terminal event"),
		d.must(o.StderrBytes == int64(t.stderr.Len()), "stderr: followed %d bytes, the command wrote %d", t.stderr.Len(), o.StderrBytes),
	)
}

// follow prints a job's output, followAll each of its events beside it.
func (d *demoRun) follow(ctx context.Context, job events.Job) (*told, error) {
	return d.following(ctx, job, func(events.Event) {})
}

func (d *demoRun) followAll(ctx context.Context, job events.Job) (*told, error) {
	return d.following(ctx, job, func(e events.Event) { d.note("%-9s  %s", e.Kind, events.Says(e)) })
}

func (d *demoRun) following(ctx context.Context, job events.Job, tell func(events.Event)) (*told, error) {
	t := &told{}
	q := d.quote()
	defer q.Flush()
	for e, err := range d.log.Follow(ctx, job, events.FollowOptions{Verify: true}) {
		if err != nil {
			return nil, fmt.Errorf("follow job %s: %w", job.ID, err)
		}
		switch {
		case e.Kind == events.Stdout:
			t.pieces++
			_, _ = io.MultiWriter(&t.stdout, q).Write(e.Data)
		case e.Kind == events.Stderr:
			t.pieces++
			_, _ = io.MultiWriter(&t.stderr, q).Write(e.Data)
		case e.Kind.Terminal():
			tell(e)
			t.kind = e.Kind
			t.kinds = append(t.kinds, e.Kind)
			if err := e.Decode(&t.outcome); err != nil {
				return nil, err
			}
		default:
			tell(e)
			t.kinds = append(t.kinds, e.Kind)
		}
	}
	if t.kind == "" {
		return nil, fmt.Errorf("job %s: its events end without a terminal one: %v", job.ID, t.kinds)
	}
	return t, nil
}

func exit(o events.Outcome) string {
	if o.ExitCode == nil {
		return ""
	}
	return fmt.Sprintf(", exit code %d", *o.ExitCode)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
