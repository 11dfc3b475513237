package main

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/jobs"
)

// cloneFlags say what of a repository is taken.
func cloneFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "ref", Usage: "`REF` to take: branch, tag or commit; the default branch unless given"},
		branchFlag(),
		&cli.IntFlag{Name: "depth", Usage: "take the last `N` commits; all unless given", HideDefault: true, Validator: atLeastOne},
		&cli.StringFlag{Name: "filter", Usage: "partial clone `FILTER`, such as blob:none"},
		&cli.BoolFlag{Name: "submodules", Usage: "check submodules out too"},
		&cli.BoolFlag{Name: "lfs", Usage: "fetch the files that are kept in Git LFS"},
	}
}

func branchFlag() cli.Flag {
	return &cli.StringFlag{Name: "branch", Usage: "`BRANCH` to work on; task-<job id> unless given"}
}

func credentialFlag() cli.Flag {
	return &cli.StringFlag{Name: "credential", Usage: "clone and push with the secret `NAME`; the worker's own credential unless given"}
}

// publishFlags say what becomes of the changes.
func publishFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "commit", Usage: "commit what changed as `MESSAGE`, a conventional commit: \"feat(api): say more\""},
		&cli.StringFlag{Name: "author", Usage: "author of the commit, `NAME <mail>`"},
		&cli.BoolFlag{Name: "push", Usage: "push the branch"},
		&cli.StringFlag{Name: "push-mode", Usage: "push from `WHERE`: sandbox, or host, where no credential gets into the sandbox for it"},
		&cli.BoolFlag{Name: "pr", Usage: "push, and open a pull request"},
		&cli.StringFlag{Name: "pr-title", Usage: "its `TITLE`; the commit's first line unless given"},
		&cli.StringFlag{Name: "pr-body", Usage: "its `TEXT`; the commit's body unless given"},
		&cli.StringFlag{Name: "base", Usage: "`BRANCH` to merge into; the default branch unless given"},
		&cli.BoolFlag{Name: "ready", Usage: "no draft"},
		&cli.StringSliceFlag{Name: "pr-label", Usage: "`LABEL` of the pull request; may be repeated"},
		&cli.StringSliceFlag{Name: "reviewer", Usage: "`USER` or organisation/team to ask for a review; may be repeated"},
	}
}

// repoBlock reads those flags. What does not go together is said here; all else is
// the job's own judgement.
func repoBlock(cmd *cli.Command, url string) (*jobs.Repo, error) {
	r := &jobs.Repo{
		URL: url, Ref: cmd.String("ref"), Branch: cmd.String("branch"), Depth: cmd.Int("depth"), Filter: cmd.String("filter"),
		Submodules: cmd.Bool("submodules"), LFS: cmd.Bool("lfs"), Credential: cmd.String("credential"),
		Push: cmd.Bool("push") || cmd.Bool("pr"), PushMode: cmd.String("push-mode"),
	}
	if text := cmd.String("commit"); text != "" {
		c, _, err := git.ParseMessage(text)
		if err != nil {
			return nil, usagef(cmd, "--commit: %s", err)
		}
		c.Author = cmd.String("author")
		r.Commit = (*jobs.Commit)(&c)
	}
	for _, name := range []string{"pr-title", "pr-body", "base", "ready", "pr-label", "reviewer"} {
		if cmd.IsSet(name) && !cmd.Bool("pr") {
			return nil, usagef(cmd, "--%s is of a pull request: give --pr too", name)
		}
	}
	if cmd.Bool("pr") {
		r.PullRequest = &jobs.PullRequest{
			Title: cmd.String("pr-title"), Body: cmd.String("pr-body"), Base: cmd.String("base"),
			Labels: cmd.StringSlice("pr-label"), Reviewers: cmd.StringSlice("reviewer"),
		}
		if draft := false; cmd.Bool("ready") {
			r.PullRequest.Draft = &draft
		}
	}
	return r, nil
}

// repoOf is run's repo block, nil without --repo.
func repoOf(cmd *cli.Command) (*jobs.Repo, error) {
	url := cmd.String("repo")
	if url != "" {
		return repoBlock(cmd, url)
	}
	for _, f := range slices.Concat(cloneFlags(), publishFlags(), []cli.Flag{credentialFlag()}) {
		if name := f.Names()[0]; cmd.IsSet(name) {
			return nil, usagef(cmd, "--%s is of a repository: give --repo too", name)
		}
	}
	return nil, nil
}

func (a *App) cloneCommand() *cli.Command {
	return a.gitCommand(&cli.Command{
		Name:        "clone",
		Usage:       "clone a repository into a session's sandbox",
		ArgsUsage:   "URL",
		Description: "publisher clone --session s1 --branch fix-7 https://github.com/acme/app.git",
		Flags:       cloneFlags(),
	}, jobs.GitClone)
}

func (a *App) publishCommand() *cli.Command {
	return a.gitCommand(&cli.Command{
		Name:        "publish",
		Usage:       "commit what is in a clone, push it and open a pull request",
		ArgsUsage:   "URL",
		Description: "publisher publish --session s1 --branch fix-7 --commit 'fix: the thing' --pr https://github.com/acme/app.git",
		Flags:       append([]cli.Flag{branchFlag()}, publishFlags()...),
	}, jobs.GitPublish)
}

// gitCommand is one that publishes a job of a kind with a repo block alone.
func (a *App) gitCommand(c *cli.Command, kind jobs.Kind) *cli.Command {
	c.Flags = slices.Concat([]cli.Flag{&cli.StringFlag{Name: "session", Usage: "session `ID`; must be given", Validator: idCheck("session")}},
		c.Flags, []cli.Flag{credentialFlag()}, jobFlags())
	c.Action = func(ctx context.Context, cmd *cli.Command) error {
		return withCode(exitNotRun, a.gitJob(ctx, cmd, kind))
	}
	return c
}

func (a *App) gitJob(ctx context.Context, cmd *cli.Command, kind jobs.Kind) error {
	url, err := oneArg(cmd, "URL")
	if err != nil {
		return err
	}
	if cmd.String("session") == "" {
		return usagef(cmd, "--session is missing")
	}
	repo, err := repoBlock(cmd, url)
	if err != nil {
		return err
	}
	base, err := common(cmd, cmd.String("session"))
	if err != nil {
		return err
	}
	return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
		s, err := c.submit(ctx, cmd, kind, &jobs.Git{Common: base, Repo: repo})
		if err != nil {
			return err
		}
		if cmd.Bool("detach") {
			return a.detached(cmd, s)
		}
		return a.show(ctx, cmd, c, s.key(), events.FollowOptions{})
	})(ctx, cmd)
}

// stepNote is a step that is done, for people; empty for other events.
func stepNote(e events.Event) string {
	var s events.Step
	if e.Kind != events.KindStep || e.Decode(&s) != nil || s.State != events.StepDone || s.Name == events.StepCommand {
		return ""
	}
	return join(": ", strings.ReplaceAll(s.Name, "_", " "), s.Detail)
}
