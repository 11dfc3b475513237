package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/git/github"
	"github.com/sandjet/sandjet/internal/jobs"
)

// home asks the sandbox for the home directory of the job's user.
func (r *repoRun) home(ctx context.Context) (string, error) {
	out, err := r.box.As(r.user).Command("/bin/sh", "-c", `printf %s "$HOME"`).Output(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for the home directory: %w", err)
	}
	dir := string(bytes.TrimSpace(out))
	if !path.IsAbs(dir) || path.Clean(dir) == "/" {
		return "", faultf(jobs.ClassInvalid, "the sandbox's user has no home directory to clone into")
	}
	return path.Clean(dir), nil
}

// places are where the work tree may be: a directory named after the repository, and
// where that holds another branch, one that is named after the branch too.
func (r *repoRun) places(ctx context.Context) ([]string, error) {
	home, err := r.home(ctx)
	if err != nil {
		return nil, err
	}
	name := path.Join(home, r.remote.Name())
	return []string{name, name + "-" + strings.ReplaceAll(r.state.Branch, "/", "-")}, nil
}

// clone takes the repository into the sandbox, or adopts the work tree that is there.
func (r *repoRun) clone(ctx context.Context) (detail string, err error) {
	var places []string
	if err := r.do(ctx, offline, func(ctx context.Context, _ *git.Work) (err error) {
		places, err = r.places(ctx)
		return err
	}); err != nil {
		return "", err
	}
	opts := git.CloneOptions{
		Ref: r.block.Ref, Branch: r.state.Branch, Depth: r.block.Depth, Mirror: r.w.git.mirror(r.remote),
		Submodules: r.block.Submodules, LFS: r.block.LFS,
	}
	var c git.Clone
	begun := time.Now()
	for _, r.state.Dir = range places {
		err = r.do(ctx, github.Read, func(ctx context.Context, w *git.Work) (err error) {
			c, err = w.Clone(ctx, opts)
			return err
		})
		if !errors.Is(err, git.ErrExists) {
			break
		}
	}
	rec := r.by(audit.Git, found("clone", c.Adopted), r.session.SandboxID+":"+r.state.Dir)
	rec.Branch, rec.Commit = r.state.Branch, c.Head
	if r.did(events.StepClone, rec, begun, err); err != nil {
		return "", err
	}
	r.state.Base, r.found = c.Base, c.BranchFound
	r.state.Commit = c.Head
	how := "cloned into"
	if c.Adopted {
		how = "found in"
	}
	return fmt.Sprintf("%s %s at %s", how, r.state.Dir, shortID(c.Head)), nil
}

// branch says which branch the clone has checked out.
func (r *repoRun) branch(context.Context) (string, error) {
	if r.found {
		return r.state.Branch + ", which the server has", nil
	}
	return r.state.Branch, nil
}

// commit commits what is there.
func (r *repoRun) commit(ctx context.Context) (string, error) {
	var c git.Committed
	begun := time.Now()
	err := r.do(ctx, offline, func(ctx context.Context, w *git.Work) (err error) {
		c, err = w.Commit(ctx, git.CommitOptions{
			Message: *r.block.Git().Commit, Trailers: git.Trailers{Task: r.d.ID, Session: r.d.Session},
			Base: r.state.Base, Largest: git.DefaultLimits().File,
		})
		return err
	})
	if err != nil || !c.Nothing() {
		rec := r.by(audit.Git, found("commit", err == nil && !c.Created), r.session.SandboxID+":"+r.state.Dir)
		rec.Branch, rec.Commit = r.state.Branch, c.Commit
		r.did(events.StepCommit, rec, begun, err)
	}
	if err != nil {
		return "", err
	}
	if c.Nothing() {
		r.state.Nothing, r.state.Commit = true, ""
		return "nothing to commit", nil
	}
	r.state.Commit = c.Commit
	r.changes(c.Changes)
	return fmt.Sprintf("%s, %s", shortID(c.Commit), c.Changes.Summary()), nil
}

// Bounds of the diffstat that is kept: events are small.
const (
	statFiles = 50
	statBytes = 8 << 10
)

func (r *repoRun) changes(c git.Changes) {
	r.state.Summary = c.Summary()
	for n := statFiles; ; n /= 2 {
		if r.state.Stat = c.Stat(n); len(r.state.Stat) <= statBytes || n == 0 {
			return
		}
	}
}

// push brings the commits to the server.
func (r *repoRun) push(ctx context.Context) (string, error) {
	if r.state.Nothing {
		return "nothing to push", nil
	}
	opts := git.PushOptions{Commit: r.state.Commit, Branch: r.state.Branch, Guard: git.Guard{Refuse: r.guarded, Limits: git.DefaultLimits()}}
	if p := r.block.PullRequest; p != nil {
		opts.Base = p.Base
	}
	leave, err := r.pushTurn(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	var p git.Pushed
	access := github.Write
	if r.guarded(".github/workflows/any.yml") == nil {
		access = github.Workflows // which GitHub wants for them
	}
	begun, action := time.Now(), "push"
	if r.fromHost() {
		action = "push_host"
	}
	lend := r.lend
	if r.fromHost() {
		lend = keep
	}
	err = r.try(ctx, access, lend, func(ctx context.Context, w *git.Work) (err error) {
		if r.fromHost() {
			p, err = r.pushHost(ctx, w, opts)
		} else {
			p, err = w.Push(ctx, opts)
		}
		return err
	})
	rec := r.by(audit.Git, found(action, p.There), "")
	rec.Branch, rec.Commit = r.state.Branch, cmp.Or(p.Commit, r.state.Commit)
	if r.did(events.StepPush, rec, begun, err); err != nil {
		return "", err
	}
	r.state.Pushed, r.state.Into = p.Commit, p.Base
	r.changes(p.Changes)
	detail := fmt.Sprintf("%s at %s", r.state.Branch, shortID(p.Commit))
	switch {
	case p.There:
		detail += ", which the server had"
	case p.Rebased:
		detail += ", on top of what others pushed"
	}
	return detail, nil
}

// guarded says what the policy has against a change of a path.
func (r *repoRun) guarded(path string) error { return r.w.rules().Guarded(r.vouched(), path) }

// fromHost reports whether the push is made by the worker. A job may ask for it, and
// not against it.
func (r *repoRun) fromHost() bool {
	return r.block.PushMode == jobs.PushHost || r.w.git.cfg.PushMode == jobs.PushHost
}

// pushHost pushes from a directory of the worker's own.
func (r *repoRun) pushHost(ctx context.Context, w *git.Work, opts git.PushOptions) (git.Pushed, error) {
	dir, err := os.MkdirTemp("", "sandjet-push-")
	if err != nil {
		return git.Pushed{}, fmt.Errorf("push from the host: %w", err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			r.log.Warn("directory of a push not removed", "err", err)
		}
	}()
	return w.PushHost(ctx, hostGit{}, git.HostOptions{
		PushOptions: opts, Began: r.state.Base, Dir: dir, Largest: 2 * opts.Guard.Limits.Total,
	})
}

// hostGit runs git's scripts on the worker's machine.
type hostGit struct{ git.Local }

// errHost ends a script of the worker's own machine: the machine's doing, not git's.
var errHost = errors.New("no git on the worker's side")

// Run implements git.Runner.
func (g hostGit) Run(ctx context.Context, s git.Script) (git.Output, error) {
	out, err := g.Local.Run(ctx, s)
	if err != nil && ctx.Err() == nil && !errors.Is(err, git.ErrOutput) {
		err = fmt.Errorf("%w: %w", errHost, err)
	}
	return out, err
}

// pull opens the pull request, or finds it open.
func (r *repoRun) pull(ctx context.Context) (string, error) {
	if r.state.Nothing {
		return "nothing to merge", nil
	}
	forge, err := r.forge()
	if err != nil {
		return "", err
	}
	ref := r.block.Credential
	if err := r.w.git.take(ctx, ref, r.w.git.cfg.PullRate); err != nil {
		return "", err
	}
	want := *r.block.Git().PullRequest
	message := r.block.Git().Commit
	begun := time.Now()
	got, err := forge.Ensure(ctx, git.Pull{
		Remote: r.remote, Head: r.state.Branch, Base: want.Base,
		Title: cmp.Or(want.Title, message.Header()),
		Body: git.Body(git.BodyParts{
			Text: cmp.Or(want.Body, message.Body), Task: r.d.ID, Session: r.d.Session, Owner: r.d.Owner,
			Summary: r.state.Summary, Stat: r.state.Stat,
		}),
		Draft: want.IsDraft(), Labels: want.Labels, Reviewers: want.Reviewers, Task: r.d.ID,
	})
	if err != nil || got.Number != 0 {
		rec := r.by(audit.GitHub, "pull_request.create", "")
		if got.Adopted {
			rec.Action = "pull_request.update"
		}
		rec.Branch, rec.Commit, rec.Number = r.state.Branch, r.state.Pushed, got.Number
		r.did(events.StepPullRequest, rec, begun, err)
	}
	if err != nil {
		r.w.git.learn(ctx, ref, err)
		return "", err
	}
	for _, w := range got.Warnings {
		r.say(events.Progress{Message: w})
	}
	if got.Number == 0 {
		return "nothing to merge", nil
	}
	r.state.PullRequest = &events.PullRequest{Number: got.Number, URL: got.URL, State: got.State, Draft: got.Draft}
	detail := fmt.Sprintf("#%d %s", got.Number, got.URL)
	if got.Adopted {
		detail += ", which was there"
	}
	return detail, nil
}

// publish does the steps from the commit on that the block asks for.
func (r *repoRun) publish(ctx context.Context) error {
	if r.block.Commit == nil {
		return nil
	}
	if err := r.step(ctx, events.StepCommit, r.commit); err != nil || r.state.Nothing || !r.block.Push {
		return err
	}
	if err := r.step(ctx, events.StepPush, r.push); err != nil || r.block.PullRequest == nil {
		return err
	}
	return r.step(ctx, events.StepPullRequest, r.pull)
}

func shortID(commit string) string {
	if commit == "" {
		return "no commit"
	}
	return commit[:min(10, len(commit))]
}
