package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed demoproject
var demoProject embed.FS

// A gitServer serves one small repository over HTTP on loopback, as
// git http-backend does behind any web server. It exists for the demo.
type gitServer struct {
	URL  string // of the repository
	Head string // commit that a clone ends at
	http *http.Server
	done chan struct{}
}

// startGit makes a repository of the demo's project below dir and serves it.
// It fails where git or its http-backend is not installed.
func startGit(ctx context.Context, dir string) (*gitServer, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, errors.New("the demo clones a repository: install git")
	}
	repo := filepath.Join(dir, "roman.git")
	head, err := makeRepo(ctx, git, repo)
	if err != nil {
		return nil, err
	}
	backend, err := httpBackend(ctx, git)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve git: %w", err)
	}
	s := &gitServer{
		URL:  fmt.Sprintf("http://%s/roman.git", ln.Addr()),
		Head: head,
		http: &http.Server{
			ReadHeaderTimeout: 10 * time.Second,
			Handler: &cgi.Handler{
				Path: backend,
				Dir:  dir,
				Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
			},
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln) // ends with Close
	}()
	return s, nil
}

// Close stops the server. What still reads is cut off.
func (s *gitServer) Close() {
	_ = s.http.Close()
	<-s.done
}

// makeRepo writes the demo's project to a new repository and commits it.
func makeRepo(ctx context.Context, git, repo string) (head string, err error) {
	project, err := fs.Sub(demoProject, "demoproject")
	if err != nil {
		return "", err
	}
	work := repo + ".work"
	if err := os.CopyFS(work, project); err != nil {
		return "", fmt.Errorf("write the demo's project: %w", err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "-A"},
		{"commit", "-q", "-m", "roman: numerals in a few lines of shell"},
		{"clone", "-q", "--bare", ".", repo},
	} {
		if _, err := runGit(ctx, git, work, args...); err != nil {
			return "", err
		}
	}
	return runGit(ctx, git, work, "rev-parse", "HEAD")
}

func httpBackend(ctx context.Context, git string) (string, error) {
	dir, err := runGit(ctx, git, ".", "--exec-path")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "git-http-backend")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("serve git: %w: it comes with most packages of git", err)
	}
	return path, nil
}

// runGit runs git away from the user's own configuration.
func runGit(ctx context.Context, git, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, git, args...)
	cmd.Dir = dir
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Sandjet", "GIT_AUTHOR_EMAIL=demo@sandjet.invalid",
		"GIT_COMMITTER_NAME=Sandjet", "GIT_COMMITTER_EMAIL=demo@sandjet.invalid")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}
