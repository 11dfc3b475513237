package worker_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

// publishAs puts a job into the queue with its owner in the subject.
func (w *world) publishAs(owner string, kind jobs.Kind, p jobs.Payload) events.Job {
	w.t.Helper()
	got, err := w.jobs.Publish(w.t.Context(), kind, p, jobs.PublishOptions{Owner: owner})
	require.NoError(w.t, err)
	return events.Job{Session: got.Session, ID: got.Job}
}

const policyFile = `version: 1
rules:
  - name: agents
    owners: ["agent-*"]
    kinds: [task.run, sandbox.provision, sandbox.destroy]
    templates: [base]
    secrets: [shared]
    shell: false
    argv:
      deny: ["git push **"]
    egress:
      allow: ["*.example.com", "10.0.0.0/8"]
    caps: {timeout: 1h, max_age: 48h}
  - name: admins
    owners: [root]
`

func writePolicy(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// The policy refuses before anything is done, with the rule's name and line, and what
// it does not refuse runs. The owner is the one of the subject alone.
func TestPolicyRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "policy.yaml")
	writePolicy(t, path, policyFile)
	w.worker(withSecrets("WORKER_SECRET_SHARED=shared-value", "WORKER_SECRET_OTHER=other-value"),
		func(c *worker.Config) { c.PolicyFile = path })
	in := jobs.Common{Session: "refused"}
	body := jobs.Common{Session: "refused", Owner: "agent-1"}
	for name, tc := range map[string]struct {
		owner   string
		kind    jobs.Kind
		p       jobs.Payload
		says    string
		pointer string
	}{
		"nobody":         {"stranger", jobs.TaskRun, &jobs.Run{Common: in, Argv: []string{"true"}}, "policy.yaml: no rule is for owner stranger", ""},
		"owner unproven": {"", jobs.TaskRun, &jobs.Run{Common: body, Argv: []string{"true"}}, "no rule is for jobs without a proven owner", ""},
		"kind":           {"agent-1", jobs.SandboxResume, &jobs.Lifecycle{Common: in}, `policy.yaml:5, rule "agents": jobs of the kind "sandbox.resume"`, ""},
		"template":       {"agent-1", jobs.SandboxProvision, &jobs.Provision{Common: in, Template: "gpu"}, `policy.yaml:6, rule "agents"`, "/template"},
		"secret":         {"agent-1", jobs.TaskRun, &jobs.Run{Common: in, Argv: []string{"true"}, Secrets: map[string]string{"A": "other"}}, `policy.yaml:7, rule "agents"`, "/secrets/A"},
		"shell":          {"agent-1", jobs.TaskRun, &jobs.Run{Common: in, Shell: "true"}, `policy.yaml:8, rule "agents"`, "/shell"},
		"argv":           {"agent-1", jobs.TaskRun, &jobs.Run{Common: in, Argv: []string{"git", "push", "--force"}}, `rule "agents"`, "/argv"},
		"timeout":        {"agent-1", jobs.TaskRun, &jobs.Run{Common: in, Argv: []string{"true"}, Timeout: durationOf(2 * time.Hour)}, `policy.yaml:13, rule "agents"`, "/timeout"},
		"max age":        {"agent-1", jobs.SandboxProvision, &jobs.Provision{Common: in, MaxAge: durationOf(50 * time.Hour)}, `rule "agents"`, "/max_age"},
		"egress": {"agent-1", jobs.SandboxProvision, &jobs.Provision{Common: in, Network: &session.Network{
			AllowInternet: new(bool), AllowOut: []string{"evil.test"},
		}}, `policy.yaml:12, rule "agents"`, "/network/allow_out"},
	} {
		e := w.follow(w.publishAs(tc.owner, tc.kind, tc.p))
		require.Equal(t, events.Dead, e.Kind, name)
		require.Equal(t, "policy", e.Class, "%s: %s", name, e.Reason)
		require.Contains(t, e.Reason, tc.says, name)
		require.Equal(t, tc.pointer, e.Pointer, name)
	}
	require.Empty(t, w.e2b.Sandboxes(), "a sandbox was made for a job that was refused")

	run := func(owner string, p *jobs.Run) ended { return w.follow(w.publishAs(owner, jobs.TaskRun, p)) }
	e := run("agent-1", &jobs.Run{Common: jobs.Common{Session: "mine"}, Argv: []string{"printenv", "A"}, Secrets: map[string]string{"A": "shared"}})
	require.Equal(t, stars("shared-value")+"\n", string(e.Stdout), "%+v", e.Outcome)
	e = run("root", &jobs.Run{Common: jobs.Common{Session: "roots"}, Shell: "echo fine"})
	require.Equal(t, "fine\n", string(e.Stdout), "%+v", e.Outcome)
}

// A new sandbox reaches what its owner's rule lets it, also where no job has asked for
// one; and a template that is only the default is looked at as well.
func TestPolicyShapesTheSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "policy.yaml")
	writePolicy(t, path, policyFile)
	r := w.recorder()
	w.worker(r.through, func(c *worker.Config) { c.PolicyFile, c.IdleTimeout = path, time.Second })
	e := w.follow(w.publishAs("agent-1", jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1"}, Argv: []string{"true"}}))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	made := r.of("POST", "/sandboxes")
	require.Len(t, made, 1)
	var body struct {
		AllowInternet *bool `json:"allow_internet_access"`
		Network       struct{ AllowOut, DenyOut []string }
	}
	require.NoError(t, json.Unmarshal([]byte(made[0][strings.IndexByte(made[0], '{'):]), &body), made[0])
	require.NotNil(t, body.AllowInternet, made[0])
	require.False(t, *body.AllowInternet)
	require.Equal(t, []string{"*.example.com", "10.0.0.0/8"}, body.Network.AllowOut)
	require.Equal(t, []string{"0.0.0.0/0"}, body.Network.DenyOut)
	// The rule does not let the owner pause. Workers still do.
	w.state("s1", session.Paused)

	writePolicy(t, path, strings.Replace(policyFile, "templates: [base]", "templates: [other]", 1))
	e = w.follow(w.publishAs("agent-1", jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s2"}, Argv: []string{"true"}}))
	require.Equal(t, "policy", e.Class)
	require.Contains(t, e.Reason, `policy.yaml:6, rule "agents": the template "base" is not allowed: want other`)
	require.Len(t, r.of("POST", "/sandboxes"), 1)
}

// The file is read again when it changes. A faulty edit does not take effect.
func TestPolicyReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "policy.yaml")
	writePolicy(t, path, policyFile)
	w.worker(func(c *worker.Config) { c.PolicyFile = path })
	try := func(argv ...string) ended {
		return w.follow(w.publishAs("agent-1", jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1"}, Argv: argv}))
	}
	require.Equal(t, events.Succeeded, try("true").Kind)
	writePolicy(t, path, strings.Replace(policyFile, `deny: ["git push **"]`, `deny: ["true"]`, 1))
	require.Equal(t, "policy", try("true").Class)
	writePolicy(t, path, "version: 1\nrules:\n  - nme: x\n")
	require.Equal(t, "policy", try("true").Class, "a faulty edit has opened what was closed")
	require.Equal(t, events.Failed, try("false").Kind, "the last good policy has not stayed")
}

// A worker does not start with a faulty policy, and says each fault with its line.
func TestPolicyAtTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	writePolicy(t, path, "version: 1\nrules:\n  - name: x\n    kinds: [task.rnu]\n    caps: {timeout: soon}\n")
	cfg := worker.DefaultConfig()
	cfg.PolicyFile = path
	_, err := worker.New(cfg, testLog(t))
	require.ErrorContains(t, err, "WORKER_POLICY_FILE: policy file policy.yaml:4: rules[0].kinds")
	require.ErrorContains(t, err, "policy.yaml:5: rules[0].caps.timeout")
	require.NotContains(t, err.Error(), filepath.Dir(path))
}
