package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

func TestCommit(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	w, c := cloned(t, r, "task-j1")

	// Names that a line-based reader would trip over.
	odd := "sub/new\nline \"quoted\" 'é'\t.txt"
	write(t, w.Dir, odd, "x\n")
	write(t, w.Dir, "-rf", "dash\n")
	write(t, w.Dir, "src/a.txt", "one\n2\nthree\n")
	write(t, w.Dir, "bin", "a\x00b")
	write(t, w.Dir, ".gitignore", "ignored\n")
	write(t, w.Dir, "ignored", "x")
	require.NoError(t, os.Remove(filepath.Join(w.Dir, "README.md")))
	require.NoError(t, os.Symlink("src/a.txt", filepath.Join(w.Dir, "link")))
	m := git.Commit{Type: "fix", Scope: "core", Subject: "do it", Body: "# why\nbecause", Breaking: true, Author: "Ada Lovelace <ada@example.com>"}
	done, err := w.Commit(t.Context(), git.CommitOptions{Message: m, Trailers: git.Trailers{Task: "j1", Session: "s1"}, Base: c.Base})
	require.NoError(t, err)
	require.True(t, done.Created)
	require.Equal(t, "task-j1", done.Branch)
	require.Equal(t, 1, done.Changes.Commits)

	paths := map[string]git.FileChange{}
	for _, ch := range done.Changes.Files {
		paths[ch.Path] = ch
	}
	require.Len(t, paths, 7)
	require.Contains(t, paths, odd)
	require.Equal(t, git.FileChange{Path: "bin", Binary: true, Size: 3}, paths["bin"])
	require.Equal(t, git.FileChange{Path: "src/a.txt", Added: 1, Deleted: 1, Size: 12}, paths["src/a.txt"])
	require.Equal(t, "7 files changed, 5 insertions(+), 2 deletions(-)", done.Changes.Summary())
	require.NotContains(t, done.Changes.Stat(20), "new\nline", "a name does not break the lines of a diffstat")

	show := func(format string) string {
		return strings.TrimSpace(run(t, w.Dir, "git", "show", "-s", "--format="+format, "HEAD"))
	}
	require.Equal(t, done.Commit, show("%H"))
	require.Equal(t, c.Base, show("%P"))
	require.Equal(t, "Ada Lovelace <ada@example.com>", show("%an <%ae>"))
	require.Equal(t, "Sandjet <bot@example.com>", show("%cn <%ce>"))
	require.Equal(t, "fix(core)!: do it", show("%s"))
	require.Equal(t, "j1", show("%(trailers:key=Sandjet-Task,valueonly)"))
	require.Equal(t, "s1", show("%(trailers:key=Sandjet-Session,valueonly)"))
	require.Contains(t, show("%b"), "\nBREAKING CHANGE: do it\n")
	require.Contains(t, show("%b"), "# why")
	require.Empty(t, run(t, w.Dir, "git", "status", "--porcelain"), "the work tree's own repository knows of the commit")

	again := commit(t, w, c.Base)
	require.False(t, again.Created, "a commit that is made is not made again")
	require.Equal(t, done.Commit, again.Commit)
	require.Equal(t, done.Changes, again.Changes)
}

func TestCommitNothing(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	w, c := cloned(t, r, "task-j1")
	done := commit(t, w, c.Base)
	require.True(t, done.Nothing())
	require.False(t, done.Created)
	require.Equal(t, c.Base, done.Commit)
}

// A coding agent commits itself, on a branch of its own or on none.
func TestCommitOnTopOfTheCommandsOwn(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	for _, detached := range []bool{false, true} {
		w, c := cloned(t, r, "task-j1")
		where := "agent/branch"
		if detached {
			run(t, w.Dir, "git", "checkout", "-q", "--detach")
			where = ""
		} else {
			run(t, w.Dir, "git", "checkout", "-q", "-b", where)
		}
		write(t, w.Dir, "agent", "1\n")
		run(t, w.Dir, "git", "add", "agent")
		run(t, w.Dir, "git", "commit", "-q", "-m", "agent's own")
		own := commit(t, w, c.Base)
		require.False(t, own.Created)
		require.False(t, own.Nothing())
		require.Equal(t, where, own.Branch)
		write(t, w.Dir, "rest", "2\n")
		done := commit(t, w, c.Base)
		require.True(t, done.Created)
		require.Equal(t, 2, done.Changes.Commits)
		branch := "task-" + flat(detached)
		_, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: branch})
		require.NoError(t, err)
		require.Equal(t, "3\n", run(t, bare, "git", "rev-list", "--count", branch))
	}
}

func flat(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func TestCommitTooLarge(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	commitTo(t, bare, "main", map[string]string{"old large": strings.Repeat("x", 5000)}, "feat: large")
	w, c := cloned(t, r, "task-j1")
	write(t, w.Dir, "big\nname", strings.Repeat("y", 4097))
	write(t, w.Dir, "skipped", strings.Repeat("y", 9000))
	write(t, w.Dir, ".gitignore", "skipped\n")
	write(t, w.Dir, "fits", strings.Repeat("y", 4096))
	o := git.CommitOptions{Message: message(), Base: c.Base, Largest: 4096}
	_, err := w.Commit(t.Context(), o)
	require.ErrorIs(t, err, git.ErrTooLarge)
	var e *git.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []string{"big\nname"}, e.Paths)

	// A 2 GB file is not even read: it has no blocks, so reading it would show.
	require.NoError(t, os.Truncate(filepath.Join(w.Dir, "big\nname"), 2<<30))
	_, err = w.Commit(t.Context(), o)
	require.ErrorIs(t, err, git.ErrTooLarge)
	require.NoError(t, os.Remove(filepath.Join(w.Dir, "big\nname")))
	done, err := w.Commit(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, done.Changes.Files, 2)
}

func TestCommitSigned(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	key, pub := sshKey(t)
	allowed := filepath.Join(t.TempDir(), "allowed")
	require.NoError(t, os.WriteFile(allowed, []byte("bot@example.com "+string(pub)), 0o600))
	verify := func(dir, rev string) {
		t.Helper()
		run(t, dir, "git", "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", rev)
	}
	w, c := cloned(t, r, "task-j1")
	w.SigningKey = key
	write(t, w.Dir, "x", "y\n")
	done := commit(t, w, c.Base)
	verify(w.Dir, done.Commit)

	// Commits put on top of a branch that moved are signed, too.
	commitTo(t, bare, "task-j1", map[string]string{"z": "z\n"}, "feat: z")
	run(t, bare, "git", "update-ref", "refs/heads/task-j1", commitTo(t, bare, "main", map[string]string{"z": "z\n"}, "feat: z"))
	p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j1"})
	require.NoError(t, err)
	require.True(t, p.Rebased)
	verify(bare, p.Commit)
}

// sshKey makes a key pair.
func sshKey(t testing.TB) (key, pub []byte) {
	t.Helper()
	p := filepath.Join(t.TempDir(), "key")
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", p).CombinedOutput()
	require.NoError(t, err, "%s", out)
	key, err = os.ReadFile(p)
	require.NoError(t, err)
	pub, err = os.ReadFile(p + ".pub")
	require.NoError(t, err)
	return key, pub
}

func TestCommitBrokenRepository(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	tests := map[string]struct {
		breakIt func(*testing.T, *git.Work)
		kind    error
	}{
		"no .git": {func(t *testing.T, w *git.Work) { require.NoError(t, os.RemoveAll(filepath.Join(w.Dir, ".git"))) }, git.ErrBroken},
		"no tree": {func(t *testing.T, w *git.Work) { require.NoError(t, os.RemoveAll(w.Dir)) }, git.ErrBroken},
		"no base": {func(t *testing.T, w *git.Work) {
			require.NoError(t, os.RemoveAll(filepath.Join(w.Dir, ".git/objects")))
			require.NoError(t, os.MkdirAll(filepath.Join(w.Dir, ".git/objects/pack"), 0o755))
		}, git.ErrBroken},
		"unknown format":  {func(t *testing.T, w *git.Work) { run(t, w.Dir, "git", "config", "core.repositoryFormatVersion", "99") }, git.ErrBroken},
		"sparse checkout": {func(t *testing.T, w *git.Work) { run(t, w.Dir, "git", "config", "core.sparseCheckout", "true") }, git.ErrUnsupported},
		"desk is a link": {func(t *testing.T, w *git.Work) {
			require.NoError(t, os.RemoveAll(w.Desk))
			require.NoError(t, os.Symlink("/tmp", w.Desk))
		}, git.ErrBroken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := cloned(t, r, "task-j1")
			tt.breakIt(t, w)
			_, err := w.Commit(t.Context(), git.CommitOptions{Message: message(), Base: c.Base})
			require.ErrorIs(t, err, tt.kind)
		})
	}
}
