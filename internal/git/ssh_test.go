package git_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/sandjet/sandjet/internal/git"
)

// sshForge is git behind a real SSH server that knows one key.
type sshForge struct {
	addr  string
	known string // its line of known_hosts

	mu       sync.Mutex
	requests []string // what clients asked for besides a command
}

func newSSHForge(t *testing.T, root string, allowed []byte) *sshForge {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(priv)
	require.NoError(t, err)
	want, _, _, _, err := ssh.ParseAuthorizedKey(allowed)
	require.NoError(t, err)
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(want.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	cfg.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &sshForge{addr: l.Addr().String()}
	host, port, err := net.SplitHostPort(f.addr)
	require.NoError(t, err)
	f.known = fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(signer.PublicKey()))
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.serve(c, cfg, root) })
		}
	})
	return f
}

func (f *sshForge) serve(c net.Conn, cfg *ssh.ServerConfig, root string) {
	defer c.Close()
	conn, channels, requests, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for nc := range channels {
		if nc.ChannelType() != "session" {
			f.note("channel " + nc.ChannelType())
			_ = nc.Reject(ssh.UnknownChannelType, "no")
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		for r := range reqs {
			if r.Type != "exec" {
				f.note(r.Type)
				_ = r.Reply(r.Type == "env", nil)
				continue
			}
			_ = r.Reply(true, nil)
			var p struct{ Command string }
			_ = ssh.Unmarshal(r.Payload, &p)
			code := run1(ch, root, p.Command)
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{code}))
			_ = ch.Close()
			break
		}
	}
}

func (f *sshForge) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, s)
}

// run1 runs git-upload-pack or git-receive-pack.
func run1(ch ssh.Channel, root, command string) uint32 {
	verb, arg, _ := strings.Cut(command, " ")
	name := strings.Trim(arg, "'/")
	if verb != "git-upload-pack" && verb != "git-receive-pack" {
		return 127
	}
	cmd := exec.Command("git", strings.TrimPrefix(verb, "git-"), filepath.Join(root, name))
	cmd.Env, cmd.Stdout, cmd.Stderr = clean(), ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(in, ch)
		_ = in.Close()
	}()
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

func TestSSH(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	_, bare := f.seeded(t, "app")
	key, pub := sshKey(t)
	s := newSSHForge(t, f.root, pub)
	r, err := git.ParseURL("ssh://git@" + s.addr + "/app.git")
	require.NoError(t, err)
	w := work(t, r)
	w.Credential = git.Credential{Key: key, KnownHosts: []byte(s.known)}
	c, err := w.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
	require.NoError(t, err)
	write(t, w.Dir, "x", "y\n")
	done := commit(t, w, c.Base)
	p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j1"})
	require.NoError(t, err)
	require.True(t, p.New)
	require.Equal(t, done.Commit+"\n", run(t, bare, "git", "rev-parse", "task-j1"))
	for _, asked := range s.requests {
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
		"another key":      {git.Credential{Key: other, KnownHosts: []byte(s.known)}, "does not take the key"},
		"no key":           {git.Credential{}, "wants a key"},
		"another host key": {git.Credential{Key: key, KnownHosts: []byte(strings.Replace(s.known, strings.Fields(s.known)[2], strings.Fields(string(otherPub))[1], 1))}, "host key"},
		"no host key":      {git.Credential{Key: key}, "host key"},
		"not a key":        {git.Credential{Key: []byte("nonsense"), KnownHosts: []byte(s.known)}, "does not take the key"},
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
