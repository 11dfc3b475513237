package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	e2blocal "github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// repo is a job from a repository to a pull request, pushed by the worker.
func (s *crashSite) repo(ctx context.Context) error { return s.repoBy(ctx, jobs.PushHost) }

func (s *crashSite) repoBy(ctx context.Context, mode string) error {
	name := "acme/" + string(s.ns)
	url, dir, err := s.w.git.Make(name)
	if err != nil {
		return err
	}
	if _, err := s.w.git.Commit(dir, "main", "feat: begin", map[string]string{"README.md": "# app\n"}); err != nil {
		return err
	}
	st := step{kind: jobs.TaskRun, body: &jobs.Run{
		Common: jobs.Common{ID: "repo"}, Shell: `echo start; echo start >>starts; sleep 0.5; echo end`,
		Repo: &jobs.Repo{
			URL: url, Commit: &jobs.Commit{Type: "feat", Subject: "start"}, Push: true, PushMode: mode,
			PullRequest: &jobs.PullRequest{Labels: []string{"bot"}},
		},
	}, stdout: "start\nend\n"}
	if err := s.chain(ctx, []step{st}); err != nil {
		return err
	}
	h, err := s.facts.History(ctx, st.key())
	if err != nil {
		return err
	}
	return s.foundAfter(name, dir, h)
}

// foundAfter checks what a job with a repository has left: one branch, one commit, one
// pull request, and a command that was started once.
func (s *crashSite) foundAfter(name, dir string, h events.History) error {
	ask := func(args ...string) string {
		out, err := s.w.git.Git(dir, args...)
		if err != nil {
			return err.Error()
		}
		return out
	}
	var pulls []string
	s.w.git.Hub.Do(func() {
		for _, p := range s.w.git.Hub.Pulls {
			base := p["base"].(map[string]any)
			if base["repo"].(map[string]any)["full_name"] == name {
				pulls = append(pulls, fmt.Sprint(p["head"].(map[string]any)["ref"], " ", len(p["labels"].([]any))))
			}
		}
	})
	var errs []error
	want := func(what, got, want string) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s: %s is %q, want %q", name, what, got, want))
		}
	}
	out := h.Outcome.Value
	want("the branches", ask("branch", "--format=%(refname:short)"), "main\ntask-repo")
	want("the commits", ask("log", "--format=%s", "main..task-repo"), "feat: start")
	want("the starts", ask("show", "task-repo:starts"), "start")
	want("the pull requests", strings.Join(pulls, ", "), "task-repo 1")
	want("the commit", out.Commit, ask("rev-parse", "task-repo"))
	if out.PullRequest == nil || out.PullRequest.Number == 0 {
		errs = append(errs, fmt.Errorf("%s: the end names no pull request", name))
	}
	return errors.Join(errs...)
}

// A repoKill is where a worker is killed, or what it is denied, on its way from the
// repository to the pull request.
type repoKill struct{ mode, rule string }

// repoKills are after each word of a step, and between each effect and its record:
// every run of the tests tries some, REPOKILLS=all tries all.
func repoKills() (kills []repoKill) {
	for _, r := range []string{
		"events.step=crash@2", "events.step=crash@5", "events.step=crash@6", "events.step=crash@8", "events.step=crash@10",
		"github.open=crash", "github.open=lost", "events.step=pause:" + crashPause.String() + "@9",
	} {
		kills = append(kills, repoKill{jobs.PushSandbox, r})
	}
	kills = append(kills, repoKill{jobs.PushHost, "git.script=crash@3"})
	if os.Getenv("REPOKILLS") != "all" {
		return kills
	}
	for _, n := range []int{1, 3, 4, 7, 9, 11, 12} {
		kills = append(kills, repoKill{jobs.PushSandbox, "events.step=crash@" + strconv.Itoa(n)})
	}
	for _, r := range []string{"e2b.network=crash@1", "e2b.network=lost@2", "e2b.network=error@3", "e2b.network=crash@4", "github.open=error", "github.label=crash", "github.list=lost", "events.progress=crash", "events.step=lost@8"} {
		kills = append(kills, repoKill{jobs.PushSandbox, r})
	}
	for _, n := range []int{1, 2, 4} {
		kills = append(kills, repoKill{jobs.PushHost, "git.script=crash@" + strconv.Itoa(n)})
	}
	return kills
}

// Killed anywhere and taken over, a job ends with one branch, one commit and one pull
// request.
func TestRepoKilledAnywhere(t *testing.T) {
	t.Parallel()
	_, err := pointsBinary()
	require.NoError(t, err)
	w := newGitWorld(t, func(c *e2blocal.Config) { c.Log = nil }).world
	var g errgroup.Group
	g.SetLimit(atOnce(t))
	for i, k := range repoKills() {
		g.Go(func() error {
			t.Run(k.mode+" "+k.rule, func(t *testing.T) {
				s := newCrashSite(t, w, "r"+strconv.Itoa(i))
				s.load = func(ctx context.Context) error { return s.repoBy(ctx, k.mode) }
				s.asleep, s.letters = nil, 0
				all, err := s.strike(t, k.rule)
				require.NoError(t, err)
				require.True(t, slices.ContainsFunc(all, func(c *crasher) bool { return c.says("fired ") }), "it has not struck")
			})
			return nil
		})
	}
	_ = g.Wait()
}
