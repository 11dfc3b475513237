package worker_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// records reads all audit records of a session; none is to be missing.
func (w *world) records(session string) (found []audit.Record) {
	w.t.Helper()
	for s, err := range audit.Read(w.t.Context(), w.js, "") {
		require.NoError(w.t, err)
		require.NoError(w.t, s.Err)
		if s.Record.Session == session {
			found = append(found, s.Record)
		}
	}
	r, err := audit.Verify(w.t.Context(), w.js, "")
	require.NoError(w.t, err)
	require.Empty(w.t, r.Faults)
	for _, c := range r.Chains {
		require.Zero(w.t, c.Lost)
	}
	return found
}

func actions(records []audit.Record) (all []string) {
	for _, r := range records {
		all = append(all, r.Action+" "+r.Outcome)
	}
	return all
}

// Each effect of a session's life is on record before its job ends: who, what, how it
// went, and no secret.
func TestAuditOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.worker(withSecrets("WORKER_SECRET_T=a-secret-of-it"))
	common := func(id string) jobs.Common { return jobs.Common{ID: id, Session: "s1"} }
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	_, err = bucket.PutString(t.Context(), "o", "text")
	require.NoError(t, err)
	do := func(kind jobs.Kind, p jobs.Payload) ended { return w.follow(w.publishAs("me", kind, p)) }

	do(jobs.TaskRun, &jobs.Run{Common: common("one"), Argv: []string{"sh", "-c", `echo "$1"; exit 3`, "sh", "a-secret-of-it"}, Secrets: map[string]string{"T": "t"}})
	require.Equal(t, []string{"create ok", "run command_failed"}, actions(w.records("s1")))
	do(jobs.FileUpload, &jobs.File{Common: common("up"), Object: "o", Path: "f"})
	do(jobs.FileDownload, &jobs.File{Common: common("down"), Object: "p", Path: "none"})
	do(jobs.SandboxPause, &jobs.Lifecycle{Common: common("pause")})
	do(jobs.TaskRun, &jobs.Run{Common: common("two"), Shell: "true"})
	do(jobs.SandboxDestroy, &jobs.Lifecycle{Common: common("end")})
	all := w.records("s1")
	require.Equal(t, []string{
		"create ok", "run command_failed", "file.upload ok", "file.download not_found", "pause ok", "connect ok", "run ok", "kill ok",
	}, actions(all))
	jobOf := []string{"one", "one", "up", "down", "pause", "two", "two", "end"}
	for i, rec := range all {
		require.Equal(t, "me", rec.Owner, rec.Action)
		require.Equal(t, jobOf[i], rec.Job, rec.Action)
		require.Equal(t, audit.E2B, rec.System)
		require.True(t, strings.HasPrefix(rec.Target, all[0].Target), "%s: %s", rec.Action, rec.Target)
		require.Equal(t, 1, max(rec.Generation, 1))
	}
	require.Equal(t, []string{"sh", "-c", `echo "$1"; exit 3`, "sh", stars("a-secret-of-it")}, all[1].Argv)
	require.Len(t, all[1].ArgvSHA256, 64)
	require.Equal(t, "f", path.Base(strings.ReplaceAll(all[2].Target, ":", "/")))

	r.Stop()
	rep, err := audit.Verify(t.Context(), w.js, "")
	require.NoError(t, err)
	require.Len(t, rep.Chains, 1)
	require.True(t, rep.Chains[0].Closed)
}

// A worker dies with a command in hand: its chain stays open, and its successor records
// that it joined, with the same command.
func TestAuditAcrossATakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.spawn("first", "WORKER_ACK_WAIT=2s")
	job := w.shell("s1", lines(20_000, 40))
	w.until(job, 10_000)
	first.Kill()
	w.spawn("second", "WORKER_ACK_WAIT=2s")
	require.Equal(t, events.Succeeded, w.follow(job).Kind)
	all := w.records("s1")
	last := all[len(all)-1]
	require.Equal(t, []string{"join ok", "second"}, []string{last.Action + " " + last.Outcome, last.Worker})
	require.Contains(t, strings.Join(last.Argv, " "), "echo start >>starts")
	rep, err := audit.Verify(t.Context(), w.js, "")
	require.NoError(t, err)
	for _, c := range rep.Chains {
		require.False(t, c.Closed, c.Name)
	}
}
