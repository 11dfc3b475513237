package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	write := func(s string) { require.NoError(t, os.WriteFile(path, []byte(s), 0o600)) }
	k := &keyFile{path: path}
	expect := func(want string) {
		t.Helper()
		got, err := k.read()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := k.read()
	require.EqualError(t, err, "cannot be read: no such file or directory")
	write(" \n")
	_, err = k.read()
	require.EqualError(t, err, "is empty")
	write("e2b_one\nand more\n")
	_, err = k.read()
	require.EqualError(t, err, "holds more than a key")

	write("e2b_one\n")
	expect("e2b_one")
	// As long, and within the same tick of the file system's clock.
	info, err := os.Stat(path)
	require.NoError(t, err)
	write("e2b_two\n")
	require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	expect("e2b_two")

	t.Run("half way through a rotation", func(t *testing.T) {
		write("")
		expect("e2b_two")
		require.NoError(t, os.Remove(path))
		expect("e2b_two")
		write("e2b_three")
		expect("e2b_three")
	})
	t.Run("another file in its place", func(t *testing.T) {
		// An old file is not read twice, but seen when another takes its place,
		// be it as old and as long.
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(path, time.Time{}, old))
		expect("e2b_three")
		require.False(t, k.fresh)
		next := path + ".next"
		require.NoError(t, os.WriteFile(next, []byte("e2b_3rd_3"), 0o600))
		require.NoError(t, os.Chtimes(next, time.Time{}, old))
		require.NoError(t, os.Rename(next, path))
		expect("e2b_3rd_3")
	})
}
