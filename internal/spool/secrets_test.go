package spool

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func secrets(values map[string]string) *Secrets {
	return &Secrets{Values: func() map[string]string { return values }}
}

// keep does what putSecrets does: it makes the file, and writes it.
func (b *bench) keep(dir string, s *Secrets) string {
	b.t.Helper()
	out, err := b.sh(b.t.Context(), keepScript, dir).Output()
	require.NoError(b.t, err)
	if len(out) == 0 {
		info, err := os.Stat(dir + ".env")
		require.NoError(b.t, err)
		require.Equal(b.t, os.FileMode(0o600), info.Mode())
		require.NoError(b.t, os.WriteFile(dir+".env", []byte(s.text()), 0o644)) // which leaves the mode
	}
	return string(out)
}

func TestSecretsAreGivenToTheCommandAlone(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		const value = `it's "one" $HOME \ ` + "`id`\n two  \x01 \xff\n"
		dir := b.run("s.1")
		s := secrets(map[string]string{"TOKEN": value, "OTHER_ONE": "plain"})
		require.Empty(t, b.keep(dir, s))
		c := Command{Secrets: s, Argv: []string{"sh", "-c", `
			[ ! -e "$1.env" ] || echo left
			printf "%s|%s|" "$TOKEN" "$OTHER_ONE"
			for p in /proc/[0-9]*; do
				[ "$p" = "/proc/$$" ] || ! tr "\\0" "\\n" 2>/dev/null <"$p/environ" | grep -qx "OTHER_ONE=pl[a]in" || cat "$p/cmdline"
			done`, "sh", dir}}
		cmd := b.follow(t.Context(), dir, 0, 0, c)
		require.NoError(t, cmd.Run())
		// The processes of the pipe are the command's own: they begin as it does.
		out, own, _ := strings.Cut(string(b.spool(dir, "out")), "|plain|")
		require.Equal(t, value, out, string(b.spool(dir, "err")))
		require.NotContains(t, own, "sandjet-run")
		require.NotContains(t, own, "sleep")
		require.NoFileExists(t, dir+".env")
		require.Equal(t, givenSum(dir, s.text())+"\n", string(b.spool(dir, "given")))

		// Who comes later is told what it was given, and leaves nothing behind.
		require.Equal(t, "begun\n"+string(b.spool(dir, "given")), b.keep(dir, s))
		require.NoError(t, os.WriteFile(dir+".env", []byte("late"), 0o600))
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, c).Run())
		require.NoFileExists(t, dir+".env")
		require.NoError(t, b.sh(t.Context(), cleanScript, dir).Run())
		require.NoFileExists(t, filepath.Join(dir, "given"))
	})
}

// Without its secrets a command is not begun, and can be begun later.
func TestNoCommandWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("n.1")
		s := secrets(map[string]string{"TOKEN": "a value"})
		c := Command{Secrets: s, Argv: []string{"sh", "-c", `printf %s "$TOKEN"`}}
		err := b.follow(t.Context(), dir, 0, 0, c).Run()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, exitNotBegun, exit.ExitCode())
		require.NoDirExists(t, dir)
		b.keep(dir, s)
		require.NoError(t, b.follow(t.Context(), dir, 0, 0, c).Run())
		require.Equal(t, "a value", string(b.spool(dir, "out")))
	})
}

// A run that is stopped before it began takes its secrets with it.
func TestStopTakesTheSecretsAway(t *testing.T) {
	t.Parallel()
	withShells(t, func(t *testing.T, b *bench) {
		dir := b.run("p.1")
		b.keep(dir, secrets(map[string]string{"TOKEN": "a value"}))
		require.NoError(t, b.sh(t.Context(), stopScript, dir, StopCancelled, "1").Run())
		require.NoFileExists(t, dir+".env")
	})
}
