package worker

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/jobs"
)

// git reads what the worker has for repositories.
func (e *env) git(c *GitConfig) {
	token, app := e.get("GITHUB_TOKEN") != "" || e.get("GITHUB_TOKEN_FILE") != "", e.get("GITHUB_APP_ID") != ""
	switch {
	case token && app:
		e.fail("GITHUB_APP_ID", "and GITHUB_TOKEN are both set: want one of them")
	case token:
		c.GitHubToken = e.key("GITHUB_TOKEN")
	case app:
		e.app(c)
	case e.get("GITHUB_APP_KEY_FILE") != "":
		e.fail("GITHUB_APP_ID", "is not set: want the number of the GitHub App whose key GITHUB_APP_KEY_FILE is")
	}
	c.GitHubAPI = e.url("GITHUB_API_URL")
	read(e, "WORKER_GIT_COMMITTER", &c.Committer, "a name and an address such as Sandjet <bot@example.com>", func(s string) (git.Person, bool) {
		p, err := git.ParsePerson(s)
		return p, err == nil
	})
	c.SigningKey = e.sshKey("WORKER_GIT_SIGNING_KEY_FILE")
	c.SSHKey = e.sshKey("WORKER_GIT_SSH_KEY_FILE")
	c.KnownHosts = e.knownHosts("WORKER_GIT_KNOWN_HOSTS_FILE")
	e.choice("WORKER_GIT_PUSH_MODE", &c.PushMode, jobs.PushSandbox, jobs.PushHost)
	e.choice("WORKER_GIT_CREDENTIAL", &c.Credential, CredentialAuto, CredentialFile)
	read(e, "WORKER_GIT_MIRRORS", &c.Mirrors, "a directory in the sandbox such as /opt/mirrors, or off", func(s string) (string, bool) {
		if s == "off" {
			return "", true
		}
		return s, path.IsAbs(s) && path.Clean(s) == s && s != "/" && !strings.ContainsAny(s, " \t\n")
	})
	e.duration("WORKER_GIT_PATIENCE", &c.Patience, time.Second, 24*time.Hour)
}

// app reads the GitHub App: its number and its key.
func (e *env) app(c *GitConfig) {
	read(e, "GITHUB_APP_ID", &c.GitHubAppID, "the number of a GitHub App", func(s string) (int64, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil && n > 0
	})
	const name = "GITHUB_APP_KEY_FILE"
	if c.GitHubKey = e.content(name); c.GitHubKey == nil {
		if e.get(name) == "" {
			e.fail(name, "is not set: want the file with the private key of the GitHub App")
		}
		return
	}
	block, _ := pem.Decode(c.GitHubKey)
	if block == nil || !rsaKey(block.Bytes) {
		e.malformed(name, "a file with an RSA private key, PEM, as GitHub gives it")
	}
}

func rsaKey(der []byte) bool {
	_, err1 := x509.ParsePKCS1PrivateKey(der)
	_, err8 := x509.ParsePKCS8PrivateKey(der)
	return err1 == nil || err8 == nil
}

// content reads the file that a variable names; nil where there is none.
func (e *env) content(name string) []byte {
	file := e.get(name)
	if file == "" {
		return nil
	}
	b, err := os.ReadFile(file)
	switch {
	case err != nil:
		e.fail(name, fmt.Sprintf("cannot be read: %v: want a file", withoutPath(err)))
		return nil
	case len(bytes.TrimSpace(b)) == 0:
		e.fail(name, "is empty: want a file")
		return nil
	}
	return b
}

// sshKey reads a private SSH key. One with a passphrase is of no use: nobody is there
// to type it.
func (e *env) sshKey(name string) []byte {
	b := e.content(name)
	if b == nil {
		return nil
	}
	if _, err := ssh.ParsePrivateKey(b); err != nil {
		e.malformed(name, "a file with a private SSH key without a passphrase")
		return nil
	}
	return b
}

// knownHosts reads the host keys that ssh addresses are pinned to.
func (e *env) knownHosts(name string) []byte {
	b := e.content(name)
	for rest := b; ; {
		var err error
		if _, _, _, _, rest, err = ssh.ParseKnownHosts(rest); errors.Is(err, io.EOF) {
			return b
		}
		if err != nil {
			e.malformed(name, "a file with lines as in known_hosts")
			return nil
		}
	}
}
