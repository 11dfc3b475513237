package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

func TestPush(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	for _, mode := range []struct {
		name, filter string
		o            git.CloneOptions
	}{
		{name: "whole"}, {name: "shallow", o: git.CloneOptions{Depth: 1}}, {name: "blobless", filter: "blob:none"}, {name: "treeless", filter: "tree:0", o: git.CloneOptions{Depth: 1}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			w := work(t, r)
			w.Filter = mode.filter
			mode.o.Branch = "task-" + mode.name
			c, err := w.Clone(t.Context(), mode.o)
			require.NoError(t, err)
			write(t, w.Dir, "new", mode.name+"\n")
			done := commit(t, w, c.Base)
			o := git.PushOptions{Commit: done.Commit, Branch: mode.o.Branch}
			p, err := w.Push(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, git.Pushed{Commit: done.Commit, New: true, Base: "main", Changes: done.Changes}, p)
			require.Equal(t, done.Commit+"\n", run(t, bare, "git", "rev-parse", "refs/heads/"+mode.o.Branch))

			p, err = w.Push(t.Context(), o)
			require.NoError(t, err)
			require.True(t, p.There, "what the server has is not sent again")
			require.Equal(t, done.Changes, p.Changes)

			// Whoever takes the job over finds the desk, or not.
			require.NoError(t, w.Close(t.Context()))
			p, err = w.Push(t.Context(), o)
			require.NoError(t, err)
			require.True(t, p.There)
		})
	}
}

// TestUploadsKnowTheirHTTP looks at git's configuration while it fetches and pushes.
func TestUploadsKnowTheirHTTP(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	w := work(t, r)
	asked := map[string]string{}
	f.set(func() {
		f.before = func(path string) {
			_, service, _ := strings.Cut(path, "service=")
			out, err := output("", "find", w.Desk, "-name", ".gitconfig", "-exec", "git", "config", "-f", "{}", "http.version", ";")
			f.set(func() { asked[service] += fmt.Sprint(out, err) })
		}
	})
	c, err := w.Clone(t.Context(), git.CloneOptions{Branch: "task"})
	require.NoError(t, err)
	write(t, w.Dir, "new", "text")
	_, err = w.Push(t.Context(), git.PushOptions{Commit: commit(t, w, c.Base).Commit, Branch: "task"})
	require.NoError(t, err)
	f.set(func() {
		for _, service := range []string{"git-upload-pack", "git-receive-pack"} {
			require.Contains(t, asked[service], "HTTP/1.1\n", service)
		}
	})
}

// The branch moves between clone and push, in each way a clone can be.
func TestPushOntoMovedBranch(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name, filter string
		depth        int
	}{{name: "whole"}, {name: "shallow", depth: 1}, {name: "blobless", filter: "blob:none"}, {name: "both", depth: 1, filter: "blob:none"}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			r, bare := f.seeded(t, "app")
			w := work(t, r)
			w.Filter = mode.filter
			c, err := w.Clone(t.Context(), git.CloneOptions{Branch: "main", Depth: mode.depth})
			require.NoError(t, err)
			require.True(t, c.BranchFound)
			write(t, w.Dir, "src/a.txt", "one\ntwo\nthree\nfour\n")
			done, err := w.Commit(t.Context(), git.CommitOptions{Message: git.Commit{Type: "feat", Subject: "add", Author: "Ada <ada@e>"}, Base: c.Base})
			require.NoError(t, err)
			moved := commitTo(t, bare, "main", map[string]string{"README.md": "# moved\n"}, "docs: move")
			p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "main"})
			require.NoError(t, err)
			require.True(t, p.Rebased)
			require.NotEqual(t, done.Commit, p.Commit)
			require.Equal(t, p.Commit+" "+moved+"\n", run(t, bare, "git", "rev-list", "--parents", "-1", "main"))
			require.Equal(t, "one\ntwo\nthree\nfour\n", run(t, bare, "git", "show", "main:src/a.txt"))
			require.Equal(t, "# moved\n", run(t, bare, "git", "show", "main:README.md"))
			require.Equal(t, "Ada <ada@e> Sandjet\n", run(t, bare, "git", "show", "-s", "--format=%an <%ae> %cn", "main"))
			require.Len(t, p.Changes.Files, 1)

			// Once more, as after a crash before the record: the same is found.
			again, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "main"})
			require.NoError(t, err)
			require.True(t, again.There)
			require.Equal(t, p.Commit, again.Commit)
		})
	}
}

func TestPushConflict(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	w, c := cloned(t, r, "main")
	odd := "odd\nname"
	write(t, w.Dir, "src/a.txt", "one\nmine\nthree\n")
	write(t, w.Dir, odd, "mine\n")
	done := commit(t, w, c.Base)
	moved := commitTo(t, bare, "main", map[string]string{"src/a.txt": "one\ntheirs\nthree\n", `"odd\nname"`: "theirs\n"}, "feat: theirs")
	_, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "main"})
	require.ErrorIs(t, err, git.ErrConflict)
	var e *git.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "git_conflict", e.Class())
	require.Equal(t, []string{odd, "src/a.txt"}, e.Paths)
	require.Equal(t, moved+"\n", run(t, bare, "git", "rev-parse", "main"))
	require.Equal(t, "one\nmine\nthree\n", read(t, w.Dir, "src/a.txt"), "the work tree stays as it was")
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(b)
}

// The branch moves each time between our look and our push, but not for ever.
func TestPushCatchesUpWithARunner(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		moves int
		kind  error
	}{"twice": {moves: 2}, "for ever": {moves: 100, kind: git.ErrMoved}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			r, bare := f.seeded(t, "app")
			w, c := cloned(t, r, "main")
			write(t, w.Dir, "mine", "x\n")
			done := commit(t, w, c.Base)
			moves := 0
			f.set(func() {
				f.before = func(path string) {
					if strings.HasSuffix(path, "service=git-receive-pack") && moves < tt.moves {
						moves++
						commitTo(t, bare, "main", map[string]string{"theirs": strings.Repeat("x", moves)}, "feat: run")
					}
				}
			})
			p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "main", Tries: 3})
			if tt.kind != nil {
				require.ErrorIs(t, err, tt.kind)
				require.Equal(t, 3, moves)
				return
			}
			require.NoError(t, err)
			require.Equal(t, p.Commit+"\n", run(t, bare, "git", "rev-parse", "main"))
			require.Equal(t, "xx", run(t, bare, "git", "show", "main:theirs"))
		})
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(t *testing.T, f *forge, bare string)
		kind    error
		class   string
		words   string
	}{
		"hook declines": {func(t *testing.T, _ *forge, bare string) {
			hook(t, bare, "pre-receive", "echo 'no commits on a Sunday' >&2; exit 1\n")
		}, git.ErrRejected, "policy", "no commits on a Sunday"},
		"hook declines one ref": {func(t *testing.T, _ *forge, bare string) {
			hook(t, bare, "update", "echo \"branch $1 is closed\"; exit 1\n")
		}, git.ErrRejected, "policy", "branch refs/heads/task-j1 is closed"},
		"too large for the server": {func(t *testing.T, _ *forge, bare string) {
			hook(t, bare, "pre-receive", "echo \"error: File big is 120.00 MB; this exceeds GitHub's file size limit of 100.00 MB\" >&2; exit 1\n")
		}, git.ErrTooLarge, "policy", "100.00 MB"},
		"no permission for workflows": {func(t *testing.T, _ *forge, bare string) {
			hook(t, bare, "pre-receive", "echo 'refusing to allow a GitHub App to create or update workflow `.github/workflows/x.yml` without `workflows` permission' >&2; exit 1\n")
		}, git.ErrForbidden, "forbidden", "workflows"},
		"token revoked": {func(_ *testing.T, f *forge, _ string) { f.set(func() { f.token = "another" }) }, git.ErrAuth, "git_auth", "revoked"},
		"read only": {func(t *testing.T, _ *forge, bare string) {
			run(t, bare, "git", "config", "http.receivepack", "false")
		}, git.ErrForbidden, "forbidden", "permission to write"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			r, bare := f.seeded(t, "app")
			w, c := cloned(t, r, "task-j1")
			write(t, w.Dir, "x", "y\n")
			done := commit(t, w, c.Base)
			tt.prepare(t, f, bare)
			_, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j1"})
			require.ErrorIs(t, err, tt.kind)
			var e *git.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tt.class, e.Class())
			require.Contains(t, err.Error(), tt.words)
			require.NotContains(t, err.Error(), token)
		})
	}
}

// What is guarded is refused in whichever commit it stands, and however it got
// there.
func TestPushGuards(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(t *testing.T, w *git.Work)
		guard  git.Guard
		kind   error
		paths  []string
	}{
		"workflow":            {change: file(".github/workflows/ci.yml", "x"), kind: git.ErrGuarded, paths: []string{".github/workflows/ci.yml"}},
		"in another case":     {change: file(".GitHub/Workflows/ci.yml", "x"), kind: git.ErrGuarded, paths: []string{".GitHub/Workflows/ci.yml"}},
		"owners":              {change: file("docs/CODEOWNERS", "x"), kind: git.ErrGuarded, paths: []string{"docs/CODEOWNERS"}},
		"owners elsewhere":    {change: file("src/CODEOWNERS", "x")},
		"modules":             {change: file(".gitmodules", "x"), kind: git.ErrGuarded, paths: []string{".gitmodules"}},
		"allowed":             {change: file(".github/workflows/ci.yml", "x"), guard: git.Guard{Allow: []string{".github/workflows/*.yml"}}},
		"nothing guarded":     {change: file(".github/workflows/ci.yml", "x"), guard: git.Guard{Paths: []string{}}},
		"taken back":          {change: takenBack, kind: git.ErrGuarded, paths: []string{".github/workflows/ci.yml"}},
		"link out":            {change: link("../../etc/passwd"), kind: git.ErrGuarded, paths: []string{"link"}},
		"absolute link":       {change: link("/etc/passwd"), kind: git.ErrGuarded, paths: []string{"link"}},
		"link into .git":      {change: link(".git/config"), kind: git.ErrGuarded, paths: []string{"link"}},
		"link within":         {change: link("src/../README.md")},
		"link out, allowed":   {change: link("/etc/passwd"), guard: git.Guard{AllowLinks: true}},
		"repository within":   {change: nested, kind: git.ErrGuarded, paths: []string{"vendor/dep"}},
		"large file":          {change: file("big", strings.Repeat("x", 2000)), guard: git.Guard{Limits: git.Limits{File: 1999}}, kind: git.ErrTooLarge, paths: []string{"big"}},
		"large, not too":      {change: file("big", strings.Repeat("x", 2000)), guard: git.Guard{Limits: git.Limits{File: 2000, Total: 2000, Files: 1, Commits: 1}}},
		"binary":              {change: file("bin", "\x00"+strings.Repeat("x", 2000)), guard: git.Guard{Limits: git.Limits{Binary: 2000}}, kind: git.ErrTooLarge, paths: []string{"bin"}},
		"all together":        {change: file("big", strings.Repeat("x", 2000)), guard: git.Guard{Limits: git.Limits{Total: 1999}}, kind: git.ErrTooLarge, paths: []string{""}},
		"too many":            {change: takenBack, guard: git.Guard{Paths: []string{}, Limits: git.Limits{Commits: 1}}, kind: git.ErrTooLarge, paths: []string{""}},
		"large and gone":      {change: largeAndGone, guard: git.Guard{Limits: git.Limits{File: 1999}}, kind: git.ErrTooLarge, paths: []string{"big"}},
		"hidden by a refspec": {change: hidden, kind: git.ErrGuarded, paths: []string{".github/workflows/ci.yml"}},
	}
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	n := 0
	for name, tt := range tests {
		n++
		branch := "task-" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := cloned(t, r, branch)
			tt.change(t, w)
			done := commit(t, w, c.Base)
			p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: branch, Guard: tt.guard})
			if tt.kind == nil {
				require.NoError(t, err)
				require.True(t, p.New)
				return
			}
			require.ErrorIs(t, err, tt.kind)
			var e *git.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "policy", e.Class())
			var paths []string
			for _, f := range e.Findings {
				paths = append(paths, f.Path)
			}
			require.Equal(t, tt.paths, paths)
			if name != "hidden by a refspec" {
				require.Equal(t, e.Findings, done.Findings(tt.guard), "it could be said before the push")
			}
		})
	}
}

func file(name, text string) func(*testing.T, *git.Work) {
	return func(t *testing.T, w *git.Work) { write(t, w.Dir, name, text) }
}

func link(to string) func(*testing.T, *git.Work) {
	return func(t *testing.T, w *git.Work) { require.NoError(t, os.Symlink(to, filepath.Join(w.Dir, "link"))) }
}

func takenBack(t *testing.T, w *git.Work) {
	write(t, w.Dir, ".github/workflows/ci.yml", "x")
	run(t, w.Dir, "git", "add", ".")
	run(t, w.Dir, "git", "commit", "-q", "-m", "there")
	require.NoError(t, os.RemoveAll(filepath.Join(w.Dir, ".github")))
	write(t, w.Dir, "harmless", "x")
}

func largeAndGone(t *testing.T, w *git.Work) {
	write(t, w.Dir, "big", strings.Repeat("x", 2000))
	run(t, w.Dir, "git", "add", ".")
	run(t, w.Dir, "git", "commit", "-q", "-m", "there")
	require.NoError(t, os.Remove(filepath.Join(w.Dir, "big")))
}

func nested(t *testing.T, w *git.Work) {
	dir := filepath.Join(w.Dir, "vendor/dep")
	run(t, "", "git", "init", "-q", dir)
	write(t, dir, "x", "y")
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "commit", "-q", "-m", "dep")
}

// hidden makes the clone believe that the server has the workflow already.
func hidden(t *testing.T, w *git.Work) {
	takenBack(t, w)
	run(t, w.Dir, "git", "update-ref", "refs/remotes/origin/main", "HEAD")
	run(t, w.Dir, "git", "config", "sandjet.base", strings.TrimSpace(run(t, w.Dir, "git", "rev-parse", "HEAD")))
}

// Fifty jobs on one repository: those with a branch of their own do not disturb
// each other, those on one branch follow each other.
func TestFiftyAtOnce(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	const jobs, shared = 50, 5
	gate := make(chan struct{}, 6) // git is the machine's load, not ours
	var wg sync.WaitGroup
	errs := make([]error, jobs)
	for i := range jobs {
		wg.Go(func() {
			branch := "task-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
			if i < shared {
				branch = "shared"
			}
			gate <- struct{}{}
			defer func() { <-gate }()
			w := work(t, r)
			c, err := w.Clone(t.Context(), git.CloneOptions{Branch: branch, Depth: 1})
			if err != nil {
				errs[i] = err
				return
			}
			if err := os.WriteFile(filepath.Join(w.Dir, branch+string(rune('A'+i%26))), []byte(branch), 0o600); err != nil {
				errs[i] = err
				return
			}
			done, err := w.Commit(t.Context(), git.CommitOptions{Message: message(), Base: c.Base})
			if err != nil {
				errs[i] = err
				return
			}
			_, errs[i] = w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: branch, Tries: 20})
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err, "job %d", i)
	}
	branches := strings.Fields(run(t, bare, "git", "for-each-ref", "--format=%(refname:short)", "refs/heads"))
	require.Len(t, branches, jobs-shared+2)
	for _, b := range branches {
		want := map[string]string{"main": "1\n", "shared": "6\n"}[b]
		if want == "" {
			want = "2\n"
		}
		require.Equal(t, want, run(t, bare, "git", "rev-list", "--count", b), b)
	}
	run(t, bare, "git", "fsck", "--strict")
}
