package spool

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
)

// TestNowhereToWrite: where no spool can be made the command is not begun, what
// tools say of it is no output of the command, and the reason can be had.
func TestNowhereToWrite(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		inTheWay := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
		places := []string{inTheWay}
		if b.root != nil {
			places = append(places, "/spools", "/home/user/spools") // read-only
		}
		for _, place := range places {
			touched := filepath.Join(t.TempDir(), "touched")
			cmd := b.follow(t.Context(), place+"/j.1", 0, 0, Command{Argv: []string{"touch", touched}})
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, exitNotBegun, exit.ExitCode())
			require.Empty(t, string(out))
			require.NoFileExists(t, touched)
			why, err := b.sh(t.Context(), whyScript, place).Output()
			require.NoError(t, err)
			require.Regexp(t, `(?i)not a directory|file exists|read-only file system`, string(why))
		}
		fine := filepath.Join(t.TempDir(), "fine")
		why, err := b.sh(t.Context(), whyScript, fine).Output()
		require.NoError(t, err)
		require.Empty(t, string(why))
		left, err := os.ReadDir(fine)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// TestNotBegunSaysWhy is the same through a sandbox.
func TestNotBegunSaysWhy(t *testing.T) {
	t.Parallel()
	srv, err := local.Start(t.Context(), local.Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	c, err := e2b.New(e2b.Config{APIURL: srv.URL(), SandboxURL: srv.URL(), APIKey: func() (string, error) { return srv.APIKey(), nil }})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	sb, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base", Timeout: 600})
	require.NoError(t, err)
	box := c.Open(sb.Ref())
	if srv.Isolation() == "none" {
		t.Skip("without isolation /tmp is the machine's")
	}
	require.NoError(t, box.Command("touch", "/tmp/.sandjet-default").Run(t.Context()))
	run := Run{Box: box, Name: "j.1"}
	join := func() error {
		var out, errOut bytes.Buffer
		_, err := run.Join(t.Context(), Command{Argv: []string{"echo", "begun"}}, &Sink{W: &out}, &Sink{W: &errOut})
		require.Empty(t, errOut.String())
		return err
	}
	err = join()
	require.ErrorIs(t, err, ErrNotBegun)
	require.Regexp(t, "/tmp/.sandjet-default.*(File exists|Not a directory)", err.Error())
	require.NoError(t, box.Command("rm", "/tmp/.sandjet-default").Run(t.Context()))
	require.NoError(t, join(), "joining again is safe")
}
