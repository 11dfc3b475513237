package worker_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
)

// The workload of the sweep: small, and with something of everything. Each
// command counts its own starts in the sandbox.

// work is the life of a session: made, used, asleep, awake, gone.
func (s *crashSite) work(ctx context.Context) error {
	bucket, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	const in = "an object\n"
	if err := until(ctx, "put object", func() error { _, err := bucket.PutString(ctx, "in", in); return err }); err != nil {
		return err
	}
	in1 := func(id string) jobs.Common { return jobs.Common{ID: id, Session: "work"} }
	numbers := wantLines(3000)
	steps := []step{
		{kind: jobs.SandboxProvision, body: &jobs.Provision{Common: in1("make"), IdleTimeout: durationOf(10 * time.Minute)}},
		{kind: jobs.TaskRun, body: &jobs.Run{
			Common: unique(in1("first"), "only"), Stdin: "from stdin\n",
			Shell: `echo start >>starts; cat; seq 1 3000; echo loud >&2; sleep 1.5; echo end`,
		}, stdout: "from stdin\n" + numbers + "end\n", stderr: "loud\n"},
		{kind: jobs.FileUpload, body: &jobs.File{Common: in1("up"), Object: "in", Path: "in.txt", Mode: "0600"}},
		{kind: jobs.FileDownload, body: &jobs.File{Common: in1("down"), Object: "out", Path: "starts"}},
		{kind: jobs.SandboxPause, body: &jobs.Lifecycle{Common: in1("sleep")}},
		{kind: jobs.SandboxResume, body: &jobs.Lifecycle{Common: in1("wake")}},
		{kind: jobs.TaskRun, body: &jobs.Run{Common: in1("last"), Shell: `cat starts in.txt; ls`}, stdout: "start\n" + in + "in.txt\nstarts\n"},
		{kind: jobs.SandboxDestroy, body: &jobs.Lifecycle{Common: in1("gone")}},
	}
	if err := s.chain(ctx, steps); err != nil {
		return err
	}
	out, err := bucket.GetString(ctx, "out")
	if err == nil && out != "start\n" {
		err = fmt.Errorf("object out is %q", out)
	}
	return err
}

// odd is what does not go smoothly: another attempt, a dead letter, a delay.
func (s *crashSite) odd(ctx context.Context) error {
	in := func(id string) jobs.Common { return jobs.Common{ID: id, Session: "odd"} }
	again := in("again")
	again.MaxAttempts = 2
	late := in("late")
	late.Delay = durationOf(3 * time.Second)
	if err := s.chain(ctx, []step{
		{kind: jobs.TaskRun, body: &jobs.Run{
			Common: again, RetryOnExit: []int{7},
			Shell: `echo start >>starts; [ $(wc -l <starts) -gt 1 ] || exit 7; echo fine`,
		}, attempts: 2, stdout: "fine\n"},
		{kind: jobs.FileUpload, body: &jobs.File{Common: in("dead"), Object: "none", Path: "x"}, end: events.Dead, class: jobs.ClassNotFound},
		{kind: jobs.TaskRun, body: &jobs.Run{Common: in("fail"), Shell: `exit 3`}, end: events.Failed, class: jobs.ClassCommandFailed},
		{kind: jobs.TaskRun, body: &jobs.Run{Common: late, Shell: `echo late`}, stdout: "late\n"},
		{kind: jobs.TaskRun, body: &jobs.Run{Common: in("count"), Shell: `cat starts`}, stdout: "start\nstart\n"},
	}); err != nil {
		return err
	}
	// Nobody uses the session any more: the workers' own clocks put it to sleep.
	return until(ctx, "session odd falls asleep", func() error {
		r, _, err := s.facts.Session(ctx, "odd")
		if err == nil && r.State != session.Paused {
			err = fmt.Errorf("it is %s", r.State)
		}
		return err
	})
}

// unwanted are jobs that somebody cancels: one that runs, while another waits
// behind it, and one that is to wait for hours.
func (s *crashSite) unwanted(ctx context.Context) error {
	in := func(id string) jobs.Common { return jobs.Common{ID: id, Session: "unwanted"} }
	later := in("later")
	later.Delay = durationOf(time.Hour)
	run := step{kind: jobs.TaskRun, body: &jobs.Run{Common: in("run"), Shell: `echo start >>starts; echo on; sleep 300`}, end: events.Cancelled, class: jobs.ClassCancelled, stdout: "on\n"}
	behind := step{kind: jobs.TaskRun, body: &jobs.Run{Common: in("behind"), Shell: `cat starts`}, stdout: "start\n"}
	wait := step{kind: jobs.TaskRun, body: &jobs.Run{Common: later, Shell: `echo never >>starts`}, end: events.Cancelled, class: jobs.ClassCancelled}
	for _, st := range []step{run, behind, wait} {
		if _, err := s.publish(ctx, st); err != nil {
			return err
		}
	}
	for id, ready := range map[string]func(events.History) bool{
		"run":   func(h events.History) bool { return h.Stdout.Offset > 0 },
		"later": func(h events.History) bool { return h.Waiting.Value.Rescheduled },
	} {
		key := events.Job{Session: "unwanted", ID: id}
		if err := until(ctx, "cancel "+id, func() error {
			h, err := s.facts.History(ctx, key)
			if err == nil && !ready(h) {
				err = errors.New("it is not ready for that")
			}
			if err != nil {
				return err
			}
			return s.facts.Cancel(ctx, key, events.CancelRequested{})
		}); err != nil {
			return err
		}
	}
	for _, st := range []step{run, behind, wait} {
		if err := s.ends(ctx, st); err != nil {
			return err
		}
	}
	return s.chain(ctx, []step{{kind: jobs.SandboxDestroy, body: &jobs.Lifecycle{Common: in("gone")}}})
}

// single is a command with a session of its own.
func (s *crashSite) single(ctx context.Context) error {
	return s.chain(ctx, []step{{kind: jobs.TaskRun, body: &jobs.Run{Common: jobs.Common{ID: "single"}, Shell: `echo start`}, stdout: "start\n"}})
}

// workload runs all of it at once.
func (s *crashSite) workload(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{s.work, s.odd, s.unwanted, s.single, s.repo} {
		g.Go(func() error { return part(ctx) })
	}
	return g.Wait()
}

// asleepAfter are the sessions that live on after the workload, each with a
// sandbox that sleeps.
var asleepAfter = []string{"odd"}

// step is a job and what is to become of it.
type step struct {
	kind           jobs.Kind
	body           jobs.Payload
	end            events.Kind // succeeded unless told
	class          jobs.Class  // ok unless told
	attempts       int         // 1 unless told
	stdout, stderr string
}

func unique(c jobs.Common, key string) jobs.Common {
	c.Unique = key
	return c
}

// chain does steps one after the other.
func (s *crashSite) chain(ctx context.Context, steps []step) error {
	for _, st := range steps {
		if _, err := s.publish(ctx, st); err != nil {
			return err
		}
		if err := s.ends(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

func (s *crashSite) publish(ctx context.Context, st step) (jobs.Published, error) {
	p, err := s.jobs.Publish(ctx, st.kind, st.body, jobs.PublishOptions{})
	if err != nil {
		return p, fmt.Errorf("publish: %w", err)
	}
	return p, nil
}

// key is the step's job.
func (st step) key() events.Job {
	var c jobs.Common
	switch b := st.body.(type) {
	case *jobs.Run:
		c = b.Common
	case *jobs.File:
		c = b.Common
	case *jobs.Lifecycle:
		c = b.Common
	case *jobs.Provision:
		c = b.Common
	}
	if c.Session == "" {
		c.Session = c.ID
	}
	return events.Job{Session: c.Session, ID: c.ID}
}

// ends follows the step's job to its end and compares.
func (s *crashSite) ends(ctx context.Context, st step) error {
	var got [2]strings.Builder
	var kind events.Kind
	var out events.Outcome
	for ev, err := range s.facts.Follow(ctx, st.key(), events.FollowOptions{Verify: true}) {
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", got[0].Len(), err)
		}
		switch {
		case ev.Kind == events.Stdout:
			got[0].Write(ev.Data)
		case ev.Kind == events.Stderr:
			got[1].Write(ev.Data)
		case ev.Kind.Terminal():
			kind = ev.Kind
			if err := ev.Decode(&out); err != nil {
				return err
			}
		}
	}
	return st.compare(kind, out, got[0].String(), got[1].String())
}

func (st step) compare(kind events.Kind, out events.Outcome, stdout, stderr string) error {
	want := st
	if want.end == "" {
		want.end, want.class = events.Succeeded, jobs.ClassOK
	}
	want.attempts = max(want.attempts, 1)
	switch {
	case kind != want.end || out.Class != string(want.class):
		return fmt.Errorf("job %s has %s (%s: %s), want %s (%s)", st.key(), kind, out.Class, out.Reason, want.end, want.class)
	case out.Attempts != want.attempts:
		return fmt.Errorf("job %s took %d attempts, want %d", st.key(), out.Attempts, want.attempts)
	case stdout != want.stdout:
		return fmt.Errorf("stdout of job %s is %q (%d bytes), want %d bytes", st.key(), clip(stdout), len(stdout), len(want.stdout))
	case stderr != want.stderr:
		return fmt.Errorf("stderr of job %s is %q, want %q", st.key(), clip(stderr), want.stderr)
	}
	if sum := sha256.Sum256([]byte(stdout)); st.kind == jobs.TaskRun && out.StdoutSHA256 != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("job %s says that sha256 of stdout is %s", st.key(), out.StdoutSHA256)
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 200)] }
