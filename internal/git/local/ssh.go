package local

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// SSH is git behind an SSH server that knows one key. It may be used concurrently.
type SSH struct {
	Addr       string
	KnownHosts string // its line of known_hosts

	root string
	ln   net.Listener
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	asked []string
}

// StartSSH serves the repositories under a directory to who has the key, a line of
// authorized_keys.
func StartSSH(root string, key []byte) (*SSH, error) {
	known, _, _, _, err := ssh.ParseAuthorizedKey(key)
	if err != nil {
		return nil, fmt.Errorf("ssh server: key: %w", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(known.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	cfg.AddHostKey(signer)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	s := &SSH{Addr: ln.Addr().String(), root: root, ln: ln}
	s.life, s.end = context.WithCancel(context.Background())
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	s.KnownHosts = fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(signer.PublicKey()))
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(c, cfg) })
		}
	})
	return s, nil
}

// Close stops the server. What still reads is cut off.
func (s *SSH) Close() {
	s.end()
	_ = s.ln.Close()
	s.wg.Wait()
}

// Asked are the kinds of requests besides those for a command: what a client wanted of
// a session.
func (s *SSH) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *SSH) note(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, kind)
}

func (s *SSH) serve(c net.Conn, cfg *ssh.ServerConfig) {
	defer c.Close()
	defer context.AfterFunc(s.life, func() { _ = c.Close() })()
	conn, channels, requests, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for nc := range channels {
		if nc.ChannelType() != "session" {
			s.note("channel " + nc.ChannelType())
			_ = nc.Reject(ssh.UnknownChannelType, "no")
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		s.session(ch, reqs)
	}
}

func (s *SSH) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	defer ch.Close()
	for r := range reqs {
		if r.Type != "exec" {
			s.note(r.Type)
			_ = r.Reply(r.Type == "env", nil)
			continue
		}
		_ = r.Reply(true, nil)
		var p struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &p)
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{s.git(ch, p.Command)}))
		return
	}
}

// git runs git-upload-pack or git-receive-pack.
func (s *SSH) git(ch ssh.Channel, command string) uint32 {
	verb, arg, _ := strings.Cut(command, " ")
	if verb != "git-upload-pack" && verb != "git-receive-pack" {
		return 127
	}
	dir := filepath.Join(s.root, filepath.FromSlash(filepath.Join("/", strings.Trim(arg, "'"))))
	cmd := exec.CommandContext(s.life, "git", strings.TrimPrefix(verb, "git-"), dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "GIT_CONFIG_NOSYSTEM=1"}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
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
