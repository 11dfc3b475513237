package worker_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git/local"
	"github.com/sandjet/sandjet/internal/jobs"
)

// Whatever is in a repository, and whatever a command makes of it, a job with it ends in
// one way, with a class and a reason that says what is wrong.
func TestRepoBadInput(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	tagged := g.on("rev-parse", "main")
	g.on("tag", "v1", tagged)
	empty, _, err := g.git.Make("acme/empty")
	require.NoError(t, err)
	elsewhere, err := local.Start(local.Config{Dir: t.TempDir(), Token: "of somebody else", Report: t.Errorf})
	require.NoError(t, err)
	t.Cleanup(elsewhere.Close)
	private, _, err := elsewhere.Make("acme/private")
	require.NoError(t, err)
	guarded := map[string]string{}
	for _, name := range []string{"sso", "permission"} {
		url, dir, err := g.git.Make("acme/" + name)
		require.NoError(t, err)
		_, err = g.git.Commit(dir, "main", "feat: begin", map[string]string{"README.md": "# app\n"})
		require.NoError(t, err)
		guarded[name] = url
	}
	g.git.Hub.Override = func(method, path string, _ int) *local.Answer {
		if method != http.MethodPost {
			return nil
		}
		switch path {
		case "/repos/acme/sso/pulls":
			a := local.Refusal(http.StatusForbidden, "Resource protected by organization SAML enforcement. You must grant your Personal Access token access to this organization.")
			a.Header = map[string]string{"X-GitHub-SSO": "required; url=https://github.com/orgs/acme/sso?authorization_request=x"}
			return a
		case "/repos/acme/permission/pulls":
			return local.Refusal(http.StatusForbidden, "Resource not accessible by personal access token")
		}
		return nil
	}
	g.worker(g.with())

	pull := func(r *jobs.Repo) { r.PullRequest = &jobs.PullRequest{} }
	for _, tt := range []struct {
		id, shell string
		change    func(*jobs.Repo)
		class     jobs.Class
		reason    string
		brings    string // what the branch has over the tag, quoted by git
	}{
		{id: "names", shell: `printf x >"$(printf 'a\nb "c"')"; printf x >'--all'`, class: jobs.ClassOK, brings: "--all\n" + `"a\nb \"c\""`},
		{id: "detached", shell: "git checkout -q --detach; echo x >x; git add x; git commit -qm 'feat: x'", class: jobs.ClassOK, brings: "x"},
		{id: "tag", shell: "echo x >x", change: func(r *jobs.Repo) { r.Ref = "v1" }, class: jobs.ClassOK, brings: "x"},
		{id: "commit", shell: "echo x >x", change: func(r *jobs.Repo) { r.Ref = tagged }, class: jobs.ClassOK, brings: "x"},
		{id: "noref", change: func(r *jobs.Repo) { r.Ref = "v2" }, class: jobs.ClassNotFound, reason: "there is no v2"},
		{id: "link", shell: "ln -s ../../../etc/passwd leak", class: jobs.ClassPolicy, reason: `leak`},
		{id: "module", shell: "git init -q sub; cd sub; git commit -q --allow-empty -m x; cd ..; git add sub", class: jobs.ClassPolicy, reason: "sub"},
		{id: "modules", shell: `printf '[submodule "x"]\n\tpath = x\n\turl = ../x\n' >.gitmodules`, class: jobs.ClassPolicy, reason: ".gitmodules"},
		{id: "sparse", shell: "truncate -s 2G big", class: jobs.ClassPolicy, reason: `"big"`},
		{id: "broken", shell: "rm -rf .git/objects; echo x >x", class: jobs.ClassInvalid, reason: "unreadable"},
		{id: "empty", shell: "echo x >x", change: func(r *jobs.Repo) { r.URL = empty }, class: jobs.ClassOK},
		{id: "private", change: func(r *jobs.Repo) { r.URL = private }, class: jobs.ClassGitAuth, reason: "the server wants a credential"},
		{id: "sso", shell: "echo x >x", change: func(r *jobs.Repo) { r.URL = guarded["sso"]; pull(r) }, class: jobs.ClassForbidden, reason: "single sign-on"},
		{id: "permission", shell: "echo x >x", change: func(r *jobs.Repo) { r.URL = guarded["permission"]; pull(r) }, class: jobs.ClassForbidden, reason: "permission"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			repo := g.block()
			repo.PullRequest = nil
			if tt.change != nil {
				tt.change(repo)
			}
			// Without a word of its own the command changes nothing.
			e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{ID: tt.id, Session: "s-" + tt.id, MaxAttempts: 1}, Repo: repo,
				Shell: "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; " + tt.shell,
			}))
			require.Equal(t, string(tt.class), e.Class, "%+v", e.Outcome)
			require.Contains(t, e.Reason, tt.reason)
			if tt.class != jobs.ClassOK {
				require.Equal(t, events.Dead, e.Kind)
				require.False(t, g.git.Has("acme", "app", "task-"+tt.id), "it was pushed")
			}
			if tt.brings != "" {
				require.Equal(t, tt.brings, g.on("diff", "--name-only", "main", "task-"+tt.id))
			}
		})
	}
	require.True(t, g.git.Has("acme", "empty", "task-empty"))
	// A file above the limit is refused before git reads it: nothing has filled the disk.
	out, err := g.box("s-sparse").Command("/bin/sh", "-c", "du -sk app/.git /tmp/.sandjet-git-default 2>/dev/null | cut -f1 | sort -n | tail -1").Output(t.Context())
	require.NoError(t, err)
	require.Less(t, len(strings.TrimSpace(string(out))), 5, "%s kB", out)
}
