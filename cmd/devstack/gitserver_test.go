package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGitServerServesItsProject(t *testing.T) {
	t.Parallel()
	s, err := startGit(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)

	clone := filepath.Join(t.TempDir(), "roman")
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	_, err = runGit(t.Context(), git, ".", "clone", "-q", s.URL, clone)
	require.NoError(t, err)
	head, err := runGit(t.Context(), git, clone, "rev-parse", "HEAD")
	require.NoError(t, err)
	require.Equal(t, s.Head, head)

	out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(clone, "test.sh")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), testsPassed)
}
