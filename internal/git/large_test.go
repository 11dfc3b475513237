package git_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

const (
	largeFiles   = 10_000
	largeCommits = 2_000
)

// large makes a repository of 10,000 files and 2,000 commits.
func large(t testing.TB, f *forge) (git.Remote, string) {
	t.Helper()
	r, bare := f.repo(t, "large")
	cmd := exec.Command("git", "fast-import", "--quiet", "--done")
	cmd.Dir, cmd.Env = bare, clean()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	b := bufio.NewWriterSize(in, 1<<20)
	inline := func(n, version int) {
		text := fmt.Sprintf("file %d, version %d\n%x\n", n, version, random(n, 100+n%900))
		fmt.Fprintf(b, "M 100644 inline d%d/d%d/f%d.txt\ndata %d\n%s\n", n%40, n%7, n, len(text), text)
	}
	for i := range largeCommits {
		fmt.Fprintf(b, "commit refs/heads/main\ncommitter Ada <ada@example.com> %d +0000\ndata <<E\nfeat: step %d\nE\n", 1_700_000_000+i, i)
		if i == 0 {
			for n := range largeFiles {
				inline(n, 0)
			}
			continue
		}
		inline(i*7%largeFiles, i)
	}
	fmt.Fprintln(b, "done")
	require.NoError(t, b.Flush())
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	return r, bare
}

// largeModes are the ways to take a large repository.
func largeModes(mirror string) map[string]mode {
	return map[string]mode{
		"whole":            {},
		"depth=1":          {o: git.CloneOptions{Depth: 1}},
		"blobless":         {filter: "blob:none"},
		"blobless,depth=1": {filter: "blob:none", o: git.CloneOptions{Depth: 1}},
		"mirror":           {o: git.CloneOptions{Mirror: mirror}},
	}
}

type mode struct {
	filter string
	o      git.CloneOptions
}

// A small change to a large repository is cloned, committed and pushed, and
// progress is told on the way.
func TestLargeRepository(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("10,000 files")
	}
	f := newForge(t)
	r, _ := large(t, f)
	m := largeModes("")["blobless,depth=1"]
	w := work(t, r)
	w.Filter, m.o.Branch = m.filter, "task-j1"
	var told atomic.Int64
	var last atomic.Value
	w.Tell = func(p git.Progress) {
		told.Add(1)
		last.Store(p)
	}
	c, err := w.Clone(t.Context(), m.o)
	require.NoError(t, err)
	require.Greater(t, told.Load(), int64(10))
	require.Equal(t, 100, last.Load().(git.Progress).Percent)
	require.Equal(t, fmt.Sprintf("%d\n", largeFiles), run(t, w.Dir, "sh", "-c", "git ls-files | wc -l"))
	write(t, w.Dir, "new.txt", "x\n")
	done := commit(t, w, c.Base)
	require.Len(t, done.Changes.Files, 1)
	p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: m.o.Branch})
	require.NoError(t, err)
	require.Equal(t, done.Changes, p.Changes)
}

// What each way costs: go test -run=^$ -bench=Large -benchtime=1x ./internal/git
func BenchmarkLarge(b *testing.B) {
	f := newForge(b)
	r, bare := large(b, f)
	mirror := plainDir(b) + "/mirror.git"
	run(b, "", "git", "clone", "-q", "--mirror", bare, mirror)
	for name, m := range largeModes(mirror) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := work(b, r)
				w.Filter, m.o.Branch = m.filter, "task-j1"
				c, err := w.Clone(b.Context(), m.o)
				require.NoError(b, err)
				b.StopTimer()
				var kb int
				_, err = fmt.Sscan(run(b, w.Dir, "du", "-sk", ".git"), &kb)
				require.NoError(b, err)
				b.ReportMetric(float64(kb), "kB/.git")
				write(b, w.Dir, "new.txt", name)
				began := time.Now()
				commit(b, w, c.Base)
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/commit")
				b.StartTimer()
			}
		})
	}
}
