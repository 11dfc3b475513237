package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

const (
	idleTimeout = 3 * time.Second
	uploadBytes = 1 << 20
	testsPassed = "12 tests, 12 passed, 0 failed"
)

func (d *demoRun) common(id string) jobs.Common {
	return jobs.Common{ID: id, Session: d.session}
}

// provision makes the session and asks E2B's side of it too.
func (d *demoRun) provision(ctx context.Context) error {
	d.step("provision", "session %q, to be paused when idle for %s", d.session, idleTimeout)
	_, err := d.run(ctx, "provision", jobs.SandboxProvision, &jobs.Provision{
		Common: d.common("provision"), IdleTimeout: wire.Duration(idleTimeout),
	})
	if err != nil {
		return err
	}
	st, err := d.status(ctx)
	if err != nil {
		return err
	}
	d.sandbox = st.Session.SandboxID
	if err := errors.Join(
		d.must(st.Session.State == session.Active, "the session is %s, want active", st.Session.State),
		d.must(st.Sandbox != nil && st.Sandbox.State == "running", "E2B does not show its sandbox as running: %s", st.SandboxError),
	); err != nil {
		return err
	}
	d.ok("active in sandbox %s, generation %d", d.sandbox, st.Session.Generation)
	return nil
}

// clone runs plain git in the sandbox against a real git server.
func (d *demoRun) clone(ctx context.Context) error {
	d.step("clone", "git clone %s", d.git.URL)
	if _, err := d.run(ctx, "clone", jobs.TaskRun, &jobs.Run{
		Common: d.common("clone"), Argv: []string{"git", "clone", d.git.URL, "roman"},
	}); err != nil {
		return err
	}
	head, err := d.run(ctx, "head", jobs.TaskRun, &jobs.Run{
		Common: d.common("head"), Argv: []string{"git", "-C", "roman", "rev-parse", "HEAD"},
	})
	if err != nil {
		return err
	}
	got := strings.TrimSpace(head.stdout.String())
	if err := d.must(got == d.git.Head, "the clone ends at %s, the server's at %s", got, d.git.Head); err != nil {
		return err
	}
	d.ok("the clone ends at the commit that the server has")
	return nil
}

// test runs the repository's own tests; their output comes while they run.
func (d *demoRun) test(ctx context.Context) error {
	d.step("test", "sh test.sh, in the clone")
	t, err := d.run(ctx, "test", jobs.TaskRun, &jobs.Run{
		Common: d.common("test"), Argv: []string{"sh", "test.sh"}, Cwd: "roman",
	})
	if err != nil {
		return err
	}
	if err := errors.Join(
		d.must(strings.Contains(t.stdout.String(), testsPassed), "stdout does not say %q", testsPassed),
		d.must(t.pieces > 1, "the output came in one piece, not as it was written"),
	); err != nil {
		return err
	}
	d.ok("exit 0; %d bytes in %d pieces as they were written, SHA-256 %.12s… agrees", t.outcome.StdoutBytes, t.pieces, t.outcome.StdoutSHA256)
	return nil
}

// upload puts random bytes into the object bucket and from there into the
// sandbox, and lets the sandbox say what it got.
func (d *demoRun) upload(ctx context.Context) error {
	d.step("upload", "%d random bytes: object bucket -> sandbox", uploadBytes)
	d.file = make([]byte, uploadBytes)
	_, _ = rand.Read(d.file) // never fails
	if _, err := d.objects.PutBytes(ctx, "demo/in.bin", d.file); err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	if _, err := d.run(ctx, "upload", jobs.FileUpload, &jobs.File{
		Common: d.common("upload"), Object: "demo/in.bin", Path: "/home/user/in.bin", Mode: "0600",
	}); err != nil {
		return err
	}
	t, err := d.run(ctx, "sum", jobs.TaskRun, &jobs.Run{
		Common: d.common("sum"), Argv: []string{"sha256sum", "in.bin"},
	})
	if err != nil {
		return err
	}
	if err := d.must(strings.HasPrefix(t.stdout.String(), sum(d.file)), "the sandbox has other bytes: %s", t.stdout.String()); err != nil {
		return err
	}
	d.ok("sha256sum in the sandbox agrees")
	return nil
}

// download changes the file in the sandbox and fetches it through the bucket.
func (d *demoRun) download(ctx context.Context) error {
	d.step("download", "the same with a line added: sandbox -> object bucket")
	const added = "seen in the sandbox\n"
	if _, err := d.run(ctx, "change", jobs.TaskRun, &jobs.Run{
		Common: d.common("change"), Shell: "cp in.bin out.bin && printf '" + strings.TrimSpace(added) + "\\n' >> out.bin",
	}); err != nil {
		return err
	}
	t, err := d.run(ctx, "download", jobs.FileDownload, &jobs.File{
		Common: d.common("download"), Object: "demo/out.bin", Path: "/home/user/out.bin",
	})
	if err != nil {
		return err
	}
	got, err := d.objects.GetBytes(ctx, "demo/out.bin")
	if err != nil {
		return fmt.Errorf("get object: %w", err)
	}
	want := append(bytes.Clone(d.file), added...)
	if err := errors.Join(
		d.must(bytes.Equal(got, want), "fetched %d bytes, other than the %d in the sandbox", len(got), len(want)),
		d.must(t.outcome.ObjectSHA == sum(want), "the terminal event vouches for another hash: %s", t.outcome.ObjectSHA),
	); err != nil {
		return err
	}
	d.ok("%d bytes back, SHA-256 %.12s… agrees", len(got), sum(got))
	return nil
}

// idle waits until the session falls asleep by itself.
func (d *demoRun) idle(ctx context.Context) error {
	d.step("idle", "nothing to do for %s", idleTimeout)
	rec, err := d.until(ctx, session.Paused)
	if err != nil {
		return err
	}
	st, err := d.status(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(
		d.must(rec.SandboxID == d.sandbox, "paused sandbox %s, ours is %s", rec.SandboxID, d.sandbox),
		d.must(st.Sandbox != nil && st.Sandbox.State == "paused", "E2B does not show its sandbox as paused: %s", st.SandboxError),
	); err != nil {
		return err
	}
	d.ok("paused, E2B says so too")
	return nil
}

// resume publishes the next job; that alone wakes the session.
func (d *demoRun) resume(ctx context.Context) error {
	d.step("resume", "publish the next job: git -C roman status")
	t, err := d.run(ctx, "status", jobs.TaskRun, &jobs.Run{
		Common: d.common("status"), Argv: []string{"git", "-C", "roman", "status"},
	})
	if err != nil {
		return err
	}
	rec, err := d.ask.Session(ctx, query.SessionRequest{Session: d.session})
	if err != nil {
		return err
	}
	if err := errors.Join(
		d.must(strings.Contains(t.stdout.String(), "working tree clean"), "the clone is not as it was left"),
		d.must(rec.State == session.Active, "the session is %s, want active", rec.State),
		d.must(rec.SandboxID == d.sandbox && rec.Generation == 1, "it woke as %s, generation %d: a new sandbox", rec.SandboxID, rec.Generation),
	); err != nil {
		return err
	}
	d.ok("awake in the same sandbox with its files")
	return nil
}

// destroy ends the session and looks that nothing is left of it.
func (d *demoRun) destroy(ctx context.Context) error {
	d.step("destroy", "session %q", d.session)
	if _, err := d.run(ctx, "destroy", jobs.SandboxDestroy, &jobs.Lifecycle{
		Common: d.common("destroy"), Reason: "the demo is over",
	}); err != nil {
		return err
	}
	rec, err := d.ask.Session(ctx, query.SessionRequest{Session: d.session})
	if err != nil {
		return err
	}
	stats, err := d.ask.Stats(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(
		d.must(rec.State == session.Destroyed, "the session is %s, want destroyed", rec.State),
		d.must(stats.Dead == 0, "%d dead letters", stats.Dead),
	); err != nil {
		return err
	}
	d.ok("destroyed; no dead letters")
	return nil
}

// pull takes the repository to a pull request in one job with a sandbox of its own, and
// prints the job's events as whoever follows it reads them.
func (d *demoRun) pull(ctx context.Context) error {
	d.step("pull", "one job: clone, test, commit, push, draft pull request")
	const branch = "task-pull"
	got, err := d.jobs.Publish(ctx, jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{ID: "pull"},
		Shell:  `sh test.sh >report.txt && tail -1 report.txt`,
		Repo: &jobs.Repo{
			URL:    d.git.URL,
			Commit: &jobs.Commit{Type: "test", Scope: "roman", Subject: "add a report", Body: "Written by a job in a sandbox."},
			Push:   true, PullRequest: &jobs.PullRequest{Labels: []string{"demo"}},
		},
	}, jobs.PublishOptions{})
	if err != nil {
		return err
	}
	t, err := d.followAll(ctx, events.Job{Session: got.Session, ID: got.Job})
	if err != nil {
		return err
	}
	if t.kind != events.Succeeded || t.outcome.PullRequest == nil {
		return fmt.Errorf("job pull: %s: %s (class %s)", t.kind, t.outcome.Reason, t.outcome.Class)
	}
	tip, err := d.git.Git(d.git.dir, "rev-parse", "refs/heads/"+branch)
	if err != nil {
		return err
	}
	brings, err := d.git.Git(d.git.dir, "diff", "--name-only", "main", branch)
	if err != nil {
		return err
	}
	if err := errors.Join(
		d.must(strings.Contains(t.stdout.String(), testsPassed), "stdout does not say %q", testsPassed),
		d.must(tip == t.outcome.Commit, "the server's branch is at %s, the job says %s", tip, t.outcome.Commit),
		d.must(brings == "report.txt", "the branch brings %q, want report.txt", brings),
		d.must(t.outcome.PullRequest.Draft && t.outcome.PullRequest.Number == 1, "pull request %+v is not the first, as a draft", *t.outcome.PullRequest),
	); err != nil {
		return err
	}
	d.ok("draft pull request #%d of branch %s, one file, one commit", t.outcome.PullRequest.Number, branch)
	return nil
}

func (d *demoRun) status(ctx context.Context) (query.SessionStatusReply, error) {
	return d.ask.SessionStatus(ctx, query.SessionRequest{Session: d.session})
}

// until waits for the session to reach a state, telling those on the way.
func (d *demoRun) until(ctx context.Context, want session.State) (session.Record, error) {
	rec, seq, err := d.log.Session(ctx, d.session)
	for last := session.None; err == nil; rec, seq, err = d.log.WatchSession(ctx, d.session, seq) {
		if rec.State == want {
			return rec, nil
		}
		if rec.State != last && last != session.None {
			d.note("%s", strings.TrimSpace(fmt.Sprintf("%s %s", rec.State, rec.Reason)))
		}
		last = rec.State
	}
	return rec, fmt.Errorf("wait until the session is %s (it is %s): %w", want, rec.State, err)
}
