package worker_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/worker"
)

// A value with all that a shell may trip over.
const awkward = `pa'ss"w$HOME\d ` + "`id`" + `*line` + "\n" + `two-of-the-secret`

func withSecrets(environ ...string) func(*worker.Config) {
	return func(c *worker.Config) { c.Environ = environ }
}

func secretRun(session, line string, refs map[string]string) *jobs.Run {
	return &jobs.Run{Common: jobs.Common{Session: session}, Shell: line, Secrets: refs}
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func stars(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return '*'
	}, s)
}

// A command has the values of its job's secrets and of its session's, from each kind
// of source; what it prints of them is masked, whatever form it gives them.
func TestSecretsReachTheCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "one")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "awkward"), []byte(awkward), 0o600))
	require.NoError(t, os.WriteFile(file, []byte("from-one-file\n"), 0o600))
	w.worker(withSecrets("WORKER_SECRET_DB_PASSWORD=from-environ", "WORKER_SECRET_ONE_FILE="+file),
		func(c *worker.Config) { c.SecretsDir = dir })

	made := w.follow(w.publish(jobs.SandboxProvision, &jobs.Provision{
		Common: jobs.Common{Session: "s1"}, Secrets: map[string]string{"DB": "db-password", "ONE": "awkward"},
	}))
	require.Equal(t, events.Succeeded, made.Kind, "%+v", made.Outcome)
	refs := map[string]string{"ONE": "one", "AWKWARD": "awkward"} // ONE is the job's own, not the session's
	e := w.follow(w.publish(jobs.TaskRun, secretRun("s1",
		`for v in "$DB" "$ONE" "$AWKWARD"; do printf %s "$v" | sha256sum | cut -d" " -f1; done`, refs)))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, digest("from-environ")+"\n"+digest("from-one-file")+"\n"+digest(awkward)+"\n", string(e.Stdout))
	require.False(t, e.Masked)

	e = w.follow(w.publish(jobs.TaskRun, secretRun("s1",
		`echo "<$AWKWARD>"; printf %s "$DB" | base64; printf %s "$ONE" | sed "s/-/%2D/g"; echo "=$DB" >&2; exit 3`, refs)))
	require.Equal(t, "<"+stars(awkward)+">\n"+
		stars(strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("from-environ")), "="))+"\n"+
		stars(strings.ReplaceAll(url.QueryEscape("from-one-file"), "-", "%2D")), string(e.Stdout))
	require.Equal(t, "="+stars("from-environ")+"\n", string(e.Stderr))
	require.True(t, e.Masked)
	require.Equal(t, 3, *e.ExitCode)

	// Nothing is left of them in the sandbox, once the spools are taken away.
	box := w.box("s1")
	require.Eventually(t, func() bool {
		var left bytes.Buffer
		cmd := box.Command("/bin/sh", "-c", `grep -rl -e from-environ -e from-one-file -e secret /tmp "$HOME" 2>/dev/null; ls -d /tmp/.sandjet-*/*.env 2>/dev/null; true`)
		cmd.Stdout = &left
		return cmd.Run(t.Context()) == nil && left.Len() == 0
	}, eventually, tick)
}

// What is not to be had ends the job with a reason that names the variable, or has it
// wait where the trouble may pass.
func TestSecretsNotToBeHad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "away"), 0o700))
	w.worker(withSecrets("WORKER_SECRET_TINY=abc"), func(c *worker.Config) { c.SecretsDir = dir })
	for ref, want := range map[string]struct{ class, says string }{
		"nobody":                         {"not_found", "variable TOKEN: secret nobody: no source has a secret of that name"},
		"tiny":                           {"not_found", "fewer than 6 bytes"},
		"ghp_" + strings.Repeat("x", 36): {"invalid", "looks like a secret itself"},
	} {
		e := w.follow(w.publish(jobs.TaskRun, secretRun("s1", "true", map[string]string{"TOKEN": ref})))
		require.Equal(t, events.Dead, e.Kind, ref)
		require.Equal(t, want.class, e.Class, ref)
		require.Contains(t, e.Reason, want.says)
		require.Equal(t, "/secrets/TOKEN", e.Pointer)
		require.NotContains(t, e.Reason, "ghp_x")
	}
	require.Empty(t, w.e2b.Sandboxes(), "a sandbox was made for a job that cannot run")

	job := w.publish(jobs.TaskRun, secretRun("s1", `echo "${#TOKEN}"`, map[string]string{"TOKEN": "away"}))
	require.Eventually(t, func() bool {
		h, err := w.facts.History(t.Context(), job)
		return err == nil && h.Waiting.OK() && strings.Contains(h.Waiting.Value.Detail, "cannot be read")
	}, eventually, tick)
	require.NoError(t, os.Remove(filepath.Join(dir, "away")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "away"), []byte("there-again"), 0o600))
	e := w.follow(job)
	require.Equal(t, "11\n", string(e.Stdout), "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
}

// halves prints a secret in two parts, the second once a file is there.
const halves = `echo start >>starts; printf "before "; printf %s "$T" | head -c 9; echo first >&2; until [ -e go ]; do sleep 0.05; done; printf %s "$T" | tail -c +10; echo " after"; echo "$T"`

func letGo(t *testing.T, w *world) {
	t.Helper()
	require.NoError(t, w.box("s1").Write(t.Context(), "go", strings.NewReader("x"), e2b.WriteOptions{}))
}

// A worker is killed between the two halves of a secret. Its successor masks the other
// half, and the output is that of a run in one hand, byte by byte.
func TestMaskingAcrossATakeover(t *testing.T) {
	t.Parallel()
	const value = "a-secret-in-two-parts"
	w := newWorld(t)
	env := []string{"WORKER_ACK_WAIT=2s", "WORKER_SECRET_T=" + value}
	first := w.spawn("first", env...)
	job := w.publish(jobs.TaskRun, secretRun("s1", halves, map[string]string{"T": "t"}))
	require.Eventually(t, func() bool {
		h, err := w.facts.History(t.Context(), job)
		return err == nil && h.Stderr.Offset > 0 && h.Stdout.Offset > 0
	}, eventually, tick)
	first.Kill()
	w.spawn("second", env...)
	require.Eventually(t, func() bool {
		h, err := w.facts.History(t.Context(), job)
		return err == nil && h.Reattached.OK()
	}, eventually, tick)
	letGo(t, w)
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, "before "+stars(value)+" after\n"+stars(value)+"\n", string(e.Stdout))
	require.True(t, e.Masked)
	require.Equal(t, 1, e.count(events.KindStarted))
	require.Equal(t, 1, e.Attempts)
}

// The stream ends in the middle of a mask: a worker died with the rest of it unwritten.
// Its successor reads again what stands before, and masks the rest.
func TestMaskingGoesOnInTheMiddle(t *testing.T) {
	t.Parallel()
	// Its hex is held back until its end, and then longer than a message.
	value := strings.Repeat("A long one, 16B ", 2500)[:39_999] + "x"
	w := newWorld(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t"), []byte(value), 0o600))
	env := []string{"WORKER_ACK_WAIT=2s", "WORKER_SECRETS_DIR=" + dir}
	first := w.spawnPoints("first", append(env, "SANDJET_POINTS=events.stdout=crash")...)
	job := w.publish(jobs.TaskRun, secretRun("s1", `printf %s "$T" | od -An -v -tx1 | tr -d " \n"; echo " after"`, map[string]string{"T": "t"}))
	first.Wait()
	h, err := w.facts.History(t.Context(), job)
	require.NoError(t, err)
	require.Positive(t, h.Stdout.Offset)
	require.Less(t, h.Stdout.Offset, int64(80_000), "the first message has all of it")
	w.spawn("second", env...)
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, strings.Repeat("*", 80_000)+" after\n", string(e.Stdout))
}

// A command goes on with the value that it was given. A successor that has another one
// cannot tell it from other text, so it shows nothing.
func TestMaskingOfAValueThatHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const old = "the-old-value-of-it"
	first := w.worker(withSecrets("WORKER_SECRET_T=" + old))
	job := w.publish(jobs.TaskRun, secretRun("s1", halves, map[string]string{"T": "t"}))
	w.until(job, 7)
	first.Stop()
	w.worker(withSecrets("WORKER_SECRET_T=the-new-value-of-it"))
	letGo(t, w)
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, "before "+stars(old)+stars(" after")+"\n"+stars(old)+"\n", string(e.Stdout))
	require.True(t, e.Masked)
}
