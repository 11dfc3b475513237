package stack

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockDirTakesAFolderOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	unlock, err := lockDir(dir)
	require.NoError(t, err)

	_, err = lockDir(dir)
	require.ErrorContains(t, err, dir+": another stack is using it")

	require.NoError(t, unlock(t.Context()))
	unlock, err = lockDir(dir)
	require.NoError(t, err)
	require.NoError(t, unlock(t.Context()))
}

// A child between fork and exec has every file of its parent open: the lock must
// go all the same.
func TestLockGoesWhileAChildHasTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := lockDir(dir)
	require.NoError(t, err)
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	var child int
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); to == filepath.Join(dir, "lock") {
			child, err = dup(filepath.Base(fd))
			require.NoError(t, err)
		}
	}
	if child == 0 {
		t.Skip("there is no /proc here")
	}
	defer syscall.Close(child)

	require.NoError(t, unlock(t.Context()))
	unlock, err = lockDir(dir)
	require.NoError(t, err)
	require.NoError(t, unlock(t.Context()))
}

func dup(fd string) (int, error) {
	n, err := strconv.Atoi(fd)
	if err != nil {
		return 0, err
	}
	return syscall.Dup(n)
}
