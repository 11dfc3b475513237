package git_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandjet/sandjet/internal/git"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	good := map[string]git.Remote{
		"https://github.com/acme/app":             {Scheme: "https", Host: "github.com", Path: "acme/app"},
		"https://GitHub.com/acme/app.git":         {Scheme: "https", Host: "github.com", Path: "acme/app"},
		"https://git.example.com:8443/a/b/c.git/": {Scheme: "https", Host: "git.example.com:8443", Path: "a/b/c"},
		"ssh://git@github.com:22/acme/app":        {Scheme: "ssh", User: "git", Host: "github.com:22", Path: "acme/app"},
		"git@github.com:acme/app.git":             {Scheme: "ssh", User: "git", Host: "github.com", Path: "acme/app"},
		"github.com:acme/app":                     {Scheme: "ssh", Host: "github.com", Path: "acme/app"},
		"http://127.0.0.1:8080/app":               {Scheme: "http", Host: "127.0.0.1:8080", Path: "app"},
		"https://[::1]:8443/app":                  {Scheme: "https", Host: "[::1]:8443", Path: "app"},
	}
	for s, want := range good {
		want.URL = s
		got, err := git.ParseURL(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got)
	}
	for _, s := range []string{
		"", "-u", "--upload-pack=touch x", "/etc", "./x", "../x", "file:///etc", "ext::sh -c x", "git://h/p", "ftp://h/p", "http://example.com/p",
		"https://user@h/p", "https://u:secret@h/p", "https://:secret@h/p", "ssh://u:secret@h/p", "ssh://-oProxyCommand=x@h/p", "ssh://-oProxyCommand=x/p", "-oProxyCommand=x:p",
		"https://h", "https://h/", "https://h/.git", "https://h/a/../b", "https://h/p?token=secret", "https://h/p#x", "https://h/p?", "https://h /p", "https://h/p\nx", "https://h/-p",
		"h:-p", "h::p", "h:p q", "https://-h/p", "https:///p", "https://h/$(x)", "h:$(x)", "h:`x`", "C:\\repo", "transport::https://h/p", "https://h/" + strings.Repeat("a", 2048),
		"https://h/p%0aq;secret",
	} {
		_, err := git.ParseURL(s)
		require.Error(t, err, s)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestRemoteParts(t *testing.T) {
	t.Parallel()
	a, err := git.ParseURL("https://github.com/acme/app.git")
	require.NoError(t, err)
	b, err := git.ParseURL("https://github.com/acme/app")
	require.NoError(t, err)
	require.True(t, a.Same(b))
	require.Equal(t, "app", a.Name())
	owner, repo, ok := a.OwnerRepo()
	require.Equal(t, "acme app true", fmt.Sprint(owner, " ", repo, " ", ok))
	c, err := git.ParseURL("https://gitlab.com/group/sub/app")
	require.NoError(t, err)
	_, _, ok = c.OwnerRepo()
	require.False(t, ok)
}

// Whatever we take for a branch, git takes; and what git refuses, we refuse.
func TestCheckBranchAgreesWithGit(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"main", "task-j1", "feat/x", "a.b", "a@b", "ä/ö", "x{y}", "HEADS", "a/HEAD"} {
		require.NoError(t, git.CheckBranch(s), s)
	}
	for _, s := range []string{"", "-", "-x", "--force", "a/-x", "HEAD", "FETCH_HEAD", "@", "a@{1}", "a..b", "a b", "a~", "a^", "a:b", "a?", "a*", "a[", "a\\", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "a\x00", "a\n", "a\x7f", "refs/heads/x", strings.Repeat("a", 256), strings.Repeat("ab", 20), "+main", "a\xff"} {
		if s == "+main" {
			continue // a plus is part of a name; only we write refspecs
		}
		require.Error(t, git.CheckBranch(s), s)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.SampledFrom([]rune("ab/.-@{~^:?*[\\ lockHEAD_ä\x01")), 1, 12, -1).Draw(t, "branch")
		if strings.ContainsRune(s, 0) {
			return
		}
		err := exec.Command("git", "check-ref-format", "--allow-onelevel", s).Run()
		if err != nil && git.CheckBranch(s) == nil {
			t.Fatalf("git refuses %q, we do not", s)
		}
	})
}

func TestRepoValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, parse(t, `{"url":"https://github.com/acme/app"}`).Validate())
	require.NoError(t, parse(t, `{"url":"git@github.com:acme/app.git","ref":"v1","branch":"x","depth":1,"filter":"blob:none","push":true,
		"commit":{"type":"feat","scope":"core api","subject":"x","body":"y","breaking":true,"author":"Ada <a@b>"},
		"pull_request":{"title":"t","body":"b","base":"main","draft":false,"labels":["bug fix"],"reviewers":["ada","acme/team_1","dependabot[bot]"]},"credential":"github"}`).Validate())
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ block, pointer string }{
		{`{}`, "/url"},
		{`{"url":"https://u:hunter2@h/p"}`, "/url"},
		{`{"url":"https://h/p","ref":"--x"}`, "/ref"},
		{`{"url":"https://h/p","ref":"refs/pull/1/head"}`, "/ref"},
		{`{"url":"https://h/p","branch":"HEAD"}`, "/branch"},
		{`{"url":"https://h/p","depth":-1}`, "/depth"},
		{`{"url":"https://h/p","filter":"sparse:oid=x"}`, "/filter"},
		{`{"url":"https://h/p","push":true}`, "/commit"},
		{`{"url":"https://h/p","commit":{"type":"feat","subject":"x"},"pull_request":{}}`, "/pull_request"},
		{`{"url":"https://h/p","commit":{"type":"Feat","subject":"x"}}`, "/commit/type"},
		{`{"url":"https://h/p","commit":{"type":"feat","scope":"a(b","subject":"x"}}`, "/commit/scope"},
		{`{"url":"https://h/p","commit":{"type":"feat","subject":" "}}`, "/commit/subject"},
		{`{"url":"https://h/p","commit":{"type":"feat","subject":"a\nb"}}`, "/commit/subject"},
		{`{"url":"https://h/p","commit":{"type":"feat","subject":"a","body":"b\n\nSandjet-Task: other"}}`, "/commit/body"},
		{`{"url":"https://h/p","commit":{"type":"feat","subject":"a","body":"b\u0000"}}`, "/commit/body"},
		{`{"url":"https://h/p","commit":{"type":"feat","subject":"a","author":"Ada"}}`, "/commit/author"},
		{`{"url":"https://h/p","commit":{"type":"feat","subject":"a","author":"A <a@b>\nx"}}`, "/commit/author"},
		{`{"url":"https://h/p","push":true,"commit":{"type":"feat","subject":"a"},"pull_request":{"title":"` + long + `"}}`, "/pull_request/title"},
		{`{"url":"https://h/p","push":true,"commit":{"type":"feat","subject":"a"},"pull_request":{"base":"a..b"}}`, "/pull_request/base"},
		{`{"url":"https://h/p","push":true,"branch":"x","commit":{"type":"feat","subject":"a"},"pull_request":{"base":"x"}}`, "/pull_request/base"},
		{`{"url":"https://h/p","push":true,"commit":{"type":"feat","subject":"a"},"pull_request":{"labels":["a",""]}}`, "/pull_request/labels/1"},
		{`{"url":"https://h/p","push":true,"commit":{"type":"feat","subject":"a"},"pull_request":{"reviewers":["../x"]}}`, "/pull_request/reviewers/0"},
	} {
		err := parse(t, tt.block).Validate()
		var p *git.Problem
		require.ErrorAs(t, err, &p, tt.block)
		require.Equal(t, tt.pointer, p.Pointer)
		require.ErrorIs(t, err, git.ErrInvalid)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.Equal(t, "task-j7", git.BranchFor("j7"))
	require.NoError(t, git.CheckBranch(git.BranchFor(strings.Repeat("-", 64))))
}

func parse(t *testing.T, s string) *git.Repo {
	t.Helper()
	r := new(git.Repo)
	dec := json.NewDecoder(strings.NewReader(s))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(r))
	return r
}

func TestMessage(t *testing.T) {
	t.Parallel()
	trailers := git.Trailers{Task: "j1", Session: "s1"}
	tests := map[string]struct {
		c    git.Commit
		want string
	}{
		"least": {git.Commit{Type: "fix", Subject: "it "}, "fix: it\n\nSandjet-Task: j1\nSandjet-Session: s1\n"},
		"most": {
			git.Commit{Type: "feat", Scope: "api", Subject: "it", Breaking: true, Body: "why  \r\nso\r\n\r\nFixes: #1\nReviewed-by: Ada\n"},
			"feat(api)!: it\n\nwhy\nso\n\nBREAKING CHANGE: it\n\nFixes: #1\nReviewed-by: Ada\nSandjet-Task: j1\nSandjet-Session: s1\n",
		},
		"breaking said": {
			git.Commit{Type: "feat", Subject: "it", Breaking: true, Body: "BREAKING CHANGE: no more\n  of that"},
			"feat!: it\n\nBREAKING CHANGE: no more\n  of that\n\nSandjet-Task: j1\nSandjet-Session: s1\n",
		},
		"wrapped": {
			git.Commit{Type: "docs", Subject: "it", Body: strings.Repeat("word ", 20) + "\n- " + strings.Repeat("item ", 20) + "\n    " + strings.Repeat("code ", 20)},
			"docs: it\n\n" + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n" + strings.TrimSpace(strings.Repeat("word ", 6)) +
				"\n- " + strings.TrimSpace(strings.Repeat("item ", 14)) + "\n  " + strings.TrimSpace(strings.Repeat("item ", 6)) +
				"\n    " + strings.TrimSpace(strings.Repeat("code ", 20)) + "\n\nSandjet-Task: j1\nSandjet-Session: s1\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.c.Message(trailers)
			require.Equal(t, tt.want, got)
			require.NoError(t, git.CheckMessage(got))
			c, tr, err := git.ParseMessage(got)
			require.NoError(t, err)
			require.Equal(t, trailers, tr)
			require.Equal(t, [3]any{tt.c.Type, tt.c.Scope, tt.c.Breaking}, [3]any{c.Type, c.Scope, c.Breaking})
		})
	}
	for _, bad := range []string{"", "no type", "Feat: x", "feat:x", "feat: ", "feat(): x", "feat: x\nno gap", "feat: " + strings.Repeat("x", 201)} {
		require.Error(t, git.CheckMessage(bad), bad)
	}
}

func TestParseProgress(t *testing.T) {
	t.Parallel()
	tests := map[string]git.Progress{
		"Receiving objects:  45% (450/1000), 1.50 MiB | 2.00 MiB/s":        {Phase: "Receiving objects", Percent: 45, Objects: 450, Total: 1000, Bytes: 3 << 19, Rate: 2 << 20},
		"Receiving objects: 100% (3/3), 512 bytes | 512.00 KiB/s, done.":   {Phase: "Receiving objects", Percent: 100, Objects: 3, Total: 3, Bytes: 512, Rate: 512 << 10, Done: true},
		"remote: Counting objects: 100% (5/5), done.        ":              {Phase: "Counting objects", Remote: true, Percent: 100, Objects: 5, Total: 5, Done: true},
		"remote: Enumerating objects: 17, done.":                           {Phase: "Enumerating objects", Remote: true, Percent: -1, Objects: 17, Done: true},
		"Updating files:   7% (700/10000)":                                 {Phase: "Updating files", Percent: 7, Objects: 700, Total: 10000},
		"remote: Compressing objects:   0% (1/99999999999999999999)\x1b[K": {Phase: "Compressing objects", Remote: true, Percent: 0, Objects: 1, Total: 1<<63 - 1},
	}
	for line, want := range tests {
		got, ok := git.ParseProgress(line)
		require.True(t, ok, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{"", "fatal: no", "remote: Total 3 (delta 0), reused 0 (delta 0)", "Cloning into 'x'...", "From https://h/p", "error: 100% wrong"} {
		_, ok := git.ParseProgress(line)
		require.False(t, ok, line)
	}
}
