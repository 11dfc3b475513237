package worker_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	e2blocal "github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git/local"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/worker"
)

// planted is the worker's token in these tests: it must be found nowhere.
const planted = "ghs_planted0secret1that2must3not4leak5"

// gitWorld is a world with a git server and a forge.
type gitWorld struct {
	*world
	url string // of acme/app
	dir string // its bare repository

	mu     sync.Mutex
	before func(*http.Request)
}

func newGitWorld(t *testing.T, change ...func(*e2blocal.Config)) *gitWorld {
	t.Helper()
	g := &gitWorld{world: newWorld(t, change...)}
	var err error
	g.git, err = local.Start(local.Config{
		Dir: t.TempDir(), Token: planted, Report: t.Errorf,
		Before: func(r *http.Request) {
			g.mu.Lock()
			f := g.before
			g.mu.Unlock()
			if f != nil {
				f(r)
			}
		},
	})
	require.NoError(t, err)
	t.Cleanup(g.git.Close)
	g.url, g.dir, err = g.git.Make("acme/app")
	require.NoError(t, err)
	g.commit("main", map[string]string{"README.md": "# app\n", "src/a.txt": "one\ntwo\nthree\n"})
	return g
}

// commit makes a commit on the server.
func (g *gitWorld) commit(branch string, files map[string]string) string {
	g.t.Helper()
	id, err := g.git.Commit(g.dir, branch, "feat: begin", files)
	require.NoError(g.t, err)
	return id
}

// with gives a worker what it needs for the repository.
func (g *gitWorld) with(change ...func(*worker.Config)) func(*worker.Config) {
	return func(c *worker.Config) {
		c.Git.GitHubToken = func() (string, error) { return planted, nil }
		c.Git.GitHubAPI = g.git.URL
		c.Git.PullRate = 100
		for _, f := range change {
			f(c)
		}
	}
}

// set changes what the server does with each request.
func (g *gitWorld) set(f func(*http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = f
}

// on asks the bare repository.
func (g *gitWorld) on(args ...string) string {
	g.t.Helper()
	out, err := g.git.Git(g.dir, args...)
	require.NoError(g.t, err)
	return out
}

// block is a repo block that does all there is.
func (g *gitWorld) block() *jobs.Repo {
	return &jobs.Repo{
		URL:    g.url,
		Commit: &jobs.Commit{Type: "feat", Scope: "app", Subject: "say more", Body: "It said little.", Author: "Ada Lovelace <ada@example.com>"},
		Push:   true, PullRequest: &jobs.PullRequest{Labels: []string{"bot"}},
	}
}

// steps are the steps that a job told, each as "name state".
func (e ended) steps(t *testing.T) (out []string) {
	t.Helper()
	for _, ev := range e.Events {
		if ev.Kind == events.KindStep {
			var s events.Step
			require.NoError(t, ev.Decode(&s))
			out = append(out, s.Name+" "+s.State)
		}
	}
	return out
}

var allSteps = []string{
	"clone begun", "clone done", "branch begun", "branch done", "command begun", "command done",
	"commit begun", "commit done", "push begun", "push done", "pull_request begun", "pull_request done",
}

// From a repository to a pull request, in one job.
func TestRepoJob(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with())
	job := g.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: g.block(),
		Shell: `echo hello; pwd | sed 's,.*/,,'; git branch --show-current; echo more >>README.md; mkdir new; echo x >new/file`,
	})
	e := g.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, "hello\napp\ntask-j1\n", string(e.Stdout))
	require.Equal(t, allSteps, e.steps(t))
	require.Equal(t, 1, e.count(events.KindStarted))
	require.Equal(t, "task-j1", e.Branch)
	require.NotNil(t, e.PullRequest)
	require.Equal(t, 1, e.PullRequest.Number)
	require.True(t, e.PullRequest.Draft)
	require.Equal(t, 0, *e.ExitCode)

	require.Equal(t, e.Commit, g.on("rev-parse", "refs/heads/task-j1"))
	require.Equal(t, "Ada Lovelace <ada@example.com> Sandjet <noreply@sandjet.dev>", g.on("log", "-1", "--format=%an <%ae> %cn <%ce>", "task-j1"))
	require.Equal(t, "feat(app): say more\n\nIt said little.\n\nSandjet-Task: j1\nSandjet-Session: s1", strings.TrimSpace(g.on("log", "-1", "--format=%B", "task-j1")))
	require.Equal(t, "README.md\nnew/file", g.on("diff", "--name-only", "main", "task-j1"))
	require.Equal(t, "1", g.on("rev-list", "--count", "main..task-j1"))

	require.Len(t, g.git.Hub.Pulls, 1)
	p := g.git.Hub.Pulls[0]
	require.Equal(t, "feat(app): say more", p["title"])
	require.Contains(t, p["body"], "It said little.")
	require.Contains(t, p["body"], "2 files changed, 2 insertions(+)")
	require.Equal(t, true, p["draft"])

	// The same job again is the same job.
	again := g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: g.block(), Argv: []string{"false"}})
	require.Equal(t, e.Commit, g.follow(again).Commit)
	require.Len(t, g.git.Hub.Pulls, 1)
}

// What the command leaves as it was is a success without a pull request.
func TestRepoNothingToCommit(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with())
	e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j1"}, Repo: g.block(), Argv: []string{"true"}}))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Empty(t, e.Commit)
	require.Nil(t, e.PullRequest)
	require.Equal(t, allSteps[:8], e.steps(t))
	require.Empty(t, g.git.Hub.Pulls)
	require.Equal(t, "main", g.on("branch", "--format=%(refname:short)"))
}

// A command that fails is the job's end: nothing is pushed.
func TestRepoCommandFails(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with())
	e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: g.block(), Shell: `echo x >x; exit 4`}))
	require.Equal(t, events.Failed, e.Kind)
	require.Equal(t, 4, *e.ExitCode)
	require.Empty(t, e.Commit)
	require.Equal(t, allSteps[:5], e.steps(t))
	require.Equal(t, "main", g.on("branch", "--format=%(refname:short)"))
}

// Clone, work and publish may be jobs of their own.
func TestCloneThenPublish(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with())
	clone := g.follow(g.publish(jobs.GitClone, &jobs.Git{Common: jobs.Common{ID: "c", Session: "s1"}, Repo: &jobs.Repo{URL: g.url, Branch: "fix/7"}}))
	require.Equal(t, events.Succeeded, clone.Kind, "%+v", clone.Outcome)
	require.Equal(t, g.on("rev-parse", "main"), clone.Commit)
	require.Equal(t, "fix/7", clone.Branch)

	work := g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "w", Session: "s1"}, Cwd: "app", Shell: `echo more >>README.md`}))
	require.Equal(t, events.Succeeded, work.Kind, "%+v", work.Outcome)

	repo := g.block()
	repo.Branch = "fix/7"
	repo.PushMode = jobs.PushHost
	e := g.follow(g.publish(jobs.GitPublish, &jobs.Git{Common: jobs.Common{ID: "p", Session: "s1"}, Repo: repo}))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, allSteps[6:], e.steps(t))
	require.Equal(t, e.Commit, g.on("rev-parse", "refs/heads/fix/7"))
	require.Equal(t, "1", g.on("rev-list", "--count", "main..fix/7"))
	require.Equal(t, 1, e.PullRequest.Number)

	// Another job of the session on another branch has a work tree of its own.
	other := g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "o", Session: "s1"}, Repo: g.block(), Shell: `pwd | sed 's,.*/,,'; echo y >y`}))
	require.Equal(t, events.Succeeded, other.Kind, "%+v", other.Outcome)
	require.Equal(t, "app-task-o\n", string(other.Stdout))
	require.Equal(t, 2, other.PullRequest.Number)

	none := g.follow(g.publish(jobs.GitPublish, &jobs.Git{Common: jobs.Common{ID: "n", Session: "s2", MaxAttempts: 1}, Repo: repo}))
	require.Equal(t, events.Dead, none.Kind)
	require.Equal(t, string(jobs.ClassNotFound), none.Class)
	require.Contains(t, none.Reason, "clone it first")
}

// What cannot be done is said before anything is done, by its pointer.
func TestRepoRefused(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with(func(c *worker.Config) { c.Git.GitHubToken = nil }))
	for name, tt := range map[string]struct {
		change          func(*jobs.Repo)
		pointer, reason string
		class           jobs.Class
	}{
		"no token":   {func(*jobs.Repo) {}, "/repo/pull_request", "set GITHUB_TOKEN", jobs.ClassInvalid},
		"credential": {func(r *jobs.Repo) { r.Credential = "mine" }, "/repo/credential", "mine", jobs.ClassNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			repo := g.block()
			tt.change(repo)
			e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{Repo: repo, Argv: []string{"true"}}))
			require.Equal(t, events.Dead, e.Kind)
			require.Equal(t, string(tt.class), e.Class)
			require.Equal(t, tt.pointer, e.Pointer)
			require.Contains(t, e.Reason, tt.reason)
			require.Empty(t, e.steps(t))
		})
	}
	require.Empty(t, g.e2b.Sandboxes())
}

// A token that is revoked in the middle ends the job with what to do, and with one
// that is good again the next attempt goes on at the push.
func TestTokenRevokedInTheMiddle(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with())
	job := g.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{ID: "j1", Session: "s1", MaxAttempts: 20}, Repo: g.block(), Shell: `echo start; echo x >x; until [ -e ../go ]; do sleep 0.1; done`,
	})
	g.reaches(job, func(h events.History) bool { return h.Stdout.Offset > 0 })
	g.git.Hub.Do(func() { g.git.Hub.Tokens[planted] = time.Time{} })
	require.NoError(t, g.box("s1").Command("touch", "go").Run(t.Context()))
	g.reaches(job, func(h events.History) bool { return h.Retrying.OK() })
	h, err := g.facts.History(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, string(jobs.ClassGitAuth), h.Retrying.Value.Class)
	require.Contains(t, h.Retrying.Value.Reason, "revoked")
	g.git.Hub.Do(func() { g.git.Hub.Tokens[planted] = time.Now().Add(time.Hour) })
	e := g.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, "start\n", string(e.Stdout), "the command ran once")
	require.Greater(t, e.Attempts, 1)
	require.Len(t, g.git.Hub.Pulls, 1)
	require.Equal(t, "1", g.on("rev-list", "--count", "main..task-j1"))
}

// GitHub's limits make jobs wait; nothing is spent and nobody else asks meanwhile.
func TestGitHubLimitIsWaited(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	refused := 0
	g.git.Hub.Override = func(method, path string, n int) *local.Answer {
		if method == http.MethodPost && strings.HasSuffix(path, "/pulls") && n == 1 {
			refused++
			a := local.Refusal(http.StatusForbidden, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
			a.Header = map[string]string{"Retry-After": "2"}
			return a
		}
		return nil
	}
	g.worker(g.with())
	e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: g.block(), Shell: `echo start; echo x >x`}))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, refused)
	require.Equal(t, 1, e.Attempts)
	require.Equal(t, "start\n", string(e.Stdout))
	var w events.Waiting
	for _, ev := range e.Events {
		if ev.Kind == events.KindWaiting {
			require.NoError(t, ev.Decode(&w))
		}
	}
	require.Equal(t, events.WaitRate, w.Why)
	require.Contains(t, w.Detail, "slow down")
	require.Len(t, g.git.Hub.Pulls, 1)
}

// traps are what a command may plant for git to run, each with a proof if it does.
const traps = `
prove() { printf '#!/bin/sh\ncat /dev/shm/.sandjet-git.*/* >>"%s/proof" 2>/dev/null; echo %s >>"%s/proof"; cat\n' "$HOME" "$1" "$HOME"; }
for h in pre-commit commit-msg post-commit pre-push reference-transaction post-checkout post-index-change; do prove $h >.git/hooks/$h; chmod +x .git/hooks/$h; done
prove prog >../prog; chmod +x ../prog
git config core.fsmonitor "$HOME/prog"
git config credential.helper "$HOME/prog"
git config core.sshCommand "$HOME/prog"
git config core.hooksPath "$PWD/.git/hooks"
git config filter.x.clean "$HOME/prog"
git config filter.x.process "$HOME/prog"
git config url."http://127.0.0.1:1/".insteadOf http://
git config http.proxy http://127.0.0.1:1
git config gpg.program "$HOME/prog"
git config commit.gpgSign true
mkdir -p .git/info; echo '* filter=x' >.git/info/attributes
printf '[core]\n\thooksPath = %s/.git/hooks\n[credential]\n\thelper = %s/prog\n' "$PWD" "$HOME" >../.gitconfig
cp ../prog ../git
echo trapped >>README.md
`

// What the command plants for git to run does not run, and the worker's token is
// nowhere: in no event, no file of the sandbox, no argument and no environment.
func TestRepoTokenAndTraps(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{jobs.PushSandbox, jobs.PushHost} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := newGitWorld(t)
			var mu sync.Mutex
			var seen []string
			g.set(func(*http.Request) {
				procs, _ := filepath.Glob("/proc/[0-9]*")
				for _, p := range procs {
					for _, n := range []string{"/cmdline", "/environ"} {
						if b, err := os.ReadFile(p + n); err == nil && strings.Contains(string(b), planted) && p != "/proc/"+strconv.Itoa(os.Getpid()) {
							mu.Lock()
							seen = append(seen, p+n)
							mu.Unlock()
						}
					}
				}
			})
			g.worker(g.with())
			repo := g.block()
			repo.PushMode = mode
			// The command knows the token by itself, and says it.
			job := g.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: repo, Env: map[string]string{"HALF": planted[:20], "REST": planted[20:]},
				Shell: `echo "$HALF$REST"; cat .git/config; env | grep -c ` + "GITHUB" + `; ls /dev/shm/.sandjet-git.* 2>/dev/null` + traps,
			})
			e := g.follow(job)
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			require.Contains(t, string(e.Stdout), strings.Repeat("*", len(planted)))
			require.Equal(t, "trapped", g.on("show", "task-j1:README.md")[len("# app\n"):])
			require.Empty(t, seen, "in arguments or an environment")

			box := g.box("s1")
			_, err := box.Stat(t.Context(), "proof")
			require.ErrorIs(t, err, e2b.ErrNotFound, "a trap was sprung")
			// The test sees traps that are sprung: git as the command would call it.
			_ = box.Command("/bin/sh", "-c", "cd app && git status; git commit -qam x").Run(t.Context())
			_, err = box.Stat(t.Context(), "proof")
			require.NoError(t, err, "the traps are none")

			find := box.Command("/bin/sh", "-c", `grep -rlF "$1$2" /home /tmp /dev/shm 2>/dev/null | grep -v '^/tmp/.sandjet-default/'; ls -d /dev/shm/.sandjet-git.s1.* /tmp/.sandjet-git-default/s1.* 2>/dev/null; exit 0`, "x", planted[:20], planted[20:])
			require.Eventually(t, func() bool { // the desk goes after the end
				again := *find
				out, err := again.Output(t.Context())
				return err == nil && len(out) == 0
			}, eventually, tick)
			for _, name := range []string{"EVENTS", "JOBS", "DEAD"} {
				st, err := g.js.Stream(t.Context(), name)
				require.NoError(t, err)
				for seq := st.CachedInfo().State.FirstSeq; seq != 0 && seq <= st.CachedInfo().State.LastSeq; seq++ {
					if m, err := st.GetMsg(t.Context(), seq); err == nil {
						require.NotContains(t, string(m.Data)+fmt.Sprint(m.Header), planted, m.Subject)
					}
				}
			}
		})
	}
}

// What may not be pushed is refused with its paths, and what the server declines with
// its words.
func TestRepoPushRefused(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with())
	e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "flow"}, Repo: g.block(), Shell: `mkdir -p .github/workflows; echo x >.github/workflows/ci.yml`}))
	require.Equal(t, events.Dead, e.Kind)
	require.Equal(t, string(jobs.ClassPolicy), e.Class)
	require.Contains(t, e.Reason, ".github/workflows/ci.yml")
	require.NoError(t, g.git.Hook(g.dir, "pre-receive", "echo 'no pushes on Sundays' >&2; exit 1\n"))
	e = g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "hook"}, Repo: g.block(), Shell: `echo x >x`}))
	require.Equal(t, string(jobs.ClassPolicy), e.Class)
	require.Contains(t, e.Reason, "no pushes on Sundays")
	require.Equal(t, "main", g.on("branch", "--format=%(refname:short)"))
	require.Empty(t, g.git.Hub.Pulls)
}

// The policy's guarded paths and repositories hold for the owner whom the subject
// names.
func TestRepoPolicy(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	file := filepath.Join(t.TempDir(), "policy.yml")
	require.NoError(t, os.WriteFile(file, []byte(`version: 1
rules:
  - name: builders
    owners: [builder]
    repos: ["`+g.git.URL+`/acme/*"]
    guarded_paths:
      allow: [".github/workflows/**"]
      add: ["deploy/**"]
  - name: others
    repos: []
`), 0o600))
	g.worker(g.with(func(c *worker.Config) { c.PolicyFile = file }))
	try := func(owner, id, shell string) ended {
		repo := g.block()
		repo.PullRequest = nil
		p, err := g.jobs.Publish(t.Context(), jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: id}, Repo: repo, Shell: shell}, jobs.PublishOptions{Owner: owner})
		require.NoError(t, err)
		return g.follow(events.Job{Session: p.Session, ID: p.Job})
	}
	e := try("builder", "may", `mkdir -p .github/workflows; echo x >.github/workflows/ci.yml`)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	e = try("builder", "not", `mkdir deploy; echo x >deploy/x`)
	require.Equal(t, string(jobs.ClassPolicy), e.Class)
	require.Contains(t, e.Reason, "deploy/x")
	require.Contains(t, e.Reason, "guarded_paths")
	e = try("stranger", "other", `true`)
	require.Equal(t, string(jobs.ClassPolicy), e.Class)
	require.Equal(t, "/repo/url", e.Pointer)
	require.Equal(t, "main\ntask-may", g.on("branch", "--format=%(refname:short)"))
}

// A branch that moved while the command ran is caught up with; a conflict is told with
// its files.
func TestRepoBranchMoved(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with())
	for _, tt := range []struct{ id, file, end string }{{"easy", "other.txt", "succeeded"}, {"hard", "README.md", "dead"}} {
		g.commit(tt.id, map[string]string{"begun": "x"})
		repo := g.block()
		repo.Branch = tt.id
		job := g.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{ID: tt.id, Session: tt.id, MaxAttempts: 1}, Repo: repo, Shell: `echo start; echo ours >>README.md; until [ -e ../go ]; do sleep 0.1; done`,
		})
		g.reaches(job, func(h events.History) bool { return h.Stdout.Offset > 0 })
		g.commit(tt.id, map[string]string{tt.file: "# theirs\n"})
		require.NoError(t, g.box(tt.id).Command("touch", "go").Run(t.Context()))
		e := g.follow(job)
		require.Equal(t, tt.end, string(e.Kind), "%+v", e.Outcome)
		if tt.end == "succeeded" {
			require.Equal(t, "feat(app): say more\nfeat: begin\nfeat: begin", g.on("log", "--format=%s", "main.."+tt.id))
			require.Equal(t, e.Commit, g.on("rev-parse", tt.id))
			continue
		}
		require.Equal(t, string(jobs.ClassGitConflict), e.Class)
		require.Contains(t, e.Reason, "README.md")
	}
}

// A cancel while git is at work ends it at once, and nothing of it is left running.
func TestRepoCancelledInTheClone(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	asked := make(chan struct{}, 100)
	g.set(func(*http.Request) {
		asked <- struct{}{}
		<-release
	})
	g.worker(g.with())
	job := g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: g.block(), Argv: []string{"true"}})
	soon(t, asked, "a question to the git server")
	require.NoError(t, g.facts.Cancel(t.Context(), job, events.CancelRequested{Reason: "enough"}))
	e := g.follow(job)
	require.Equal(t, events.Cancelled, e.Kind, "%+v", e.Outcome)
	out, err := g.box("s1").Command("/bin/sh", "-c", `for p in /proc/[0-9]*; do tr '\000' '\n' <$p/environ 2>/dev/null | grep '^SANDJET_GIT=/tmp/.sandjet-git-default/s1'; done; ls -d /dev/shm/.sandjet-git.s1.* 2>/dev/null; exit 0`).Output(t.Context())
	require.NoError(t, err)
	require.Empty(t, string(out))
}

// reaches waits until a job's log fulfils something.
func (w *world) reaches(job events.Job, ok func(events.History) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		h, err := w.facts.History(w.t.Context(), job)
		return err == nil && ok(h)
	}, 60*time.Second, tick)
}

// A server that does not answer is waited for, and no longer than the worker has
// patience, whoever has the job in hand; then the reason says what to look at.
func TestGitServerNeverAnswers(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	g.set(func(*http.Request) { <-release })
	patient := g.with(func(c *worker.Config) { c.Git.Patience = 4 * time.Second })
	first := g.worker(patient)
	for name, url := range map[string]string{"mute": g.url, "unknown": "https://git.sandjet.invalid/acme/app.git"} {
		repo := g.block()
		repo.URL, repo.PullRequest = url, nil
		job := g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: name, MaxAttempts: 2}, Repo: repo, Argv: []string{"true"}})
		var since time.Time
		g.reaches(job, func(h events.History) bool {
			since = h.Waiting.Value.Since
			return h.Waiting.Value.Why == events.WaitRemote
		})
		require.False(t, since.IsZero())
		if name == "unknown" { // the patience is the job's, not one worker's
			first.Stop()
			g.worker(patient)
		}
		e := g.follow(job)
		require.Equal(t, events.Dead, e.Kind, "%+v", e.Outcome)
		require.Equal(t, string(jobs.ClassTransport), e.Class)
		require.Equal(t, "/repo/url", e.Pointer)
		require.Contains(t, e.Reason, "no answer from "+strings.Split(url, "/")[2]+" for 4s: check the address")
		require.Equal(t, 2, e.Attempts)
		require.Equal(t, []string{"clone begun"}, e.steps(t))
		for _, ev := range e.Events {
			if ev.Kind == events.KindWaiting {
				var w events.Waiting
				require.NoError(t, ev.Decode(&w))
				require.Equal(t, events.WaitRemote, w.Why)
				require.Equal(t, since, w.Since, "one silence")
			}
		}
		// What the job only waited for is not on record.
		var clones []string
		for _, a := range actions(g.records(name)) {
			if strings.HasPrefix(a, "clone ") {
				clones = append(clones, a)
			}
		}
		require.Equal(t, []string{"clone transport", "clone transport"}, clones)
	}
}
