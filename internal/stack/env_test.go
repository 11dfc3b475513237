package stack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteEnvFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dev.env")
	require.NoError(t, os.WriteFile(path, []byte("OLD=1\n"), 0o644))
	require.NoError(t, WriteEnvFile(path, []Var{{"A", "1"}, {"B", "two words"}}))

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "A=1\nB=two words\n", string(b))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds a key")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".env-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWriteEnvFileSaysWhereItFails(t *testing.T) {
	t.Parallel()
	err := WriteEnvFile(filepath.Join(t.TempDir(), "missing", "dev.env"), nil)
	require.ErrorContains(t, err, "env file")
	require.ErrorIs(t, err, os.ErrNotExist)
}
