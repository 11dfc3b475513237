// Package nodetest installs what tests run under node. It is for tests only.
package nodetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Install installs the packages that the package-lock.json of files pins, and
// returns the folder that has their node_modules: below the user's cache, once
// for all runs. Where node, npm or the registry is missing the test is skipped;
// with REQUIRE_REAL=1 it fails.
func Install(t testing.TB, name string, files fs.FS) (dir string) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "%s is not installed", tool)
		}
	}
	lock, err := fs.ReadFile(files, "package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	sum := sha256.Sum256(lock)
	dir = filepath.Join(cache, "sandjet", name+"-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err == nil {
		return dir
	}
	if err := install(t, dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install works aside and moves the result into place, so that a run beside
// this one sees all of it or nothing.
func install(t testing.TB, dir string, files fs.FS) error {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := fs.ReadFile(files, name)
		if err == nil {
			err = os.WriteFile(filepath.Join(aside, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = aside
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, "npm ci: %v: %s", err, out)
	}
	err = os.Rename(aside, dir)
	if _, there := os.Stat(filepath.Join(dir, "node_modules")); there == nil {
		return nil // we or another run
	}
	return errors.Join(err, errors.New("npm ci made no node_modules"))
}

func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_REAL") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
