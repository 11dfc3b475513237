package stack

import (
	"path/filepath"
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
