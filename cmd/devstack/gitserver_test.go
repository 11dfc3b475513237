package main

import (
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGitServerServesItsProject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := startGit(dir, "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	clone := filepath.Join(t.TempDir(), "roman")
	_, err = r.Git("", "clone", "-q", r.URL, clone)
	require.NoError(t, err)
	head, err := r.Git(clone, "rev-parse", "HEAD")
	require.NoError(t, err)
	require.Equal(t, r.Head, head)
	out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(clone, "test.sh")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), testsPassed)

	_, err = r.Git(clone, "push", "-q", "origin", "HEAD:refs/heads/other")
	require.Error(t, err, "everybody may push")
	res, err := http.Get(r.Server.URL + "/demo/roman/pull/1")
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, res.StatusCode, "%s", body)

	// What was pushed is there after a restart.
	_, err = r.Commit(r.dir, "main", "feat: more", map[string]string{"more": "x"})
	require.NoError(t, err)
	r.Close()
	again, err := startGit(dir, "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer again.Close()
	require.NotEqual(t, r.Head, again.Head)
}

// A credential for GitHub in the environment is for GitHub.
func TestGitServerLeavesGitHubAlone(t *testing.T) {
	t.Parallel()
	r := &repository{token: "t"}
	require.Nil(t, (*repository)(nil).env(func(string) string { return "" }))
	require.Nil(t, r.env(func(name string) string { return map[string]string{"GITHUB_TOKEN": "mine"}[name] }))
}
