package worker_test

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
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

// Each effect on a repository is on record, once: where, which branch and commit, the
// number of the pull request, and the names of the secrets that were given for it.
func TestAuditOfARepository(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	g.worker(g.with(), withSecrets("WORKER_SECRET_DEPLOY="+planted, "WORKER_SECRET_T=another-secret-of-it"))
	run := func(id, mode string) ended {
		block := g.block()
		block.Credential, block.Branch, block.PushMode = "deploy", "fix/7", mode
		return g.follow(g.publishAs("me", jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{ID: id, Session: "s-" + id}, Repo: block, Shell: "echo " + id + " >>README.md",
			Secrets: map[string]string{"A": "t", "B": "t"},
		}))
	}
	e := run("one", jobs.PushSandbox)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	all := g.records("s-one")
	require.Equal(t, []string{
		"create ok", "egress_rule.set ok", "egress_rule.clear ok", "clone ok", "run ok", "commit ok",
		"egress_rule.set ok", "egress_rule.clear ok", "push ok", "pull_request.create ok",
	}, actions(all))
	require.Equal(t, all[0].Target+":127.0.0.1", all[1].Target)
	require.Equal(t, all[0].Target, all[2].Target)
	all = slices.DeleteFunc(all, func(r audit.Record) bool { return strings.HasPrefix(r.Action, "egress_rule.") })
	for _, r := range all {
		require.Equal(t, []string{"me", "one"}, []string{r.Owner, r.Job}, r.Action)
	}
	remote := "http://" + strings.TrimPrefix(g.git.URL, "http://") + "/acme/app"
	for i, want := range []audit.Record{
		1: {System: audit.Git, Branch: "fix/7", Commit: g.on("rev-parse", "main"), Secrets: []string{"deploy"}},
		3: {System: audit.Git, Branch: "fix/7", Commit: e.Commit},
		4: {System: audit.Git, Branch: "fix/7", Commit: e.Commit, Secrets: []string{"deploy"}},
		5: {System: audit.GitHub, Branch: "fix/7", Commit: e.Commit, Number: 1, Secrets: []string{"deploy"}},
	} {
		if want.System != "" {
			want.Remote = remote
			require.Equal(t, want, audit.Record{
				System: all[i].System, Remote: all[i].Remote, Branch: all[i].Branch, Commit: all[i].Commit, Number: all[i].Number, Secrets: all[i].Secrets,
			}, all[i].Action)
		}
	}
	require.Equal(t, []string{"t"}, all[2].Secrets)

	e = run("two", jobs.PushHost)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, []string{"create ok", "egress_rule.set ok", "egress_rule.clear ok", "clone ok", "run ok", "commit ok", "push_host ok", "pull_request.update ok"}, actions(g.records("s-two")))
	// Nothing to commit is nothing done.
	block := g.block()
	require.Equal(t, events.Succeeded, g.follow(g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s-three"}, Repo: block, Argv: []string{"true"}})).Kind)
	require.Equal(t, []string{"create ok", "egress_rule.set ok", "egress_rule.clear ok", "clone ok", "run ok"}, actions(g.records("s-three")))
	// What is refused is on record too.
	block = g.block()
	refused := g.follow(g.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{Session: "s-four"}, Repo: block, Shell: "mkdir -p .github/workflows; echo on: push >.github/workflows/x.yml",
	}))
	require.Equal(t, events.Dead, refused.Kind)
	all = g.records("s-four")
	require.Equal(t, "push "+refused.Class, actions(all)[len(all)-1])

	for s, err := range audit.Read(t.Context(), g.js, "") {
		require.NoError(t, err)
		text, err := json.Marshal(s.Record)
		require.NoError(t, err)
		require.NotContains(t, string(text), planted)
		require.NotContains(t, string(text), "another-secret-of-it")
	}
}

// A stream of records that is full holds no job. One that refuses them gets them when it
// takes some again; one that lets go of its oldest is whole.
func TestFullAuditHoldsNoJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.worker()
	s, err := w.js.Stream(t.Context(), audit.Stream)
	require.NoError(t, err)
	change := func(f func(*jetstream.StreamConfig)) {
		cfg := s.CachedInfo().Config
		f(&cfg)
		s, err = w.js.UpdateStream(t.Context(), cfg)
		require.NoError(t, err)
	}
	run := func(n int) {
		for range n {
			require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
		}
	}
	run(1)
	change(func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardNew, 2 })
	run(3)
	change(func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, -1 })
	run(1)
	verify := func() audit.Report {
		rep, err := audit.Verify(t.Context(), w.js, "")
		require.NoError(t, err)
		require.Empty(t, rep.Faults)
		require.Len(t, rep.Chains, 1)
		return rep
	}
	const made = 1 + 1 + 3 + 1
	require.Eventually(t, func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.State.Msgs == made
	}, eventually, tick)
	rep := verify()
	require.Equal(t, []int{made, 0}, []int{rep.Records, rep.Chains[0].Lost})

	change(func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 })
	run(5)
	rep = verify()
	require.Equal(t, 3, rep.Records)
	require.Zero(t, rep.Chains[0].Lost)
	r.Stop()
	require.True(t, verify().Chains[0].Closed)

	// Nobody takes records out by hand.
	require.Error(t, s.DeleteMsg(t.Context(), rep.Last))
	require.Error(t, s.Purge(t.Context()))
}
