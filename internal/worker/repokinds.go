package worker

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/jobs"
)

// repoTask runs a command in a repository's work tree, between the steps that bring
// it there and those that bring its changes back.
func (h *hold) repoTask(ctx context.Context) (events.Outcome, error) {
	p := h.d.Payload.(*jobs.Run)
	r, err := h.repo(p.Repo, p.User)
	if err != nil {
		return events.Outcome{}, err
	}
	t := &task{hold: h, p: p, cmd: h.command(p)}
	if r.needsBox() {
		k, b, err := h.w.sessions.ready(ctx, &h.ask)
		if err != nil {
			return events.Outcome{}, err
		}
		if err := t.use(k, b); err != nil {
			return events.Outcome{}, err
		}
		r.in(k, b)
		defer r.clear()
	}
	// Only where the command has begun may it run already.
	t.announced = !h.startedBefore() || r.done(events.StepCommand) || h.past.Step.Value.Name != events.StepCommand
	if !h.startedBefore() {
		if err := h.started(events.Started{
			SandboxID: r.session.SandboxID, Generation: r.session.Generation, Argv: t.shown(), Cwd: p.Cwd,
			StdoutOffset: h.past.Stdout.Offset, StderrOffset: h.past.Stderr.Offset,
		}); err != nil {
			return events.Outcome{}, err
		}
	}
	zero := 0
	out := events.Outcome{Class: string(jobs.ClassOK), ExitCode: &zero}
	h.quiet(true)
	err = r.step(ctx, events.StepClone, r.clone)
	if err == nil {
		err = r.step(ctx, events.StepBranch, r.branch)
	}
	if err != nil {
		return r.result(events.Outcome{}), err
	}
	if !r.done(events.StepCommand) {
		if err := r.begun(events.StepCommand); err != nil {
			return r.result(events.Outcome{}), err
		}
		h.quiet(false)
		t.cmd.Cwd = path.Join(r.state.Dir, p.Cwd)
		if path.IsAbs(p.Cwd) {
			t.cmd.Cwd = p.Cwd
		}
		if out, err = t.perform(ctx); err != nil || out.Class != string(jobs.ClassOK) {
			return r.result(out), err
		}
		h.quiet(true)
		r.state.Done = events.StepCommand
		if err := r.tellStep(events.StepCommand, events.StepDone, "exit status 0"); err != nil {
			return r.result(out), err
		}
	}
	err = r.publish(ctx)
	return r.result(out), err
}

// gitClone takes a repository into the session's sandbox.
func (h *hold) gitClone(ctx context.Context) (events.Outcome, error) {
	return h.gitJob(ctx, func(r *repoRun) error {
		if err := r.step(ctx, events.StepClone, r.clone); err != nil {
			return err
		}
		return r.step(ctx, events.StepBranch, r.branch)
	})
}

// gitPublish commits what is in a work tree of the session's sandbox, pushes it and
// opens a pull request.
func (h *hold) gitPublish(ctx context.Context) (events.Outcome, error) {
	if h.d.Payload.(*jobs.Git).Repo.Commit == nil {
		return events.Outcome{}, &fault{class: jobs.ClassInvalid, pointer: "/repo/commit", reason: "what is published needs a commit message: give commit a type and a subject"}
	}
	return h.gitJob(ctx, func(r *repoRun) error {
		if r.needsBox() && !r.done(events.StepCommit) {
			if err := r.find(ctx); err != nil {
				return contextCause(ctx, r.explain(events.StepCommit, err))
			}
		}
		return r.publish(ctx)
	})
}

func (h *hold) gitJob(ctx context.Context, steps func(*repoRun) error) (events.Outcome, error) {
	r, err := h.repo(h.d.Payload.(*jobs.Git).Repo, "")
	if err != nil {
		return events.Outcome{}, err
	}
	if r.needsBox() {
		k, b, err := h.w.sessions.ready(ctx, &h.ask)
		if err != nil {
			return events.Outcome{}, err
		}
		h.attach(k, b)
		r.in(k, b)
		defer r.clear()
	}
	if !h.startedBefore() {
		if err := h.started(events.Started{SandboxID: r.session.SandboxID, Generation: r.session.Generation}); err != nil {
			return events.Outcome{}, err
		}
	}
	err = steps(r)
	return r.result(events.Outcome{Class: string(jobs.ClassOK)}), err
}

// find finds the work tree to publish: one of the branch if one is named, else the
// one that is there.
func (r *repoRun) find(ctx context.Context) error {
	ctx, cancel := r.untilCancelled(ctx)
	defer cancel()
	var places []string
	if err := r.do(ctx, offline, func(ctx context.Context, _ *git.Work) (err error) {
		places, err = r.places(ctx)
		return err
	}); err != nil {
		return err
	}
	found := ""
	for _, dir := range places {
		var tree git.Tree
		r.state.Dir = dir
		err := r.do(ctx, offline, func(ctx context.Context, w *git.Work) (err error) {
			tree, err = w.Look(ctx)
			return err
		})
		switch {
		case errors.Is(err, git.ErrNotFound), errors.Is(err, git.ErrExists):
			continue
		case err != nil:
			return err
		}
		if found == "" || tree.Branch == r.state.Branch {
			found, r.state.Base = dir, tree.Base
			if tree.Base == "" {
				r.state.Base = tree.Head
			}
		}
	}
	if r.state.Dir = found; found == "" {
		return &fault{class: jobs.ClassNotFound, pointer: "/repo/url", reason: fmt.Sprintf("the session's sandbox has no work tree of it in %s: clone it first", places[0])}
	}
	return nil
}
