package git_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/sandjet/sandjet/internal/git"
	gitlocal "github.com/sandjet/sandjet/internal/git/local"
)

func TestSSH(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	_, bare := f.seeded(t, "app")
	key, pub := sshKey(t)
	s, err := gitlocal.StartSSH(f.root, pub)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	r, err := git.ParseURL("ssh://git@" + s.Addr + "/app.git")
	require.NoError(t, err)
	w := work(t, r)
	w.Credential = git.Credential{Key: key, KnownHosts: []byte(s.KnownHosts)}
	c, err := w.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
	require.NoError(t, err)
	write(t, w.Dir, "x", "y\n")
	done := commit(t, w, c.Base)
	p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j1"})
	require.NoError(t, err)
	require.True(t, p.New)
	require.Equal(t, done.Commit+"\n", run(t, bare, "git", "rev-parse", "task-j1"))
	for _, asked := range s.Asked() {
		require.NotContains(t, asked, "auth-agent", "no agent is forwarded")
		require.Equal(t, "env", asked)
	}
	require.Empty(t, search(t, filepath.Dir(w.Dir), strings.Split(string(key), "\n")[2]), "the key stays nowhere")

	other, otherPub := sshKey(t)
	_ = otherPub
	for name, tt := range map[string]struct {
		c     git.Credential
		words string
	}{
		"another key":      {git.Credential{Key: other, KnownHosts: []byte(s.KnownHosts)}, "does not take the key"},
		"no key":           {git.Credential{}, "wants a key"},
		"another host key": {git.Credential{Key: key, KnownHosts: []byte(strings.Replace(s.KnownHosts, strings.Fields(s.KnownHosts)[2], strings.Fields(string(otherPub))[1], 1))}, "host key"},
		"no host key":      {git.Credential{Key: key}, "host key"},
		"not a key":        {git.Credential{Key: []byte("nonsense"), KnownHosts: []byte(s.KnownHosts)}, "does not take the key"},
	} {
		t.Run(name, func(t *testing.T) {
			w := work(t, r)
			w.Credential = tt.c
			_, err := w.Clone(t.Context(), git.CloneOptions{Branch: "b"})
			require.ErrorIs(t, err, git.ErrAuth)
			require.ErrorContains(t, err, tt.words)
		})
	}
}

// The pinned key is the one whose fingerprint GitHub publishes.
func TestGitHubKnownHosts(t *testing.T) {
	t.Parallel()
	_, hosts, key, _, _, err := ssh.ParseKnownHosts([]byte(git.GitHubKnownHosts))
	require.NoError(t, err)
	require.Equal(t, []string{"github.com"}, hosts)
	require.Equal(t, "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU", ssh.FingerprintSHA256(key))
}
