package worker_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git/local"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/worker"
)

// deployKey makes a key as OpenSSH writes it, and its line of authorized_keys.
func deployKey(t *testing.T) (key, known []byte) {
	t.Helper()
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	require.NoError(t, err)
	line, err := ssh.NewPublicKey(pub)
	require.NoError(t, err)
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(line)
}

// A deploy key clones and pushes over ssh, is gone while the command runs, and stays
// nowhere; a server whose host key is another one gets nothing.
func TestRepoByDeployKey(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	key, known := deployKey(t)
	server, err := local.StartSSH(filepath.Dir(filepath.Dir(g.dir)), known)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	g.worker(g.with(func(c *worker.Config) { c.Git.SSHKey, c.Git.KnownHosts = key, []byte(server.KnownHosts) }))
	repo := g.block()
	repo.URL, repo.PullRequest = "ssh://git@"+server.Addr+"/acme/app.git", nil

	secret := strings.Split(string(key), "\n")[2]
	e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: repo, Env: map[string]string{"HALF": secret[:20], "REST": secret[20:]},
		Shell: `echo x >x; grep -rlF "$HALF$REST" /home /tmp /dev/shm 2>/dev/null | grep -v '^/tmp/.sandjet-default/'; ls -d /dev/shm/.sandjet-git.* 2>/dev/null; echo "$HALF$REST"; env | grep -c SSH_AUTH_SOCK; true`,
	}))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, strings.Repeat("*", len(secret))+"\n0\n", string(e.Stdout), "the key was there while the command ran, or is not masked")
	require.Equal(t, e.Commit, g.on("rev-parse", "task-j1"))
	for _, asked := range server.Asked() {
		require.Equal(t, "env", asked)
	}

	other, err := local.StartSSH(filepath.Dir(filepath.Dir(g.dir)), known)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	repo.URL = "ssh://git@" + other.Addr + "/acme/app.git"
	e = g.follow(g.publish(jobs.GitClone, &jobs.Git{Common: jobs.Common{Session: "s2", MaxAttempts: 1}, Repo: repo}))
	require.Equal(t, events.Dead, e.Kind)
	require.Equal(t, string(jobs.ClassGitAuth), e.Class)
	require.Contains(t, e.Reason, "host key is not the pinned one")
}
