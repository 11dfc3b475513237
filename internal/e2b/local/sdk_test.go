package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOfficialSDK runs E2B's own JavaScript SDK against the server.
func TestOfficialSDK(t *testing.T) {
	t.Parallel()
	dir := installSDK(t)
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			srv := start(t, Config{Isolation: level})
			cmd := exec.CommandContext(t.Context(), "node", "--test", "local.test.mjs")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "E2B_API_URL="+srv.URL(), "E2B_SANDBOX_URL="+srv.URL(), "E2B_API_KEY="+srv.APIKey())
			if level == Strong {
				cmd.Env = append(cmd.Env, "SANDBOX_HOME=/home/user")
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Empty(t, srv.Sandboxes(), "the tests clean up behind them")
		})
	}
}

// installSDK installs the pinned SDK below the user's cache, once for all runs,
// and puts the test script beside it.
func installSDK(t *testing.T) string {
	t.Helper()
	need(t, "node")
	need(t, "npm")
	lock, err := os.ReadFile("testdata/sdk/package-lock.json")
	require.NoError(t, err)
	script, err := os.ReadFile("testdata/sdk/local.test.mjs")
	require.NoError(t, err)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "sandjet", "sdk-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		npmInstall(t, dir, lock)
	}
	// Each run has a copy of the script: two trees may share the cache.
	run, err := os.MkdirTemp(dir, "run-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	require.NoError(t, os.WriteFile(filepath.Join(run, "local.test.mjs"), script, 0o600))
	return run
}

// npmInstall installs aside and moves the result into place, so that a run
// beside this one sees all of it or nothing.
func npmInstall(t *testing.T, dir string, lock []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	aside, err := os.MkdirTemp(filepath.Dir(dir), "install-")
	require.NoError(t, err)
	defer os.RemoveAll(aside)
	manifest, err := os.ReadFile("testdata/sdk/package.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(aside, "package.json"), manifest, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(aside, "package-lock.json"), lock, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = aside
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, "npm ci: %v: %s", err, out)
	}
	if err := os.Rename(aside, dir); err != nil {
		require.DirExists(t, filepath.Join(dir, "node_modules"), "neither we nor another run installed the SDK")
	}
}
