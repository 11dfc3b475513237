package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config says how to serve.
type Config struct {
	Dir   string // for the repositories
	Addr  string // to listen at; empty is a free port of loopback
	Token string // that the server takes for an hour; empty is none
	// Open lets everybody read.
	Open bool
	// Web shows pull requests at addresses of the server's own, as plain text.
	Web bool
	// Report hears what is amiss in requests to the API; nil is nobody.
	Report func(format string, args ...any)
	// Before is called with each request to git; nil is nothing.
	Before func(r *http.Request)
}

// Server serves repositories and their pull requests. It may be used concurrently.
type Server struct {
	URL string
	Hub *Hub

	cfg     Config
	git     string
	backend http.Handler
	http    *http.Server
	done    chan struct{}
}

// Start serves. It fails where git or its http-backend is not installed.
func Start(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, done: make(chan struct{})}
	var err error
	if s.git, err = exec.LookPath("git"); err != nil {
		return nil, errors.New("git server: git is not installed")
	}
	at, err := exec.Command(s.git, "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	program := filepath.Join(strings.TrimSpace(string(at)), "git-http-backend")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("git server: %w: it comes with most packages of git", err)
	}
	s.backend = &cgi.Handler{
		Path: program,
		Env:  []string{"GIT_PROJECT_ROOT=" + cfg.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=job", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + cfg.Dir},
		// What a client that is gone makes of it is nobody's matter.
		Stderr: io.Discard,
	}
	report := cfg.Report
	if report == nil {
		report = func(string, ...any) {}
	}
	if s.Hub, err = NewHub(report); err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	s.Hub.Branch = s.Has
	if cfg.Token != "" {
		s.Hub.Tokens[cfg.Token] = time.Now().Add(time.Hour)
	}
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	s.URL = "http://" + ln.Addr().String()
	if cfg.Web {
		s.Hub.web = s.URL
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 30 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln) // ends with Close
	}()
	return s, nil
}

// Close stops the server. What still reads is cut off.
func (s *Server) Close() {
	_ = s.http.Close()
	<-s.done
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, prefix+"/") {
		s.Hub.ServeHTTP(w, r)
		return
	}
	if s.cfg.Web && pageRegexp.MatchString(r.URL.Path) {
		s.Hub.page(w, r)
		return
	}
	if s.cfg.Before != nil {
		s.cfg.Before(r)
	}
	user, token, _ := r.BasicAuth()
	reads := s.cfg.Open && !strings.Contains(r.URL.Path+"?"+r.URL.RawQuery, "git-receive-pack")
	if !reads && (user != "x-access-token" || !s.Hub.Takes(token)) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "Bad credentials", http.StatusUnauthorized)
		return
	}
	r.Header.Del("Authorization")
	body, err := measured(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer body.Close()
	s.backend.ServeHTTP(w, r)
}

// measured gives a request that comes in chunks, as large pushes do, a length: CGI
// takes none without.
func measured(r *http.Request) (io.Closer, error) {
	if r.ContentLength >= 0 {
		return r.Body, nil
	}
	f, err := os.CreateTemp("", "sandjet-git-request-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	n, err := io.Copy(f, r.Body)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("read the request: %w", err)
	}
	r.Body, r.ContentLength, r.TransferEncoding = f, n, nil
	return f, nil
}

var pageRegexp = regexp.MustCompile(`^/([^/]+/[^/]+)/pull/([0-9]+)$`)

var nameRegexp = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Make makes an empty repository owner/name and returns its address and its directory.
func (s *Server) Make(name string) (url, dir string, err error) {
	if !nameRegexp.MatchString(name) {
		return "", "", fmt.Errorf("repository %q: want owner/name", name)
	}
	dir = filepath.Join(s.cfg.Dir, name+".git")
	if _, err := s.Git("", "init", "-q", "--bare", "-b", "main", dir); err != nil {
		return "", "", err
	}
	for k, v := range map[string]string{
		"http.receivepack": "true", "uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true",
		"gc.auto": "0", "receive.autogc": "false",
	} {
		if _, err := s.Git(dir, "config", k, v); err != nil {
			return "", "", err
		}
	}
	return s.URL + "/" + name + ".git", dir, nil
}

// Commit makes a commit in a bare repository, behind everybody's back.
func (s *Server) Commit(dir, branch, message string, files map[string]string) (id string, err error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter Else <else@example.com> now\ndata %d\n%s\n", branch, len(message), message)
	if out, err := s.Git(dir, "rev-parse", "-q", "--verify", "refs/heads/"+branch); err == nil {
		fmt.Fprintf(&b, "from %s\n", out)
	}
	for _, name := range slices.Sorted(keys(files)) {
		mode := "100644"
		if strings.HasSuffix(name, ".sh") {
			mode = "100755"
		}
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, name, len(files[name]), files[name])
	}
	b.WriteString("done\n")
	if _, err := s.run(dir, &b, "fast-import", "--quiet", "--done", "--date-format=now"); err != nil {
		return "", err
	}
	return s.Git(dir, "rev-parse", "refs/heads/"+branch)
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// Has reports whether a repository has a branch.
func (s *Server) Has(owner, repo, branch string) bool {
	_, err := s.Git(filepath.Join(s.cfg.Dir, owner, repo+".git"), "rev-parse", "-q", "--verify", "refs/heads/"+branch)
	return err == nil
}

// Hook puts a hook of the server's in place.
func (s *Server) Hook(dir, name, text string) error {
	if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "hooks", name), []byte("#!/bin/sh\n"+text), 0o755)
}

// Git runs git in a directory, away from anybody's configuration, and returns what it
// prints.
func (s *Server) Git(dir string, args ...string) (string, error) { return s.run(dir, nil, args...) }

func (s *Server) run(dir string, stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.git, args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.com",
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
