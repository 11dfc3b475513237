package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

// Whoever takes a job over ends the script that the one before him left running,
// takes its credential away, and is not disturbed by him any more.
func TestYoungerFenceTakesOver(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	old := work(t, r)
	old.Fence = 7
	old.Desk = filepath.Join(filepath.Dir(old.Desk), filepath.Base(filepath.Dir(old.Desk))) // a name that no other test has
	asked, release := make(chan struct{}, 100), make(chan struct{})
	t.Cleanup(func() { close(release) })
	first := true
	f.set(func() {
		f.before = func(string) {
			asked <- struct{}{}
			f.mu.Lock()
			hang := first
			first = false
			f.mu.Unlock()
			if hang {
				<-release
			}
		}
	})
	hung := make(chan error, 1)
	go func() {
		_, err := old.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
		hung <- err
	}()
	select {
	case <-asked:
	case err := <-hung:
		t.Fatalf("the clone ended before it asked for anything: %v", err)
	}
	lairs := func() []string {
		out, err := filepath.Glob("/dev/shm/.sandjet-git." + filepath.Base(old.Desk) + ".*")
		require.NoError(t, err)
		return append(out, lairsIn(t, old.Desk)...)
	}
	require.NotEmpty(t, lairs(), "the test does not see credentials any more")

	heir := *old
	heir.Fence = 12
	c, err := heir.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
	require.NoError(t, err)
	require.False(t, c.Adopted)
	select {
	case err := <-hung:
		require.Error(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("the older script goes on")
	}
	for _, l := range lairs() {
		left, err := os.ReadDir(l)
		require.NoError(t, err)
		require.Empty(t, left)
	}

	_, err = old.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
	require.ErrorIs(t, err, git.ErrOverruled)
	_, err = old.Push(t.Context(), git.PushOptions{Commit: c.Head, Branch: "task-j1"})
	require.ErrorIs(t, err, git.ErrOverruled)
	require.NoError(t, heir.Close(t.Context()))
	require.NoDirExists(t, heir.Desk)
	require.Empty(t, lairs())
}

// lairsIn are the directories of credentials at a desk.
func lairsIn(t *testing.T, desk string) []string {
	t.Helper()
	out, err := filepath.Glob(desk + "/secret.*")
	require.NoError(t, err)
	return out
}

// SweepText takes away what is one session's, and nothing of another's.
func TestSweep(t *testing.T) {
	t.Parallel()
	root := plainDir(t)
	mine, other := root+"/s1.1.j1", root+"/s12.1.j1"
	for _, d := range []string{mine, other} {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	var lairs []string
	for _, d := range []string{mine, other} {
		l, err := os.MkdirTemp("/dev/shm", ".sandjet-git."+filepath.Base(d)+".")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(l) })
		lairs = append(lairs, l)
	}
	run(t, root, "/bin/sh", "-c", git.SweepText, "sweep", root+"/s1.")
	require.NoDirExists(t, mine)
	require.NoDirExists(t, lairs[0])
	require.DirExists(t, other)
	require.DirExists(t, lairs[1])
}

// Look tells what a work tree is, and not another repository's.
func TestLook(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, _ := f.seeded(t, "app")
	w, c := cloned(t, r, "task-j1")
	tree, err := w.Look(t.Context())
	require.NoError(t, err)
	require.Equal(t, git.Tree{Head: c.Head, Branch: "task-j1", Base: c.Base, Default: "main"}, tree)
	w.Remote, err = git.ParseURL(strings.Replace(r.URL, "app", "other", 1))
	require.NoError(t, err)
	_, err = w.Look(t.Context())
	require.ErrorIs(t, err, git.ErrExists)
	w.Dir += "-none"
	_, err = w.Look(t.Context())
	require.ErrorIs(t, err, git.ErrNotFound)
}
