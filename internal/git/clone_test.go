package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

func TestClone(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.repo(t, "acme/app")
	first := commitTo(t, bare, "main", map[string]string{"a": "1\n"}, "feat: a")
	run(t, bare, "git", "tag", "-a", "-m", "v1", "v1", first)
	second := commitTo(t, bare, "main", map[string]string{"b": "2\n"}, "feat: b")
	side := commitTo(t, bare, "side/track", map[string]string{"c": "3\n"}, "feat: c")
	run(t, bare, "git", "branch", "both", first)
	run(t, bare, "git", "tag", "both", second)
	run(t, bare, "git", "branch", "task-old", second)
	tip := commitTo(t, bare, "task-old", map[string]string{"d": "4\n"}, "feat: d")

	tests := map[string]struct {
		o          git.CloneOptions
		filter     string
		base, head string
		commits    string
	}{
		"default branch":       {o: git.CloneOptions{}, base: second, head: second, commits: "2"},
		"branch":               {o: git.CloneOptions{Ref: "side/track"}, base: side, head: side, commits: "1"},
		"whole name":           {o: git.CloneOptions{Ref: "refs/heads/main"}, base: second, head: second, commits: "2"},
		"tag":                  {o: git.CloneOptions{Ref: "v1"}, base: first, head: first, commits: "1"},
		"branch before tag":    {o: git.CloneOptions{Ref: "both"}, base: first, head: first, commits: "1"},
		"commit":               {o: git.CloneOptions{Ref: first}, base: first, head: first, commits: "1"},
		"depth":                {o: git.CloneOptions{Depth: 1}, base: second, head: second, commits: "1"},
		"blobless":             {filter: "blob:none", base: second, head: second, commits: "2"},
		"treeless and depth":   {o: git.CloneOptions{Depth: 1}, filter: "tree:0", base: second, head: second, commits: "1"},
		"all branches":         {o: git.CloneOptions{AllBranches: true}, base: second, head: second, commits: "2"},
		"commit, all branches": {o: git.CloneOptions{Ref: first, AllBranches: true}, base: first, head: first, commits: "1"},
		"branch that is there": {o: git.CloneOptions{Branch: "task-old"}, base: second, head: tip, commits: "3"},
		"there, from a tag":    {o: git.CloneOptions{Branch: "task-old", Ref: "v1"}, base: first, head: tip, commits: "3"},
		"no mirror there":      {o: git.CloneOptions{Mirror: "/nonexistent/mirror"}, base: second, head: second, commits: "2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := work(t, r)
			w.Filter = tt.filter
			if tt.o.Branch == "" {
				tt.o.Branch = "task-j1"
			}
			c, err := w.Clone(t.Context(), tt.o)
			require.NoError(t, err)
			require.Equal(t, git.Clone{Base: tt.base, Head: tt.head, Default: "main", BranchFound: tt.base != tt.head}, c)
			require.Equal(t, tt.o.Branch+"\n", run(t, w.Dir, "git", "symbolic-ref", "--short", "HEAD"))
			require.Equal(t, tt.head+"\n", run(t, w.Dir, "git", "rev-parse", "HEAD"))
			require.Equal(t, tt.commits+"\n", run(t, w.Dir, "git", "rev-list", "--count", "HEAD"))
			require.Empty(t, run(t, w.Dir, "git", "status", "--porcelain"))
			require.Equal(t, "origin\t"+r.URL, strings.Fields(run(t, w.Dir, "git", "remote", "-v"))[0]+"\t"+strings.Fields(run(t, w.Dir, "git", "remote", "-v"))[1])

			again, err := w.Clone(t.Context(), tt.o)
			require.NoError(t, err)
			c.Adopted = true
			require.Equal(t, c, again)
		})
	}
}

// A server that gives commits by no id of its own: all branches are fetched then.
func TestCloneCommitFromServerThatHidesThem(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "old")
	first := strings.TrimSpace(run(t, bare, "git", "rev-parse", "main"))
	commitTo(t, bare, "main", map[string]string{"b": "2\n"}, "feat: b")
	run(t, bare, "git", "config", "uploadpack.allowAnySHA1InWant", "false")
	run(t, bare, "git", "config", "protocol.version", "0")
	w := work(t, r)
	c, err := w.Clone(t.Context(), git.CloneOptions{Branch: "b", Ref: first})
	require.NoError(t, err)
	require.Equal(t, first, c.Head)
}

func TestCloneEmptyRepository(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.repo(t, "empty")
	w, c := cloned(t, r, "task-j1")
	require.Empty(t, c.Base)
	require.Empty(t, c.Head)

	require.True(t, commit(t, w, "").Nothing())
	write(t, w.Dir, "a", "first\n")
	done := commit(t, w, "")
	require.True(t, done.Created)
	require.Len(t, done.Changes.Files, 1)
	p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j1"})
	require.NoError(t, err)
	require.True(t, p.New)
	require.Equal(t, 1, p.Changes.Added)
}

func TestCloneMirror(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	mirror := filepath.Join(t.TempDir(), "mirror.git")
	run(t, "", "git", "clone", "-q", "--mirror", bare, mirror)
	w := work(t, r)
	_, err := w.Clone(t.Context(), git.CloneOptions{Branch: "b", Mirror: mirror})
	require.NoError(t, err)
	require.Empty(t, strings.TrimSpace(run(t, w.Dir, "find", ".git/objects", "-type", "f", "!", "-name", "alternates")), "nothing is fetched that the mirror has")

	write(t, w.Dir, "new", "x\n")
	c := commit(t, w, "")
	_, err = w.Push(t.Context(), git.PushOptions{Commit: c.Commit, Branch: "b"})
	require.NoError(t, err)
}

func TestCloneRefuses(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	gone, err := git.ParseURL(f.URL + "/nobody/nothing.git")
	require.NoError(t, err)
	closed, err := git.ParseURL("http://127.0.0.1:9/app.git")
	require.NoError(t, err)
	run(t, bare, "git", "update-ref", "refs/pull/1/head", "main")

	tests := map[string]struct {
		remote git.Remote
		change func(*git.Work, *git.CloneOptions)
		kind   error
		class  string
	}{
		"revoked token":      {change: func(w *git.Work, _ *git.CloneOptions) { w.Credential.Password = "ghs_revoked" }, kind: git.ErrAuth, class: "git_auth"},
		"no token":           {change: func(w *git.Work, _ *git.CloneOptions) { w.Credential = git.Credential{} }, kind: git.ErrAuth, class: "git_auth"},
		"no repository":      {remote: gone, kind: git.ErrNotFound, class: "not_found"},
		"no server":          {remote: closed, kind: git.ErrUnavailable, class: "unavailable"},
		"no branch":          {change: func(_ *git.Work, o *git.CloneOptions) { o.Ref = "nope" }, kind: git.ErrNotFound, class: "not_found"},
		"no tag":             {change: func(_ *git.Work, o *git.CloneOptions) { o.Ref = "refs/tags/nope" }, kind: git.ErrNotFound, class: "not_found"},
		"no commit":          {change: func(_ *git.Work, o *git.CloneOptions) { o.Ref = strings.Repeat("ab", 20) }, kind: git.ErrNotFound, class: "not_found"},
		"short commit":       {change: func(_ *git.Work, o *git.CloneOptions) { o.Ref = "abcdef12" }, kind: git.ErrNotFound, class: "not_found"},
		"an option":          {change: func(_ *git.Work, o *git.CloneOptions) { o.Ref = "--upload-pack=touch" }, kind: git.ErrInvalid, class: "invalid"},
		"option for branch":  {change: func(_ *git.Work, o *git.CloneOptions) { o.Branch = "-f" }, kind: git.ErrInvalid, class: "invalid"},
		"foreign ref":        {change: func(_ *git.Work, o *git.CloneOptions) { o.Ref = "refs/pull/1/head" }, kind: git.ErrInvalid, class: "invalid"},
		"something is there": {change: func(w *git.Work, _ *git.CloneOptions) { write(t, w.Dir, "x", "y") }, kind: git.ErrExists, class: "invalid"},
		"a line break":       {change: func(w *git.Work, _ *git.CloneOptions) { w.Credential.Password = "a\nhost=evil" }, kind: git.ErrAuth, class: "git_auth"},
		"a key over http":    {change: func(w *git.Work, _ *git.CloneOptions) { w.Credential = git.Credential{Key: []byte("k")} }, kind: git.ErrAuth, class: "git_auth"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.remote == (git.Remote{}) {
				tt.remote = r
			}
			w, o := work(t, tt.remote), git.CloneOptions{Branch: "b"}
			if tt.change != nil {
				tt.change(w, &o)
			}
			_, err := w.Clone(t.Context(), o)
			require.ErrorIs(t, err, tt.kind)
			var e *git.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tt.class, e.Class())
			require.NotContains(t, err.Error(), token)
			require.NotContains(t, err.Error(), "ghs_revoked")
			_, err = os.Stat(filepath.Join(w.Dir, ".git"))
			require.ErrorIs(t, err, os.ErrNotExist, "a clone that failed leaves nothing")
		})
	}
}

// The same directory with another repository or branch in it is not ours to take.
func TestCloneDoesNotAdoptAnother(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	other, _ := f.seeded(t, "other")
	w, _ := cloned(t, r, "task-j1")
	_, err := w.Clone(t.Context(), git.CloneOptions{Branch: "task-j2"})
	require.ErrorIs(t, err, git.ErrExists)
	w.Remote = other
	_, err = w.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
	require.ErrorIs(t, err, git.ErrExists)
}
