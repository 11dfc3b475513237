package git_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

// hostOptions push a commit from the worker's side.
func hostOptions(t *testing.T, c git.Clone, done git.Committed, branch string) git.HostOptions {
	t.Helper()
	return git.HostOptions{
		PushOptions: git.PushOptions{Commit: done.Commit, Branch: branch}, Began: c.Base,
		Dir: filepath.Join(plainDir(t), "push"), Largest: 1 << 20,
	}
}

func TestPushHost(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name, filter string
		depth        int
	}{{name: "whole"}, {name: "shallow", depth: 1}, {name: "blobless", filter: "blob:none"}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			r, bare := f.seeded(t, "app")
			commitTo(t, bare, "main", map[string]string{"second": "x\n"}, "feat: second")
			w := work(t, r)
			w.Filter = mode.filter
			c, err := w.Clone(t.Context(), git.CloneOptions{Branch: "main", Depth: mode.depth})
			require.NoError(t, err)
			rec := &recorder{Runner: w.Runner}
			w.Runner = rec
			write(t, w.Dir, "mine", "x\n")
			done := commit(t, w, c.Base)
			commitTo(t, bare, "main", map[string]string{"theirs": "y\n"}, "feat: theirs")
			o := hostOptions(t, c, done, "main")
			p, err := w.PushHost(t.Context(), local(plainDir(t)), o)
			require.NoError(t, err)
			require.True(t, p.Rebased)
			require.Equal(t, "x\n", run(t, bare, "git", "show", "main:mine"))
			require.Equal(t, "y\n", run(t, bare, "git", "show", "main:theirs"))
			again, err := w.PushHost(t.Context(), local(plainDir(t)), o)
			require.NoError(t, err)
			require.True(t, again.There)
			require.Equal(t, p.Commit, again.Commit)

			left, err := os.ReadDir(o.Dir)
			require.NoError(t, err)
			require.Empty(t, left, "the worker's disk is as it was")
			for _, s := range rec.scripts {
				require.NotContains(t, string(s.Stdin), "password", "no credential goes into the sandbox")
			}
		})
	}
}

func TestPushHostOfAnEmptyRepository(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.repo(t, "empty")
	w, c := cloned(t, r, "main")
	write(t, w.Dir, "a", "x\n")
	done := commit(t, w, c.Base)
	p, err := w.PushHost(t.Context(), local(plainDir(t)), hostOptions(t, c, done, "main"))
	require.NoError(t, err)
	require.True(t, p.New)
	require.Equal(t, done.Commit+"\n", run(t, bare, "git", "rev-parse", "main"))
}

// A sandbox whose scripts lie: what comes out is checked where it has no hand.
func TestPushHostTrustsNothing(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	before := run(t, bare, "git", "for-each-ref")
	tests := map[string]struct {
		change  func(t *testing.T, w *git.Work)
		bundle  func(t *testing.T, w *git.Work, b []byte) []byte
		largest int64
		kind    error
	}{
		"guarded path":       {change: file(".github/workflows/x.yml", "x"), kind: git.ErrGuarded},
		"another commit":     {bundle: another, kind: git.ErrBroken},
		"not a bundle":       {bundle: func(*testing.T, *git.Work, []byte) []byte { return []byte("ref: /etc/passwd\n") }, kind: git.ErrBroken},
		"empty":              {bundle: func(*testing.T, *git.Work, []byte) []byte { return nil }, kind: git.ErrBroken},
		"cut short":          {bundle: func(_ *testing.T, _ *git.Work, b []byte) []byte { return b[:len(b)-30] }, kind: git.ErrBroken},
		"a byte changed":     {bundle: func(_ *testing.T, _ *git.Work, b []byte) []byte { b[len(b)-25] ^= 1; return b }, kind: git.ErrBroken},
		"longer than said":   {bundle: func(_ *testing.T, _ *git.Work, b []byte) []byte { return append(b, make([]byte, 4000)...) }, largest: 2000, kind: git.ErrTooLarge},
		"large, and says so": {change: file("big", random(1, 5000)), largest: 2000, kind: git.ErrTooLarge},
		"unsound tree":       {kind: git.ErrBroken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := cloned(t, r, "task-j1")
			write(t, w.Dir, "x", "y\n")
			if tt.change != nil {
				tt.change(t, w)
			}
			done := commit(t, w, c.Base)
			if name == "unsound tree" {
				makeUnsound(t, w, &done)
			}
			if tt.bundle != nil {
				w.Runner = liar{w.Runner, func(b []byte) []byte { return tt.bundle(t, w, b) }}
			}
			o := hostOptions(t, c, done, "task-j1")
			if tt.largest > 0 {
				o.Largest = tt.largest
			}
			_, err := w.PushHost(t.Context(), local(plainDir(t)), o)
			require.ErrorIs(t, err, tt.kind)
		})
	}
	t.Cleanup(func() { require.Equal(t, before, run(t, bare, "git", "for-each-ref"), "something was pushed") })
}

// another makes a bundle of another commit than the one that was checked.
func another(t *testing.T, w *git.Work, _ []byte) []byte {
	write(t, w.Dir, "evil", "x")
	run(t, w.Dir, "git", "add", ".")
	run(t, w.Dir, "git", "commit", "-q", "-m", "evil")
	run(t, w.Dir, "git", "update-ref", "refs/sandjet/ours", "HEAD")
	run(t, w.Dir, "git", "bundle", "create", "-q", "evil.bundle", "refs/sandjet/ours")
	return []byte(read(t, w.Dir, "evil.bundle"))
}

// makeUnsound makes a commit with a tree that git would not write, with the path
// "..", and names it as the one to push.
func makeUnsound(t *testing.T, w *git.Work, done *git.Committed) {
	blob := strings.TrimSpace(run(t, w.Dir, "git", "hash-object", "-w", "README.md"))
	id, err := hex.DecodeString(blob)
	require.NoError(t, err)
	write(t, w.Dir, ".git/tree", "100644 ..\x00"+string(id))
	tree := strings.TrimSpace(run(t, w.Dir, "git", "hash-object", "-w", "--literally", "-t", "tree", ".git/tree"))
	done.Commit = strings.TrimSpace(run(t, w.Dir, "git", "commit-tree", "-p", "HEAD", "-m", "x", tree))
}

// random is n bytes that do not compress, the same for each seed.
func random(seed, n int) string {
	b := make([]byte, n)
	x := uint32(seed)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return string(b)
}

// liar gives another file than the one its scripts made.
type liar struct {
	git.Runner
	change func([]byte) []byte
}

func (l liar) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	r, err := l.Runner.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return io.NopCloser(bytes.NewReader(l.change(b))), err
}
