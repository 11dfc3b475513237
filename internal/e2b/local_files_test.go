package e2b_test

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
)

func TestLocalFiles(t *testing.T) {
	t.Parallel()
	_, _, box := localBox(t)
	files(t, box)
}

func files(t *testing.T, box *e2b.Box) {
	ctx := t.Context()
	put := func(path, content string) {
		require.NoError(t, box.Write(ctx, path, strings.NewReader(content), e2b.WriteOptions{}))
	}
	put("dir/sub/a b.txt", "0123456789")
	e, err := box.Stat(ctx, "dir/sub/a b.txt")
	require.NoError(t, err)
	require.Equal(t, "a b.txt", e.Name)
	require.True(t, strings.HasSuffix(e.Path, "/dir/sub/a b.txt") && strings.HasPrefix(e.Path, "/"), e.Path)
	require.EqualValues(t, 10, e.Size)
	require.False(t, e.IsDir())
	require.True(t, e.Mode.IsRegular(), e.Mode)
	require.WithinDuration(t, time.Now(), e.ModTime, time.Minute)

	for offset, want := range map[int64]string{0: "0123456789", 1: "123456789", 9: "9", 10: ""} {
		rc, total, err := box.Open(ctx, "dir/sub/a b.txt", offset)
		require.NoError(t, err)
		b, err := io.ReadAll(rc)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		require.Equal(t, want, string(b))
		require.EqualValues(t, 10, total)
	}
	_, _, err = box.Open(ctx, "dir/sub/a b.txt", 11)
	requireKind(t, err, e2b.ErrRange, false)

	put("dir/sub/a b.txt", "short") // replaced, not overwritten
	b, err := box.ReadFile(ctx, "dir/sub/a b.txt")
	require.NoError(t, err)
	require.Equal(t, "short", string(b))
	put("empty", "")
	b, err = box.ReadFile(ctx, "empty")
	require.NoError(t, err)
	require.Empty(t, b)
	_, _, err = box.Open(ctx, "empty", 1)
	requireKind(t, err, e2b.ErrRange, false)

	require.NoError(t, box.Mkdir(ctx, "dir/new/deep"))
	require.ErrorIs(t, box.Mkdir(ctx, "dir/new/deep"), fs.ErrExist)
	require.NoError(t, box.Rename(ctx, "dir/sub/a b.txt", "dir/new/b"))
	require.ErrorIs(t, box.Rename(ctx, "dir/sub/a b.txt", "dir/new/b"), fs.ErrNotExist)
	require.NoError(t, box.Command("ln", "-s", "b", "dir/new/link").Run(ctx))
	entries, err := box.ReadDir(ctx, "dir/new")
	require.NoError(t, err)
	names := map[string]fs.FileMode{}
	for _, e := range entries {
		names[e.Name] = e.Mode.Type()
	}
	require.Equal(t, map[string]fs.FileMode{"b": 0, "deep": fs.ModeDir, "link": fs.ModeSymlink}, names)

	require.NoError(t, box.Remove(ctx, "dir"))
	require.NoError(t, box.Remove(ctx, "dir"), "gone already")
	_, err = box.Stat(ctx, "dir")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = box.ReadFile(ctx, "dir/new/b")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = box.ReadDir(ctx, "dir")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, _, err = box.Open(ctx, "/", 0)
	requireKind(t, err, e2b.ErrInvalid, false)
	requireKind(t, box.Write(ctx, "/", strings.NewReader("x"), e2b.WriteOptions{}), e2b.ErrInvalid, false)
}

func TestLocalCutDownload(t *testing.T) {
	t.Parallel()
	srv, _, box := localBox(t)
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	require.NoError(t, box.Write(t.Context(), "f", bytes.NewReader(content), e2b.WriteOptions{}))
	srv.Faults().Add(local.Fault{Op: "read", Action: local.CutAfter{Bytes: 300_000}})
	rc, _, err := box.Open(t.Context(), "f", 0)
	require.NoError(t, err)
	got, err := io.ReadAll(rc)
	requireKind(t, err, e2b.ErrCut, false)
	require.NoError(t, rc.Close())
	require.NotEmpty(t, got)

	rc, total, err := box.Open(t.Context(), "f", int64(len(got))) // go on where it broke
	require.NoError(t, err)
	rest, err := io.ReadAll(rc)
	require.NoError(t, err)
	require.NoError(t, rc.Close())
	require.EqualValues(t, len(content), total)
	require.True(t, bytes.Equal(content, append(got, rest...)))
}

// stripes is a source of n bytes that are nowhere in memory.
type stripes struct {
	n    int
	sum  hash.Hash
	peak *uint64
}

func (s *stripes) Read(p []byte) (int, error) {
	if s.n == 0 {
		return 0, io.EOF
	}
	p = p[:min(len(p), s.n)]
	for i := range p {
		p[i] = byte(s.n - i)
	}
	s.n -= len(p)
	s.sum.Write(p)
	measure(s.peak)
	return len(p), nil
}

// measure notes the most memory that was in use.
func measure(peak *uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*peak = max(*peak, m.HeapAlloc)
}

// TestLocalLargeFileInLittleMemory runs alone, as it looks at the whole heap:
// client and server together must stream, both ways.
func TestLocalLargeFileInLittleMemory(t *testing.T) {
	const size, bound = 64 << 20, 24 << 20
	_, _, box := localBox(t)
	runtime.GC()
	var before, peak uint64
	measure(&before)

	src := &stripes{n: size, sum: sha256.New(), peak: &peak}
	require.NoError(t, box.Write(t.Context(), "big", src, e2b.WriteOptions{Size: size}))
	require.Less(t, peak, before+bound, "upload")

	runtime.GC()
	peak = 0
	rc, total, err := box.Open(t.Context(), "big", 0)
	require.NoError(t, err)
	require.EqualValues(t, size, total)
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(sum, writer(func(p []byte) (int, error) {
		measure(&peak)
		return len(p), nil
	})), rc, make([]byte, 256<<10))
	require.NoError(t, err)
	require.NoError(t, rc.Close())
	require.EqualValues(t, size, n)
	require.Equal(t, src.sum.Sum(nil), sum.Sum(nil))
	require.Less(t, peak, before+bound, "download")
}
