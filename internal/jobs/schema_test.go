package jobs_test

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/schemas"
	"github.com/sandjet/sandjet/schemas/schematest"
)

// A job's Go type and its schema have the same fields of the same types, and the
// schema's examples pass through the type.
func TestPayloadsAgreeWithSchemas(t *testing.T) {
	t.Parallel()
	types := map[jobs.Kind]func(testing.TB, *schemas.Schema){
		jobs.SandboxProvision: schematest.Read[jobs.Provision],
		jobs.SandboxResume:    schematest.Read[jobs.Lifecycle],
		jobs.SandboxPause:     schematest.Read[jobs.Lifecycle],
		jobs.SandboxDestroy:   schematest.Read[jobs.Lifecycle],
		jobs.TaskRun:          schematest.Read[jobs.Run],
		jobs.FileUpload:       schematest.Read[jobs.File],
		jobs.FileDownload:     schematest.Read[jobs.File],
		jobs.GitClone:         schematest.Read[jobs.Git],
		jobs.GitPublish:       schematest.Read[jobs.Git],
	}
	for _, kind := range jobs.Kinds() {
		s, ok := schemas.Job(string(kind))
		require.True(t, ok, "%s has no schema", kind)
		require.Contains(t, types, kind)
		types[kind](t, s)
	}
}

func TestEveryJobSchemaHasAKind(t *testing.T) {
	t.Parallel()
	for _, name := range schemas.Names() {
		if kind, ok := strings.CutPrefix(name, "jobs/"); ok {
			require.Contains(t, jobs.Kinds(), jobs.Kind(kind))
		}
	}
}

// What a Go publisher fills in is valid as Go writes it.
func TestFilledPayloadsAreValid(t *testing.T) {
	t.Parallel()
	yes := true
	common := jobs.Common{
		V: jobs.Version, ID: "j7", Session: "s1", Owner: "agent-7", MaxAttempts: 100,
		ExpiresIn: wire.Duration(90 * time.Minute), RunAfter: time.Now(),
		Unique: "nightly", Exclusive: &yes, Labels: map[string]string{"team": "core"},
	}
	later := common
	later.RunAfter, later.Delay = time.Time{}, wire.Duration(1500*time.Microsecond)
	repo := &jobs.Repo{
		URL: "https://github.com/acme/app", Ref: "main", Branch: "task-j7", Depth: 1, Filter: "blob:none",
		Commit: &jobs.Commit{Type: "fix", Scope: "api", Subject: "x", Body: "y", Breaking: true, Author: "A <a@b>"},
		Push:   true, PullRequest: &jobs.PullRequest{Title: "x", Body: "y", Base: "main", Draft: &yes, Labels: []string{"a"}, Reviewers: []string{"b"}},
		Credential: "github-token",
	}
	values := map[jobs.Kind]jobs.Payload{
		jobs.SandboxProvision: &jobs.Provision{
			Common: common, Template: "base", IdleTimeout: wire.Duration(time.Second), MaxAge: wire.Duration(24 * time.Hour),
			Metadata: map[string]string{"a": "b"}, Env: map[string]string{"A": "b"}, Secrets: map[string]string{"TOKEN": "github-token"},
			Network: &session.Network{AllowInternet: &yes, AllowOut: []string{"example.com"}, DenyOut: []string{"10.0.0.0/8"}}, Ephemeral: true,
		},
		jobs.SandboxPause: &jobs.Lifecycle{Common: later, Reason: "idle"},
		jobs.TaskRun: &jobs.Run{
			Common: common, Argv: []string{"a", ""}, Cwd: "/tmp", User: "user", Env: map[string]string{"A": ""}, Secrets: map[string]string{"T": "t"},
			Stdin: "x\n", Timeout: wire.Duration(time.Minute), SilentTimeout: wire.Duration(time.Second), RetryOnExit: []int{75}, Repo: repo,
		},
		jobs.FileUpload: &jobs.File{Common: common, Path: "/tmp/f", Object: "f", Mode: "0644"},
		jobs.GitPublish: &jobs.Git{Common: later, Repo: repo},
	}
	for kind, v := range values {
		s, _ := schemas.Job(string(kind))
		require.NoError(t, schematest.Valid(s, v), kind)
	}
}

// Every class may stand in a terminal event.
func TestClassesAreValid(t *testing.T) {
	t.Parallel()
	failed, _ := schemas.Event("failed")
	succeeded, _ := schemas.Event("succeeded")
	for _, c := range jobs.Classes() {
		outcome := map[string]any{"class": c, "attempts": 0, "duration_ms": 0, "stdout_bytes": 0, "stderr_bytes": 0}
		s := failed
		if c == jobs.ClassOK {
			s = succeeded
		}
		require.NoError(t, schematest.Valid(s, outcome), c)
	}
}

// The AsyncAPI document names the headers and consumers that outsiders meet.
func TestAsyncAPINamesHeadersAndConsumers(t *testing.T) {
	t.Parallel()
	doc, err := fs.ReadFile(schemas.Files(), "asyncapi.yaml")
	require.NoError(t, err)
	for _, header := range []string{
		jobs.HeaderJob, jobs.HeaderSession, jobs.HeaderSubject, jobs.HeaderOrigin, jobs.HeaderReason, jobs.HeaderClass,
		jobs.HeaderAttempts, jobs.HeaderPointer, jobs.HeaderOwner, jobs.HeaderCut, jobs.HeaderReplay,
	} {
		require.Contains(t, string(doc), "        "+header+":\n")
	}
	durables := strings.Join([]string{jobs.DurableHigh, jobs.DurableNormal, jobs.DurableLow}, ", ")
	require.Contains(t, string(doc), "durables: ["+durables+"]")
}
