package git_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

// token is what the server wants, and what must be found nowhere afterwards.
const token = "ghs_planted0secret1that2must3not4leak5"

// forge is git's own smart HTTP server with authentication in front.
type forge struct {
	*httptest.Server
	root string

	mu     sync.Mutex
	token  string // what it takes at the moment
	seen   []string
	before func(path string) // called with each request
}

// newForge serves the bare repositories below a directory of the test.
func newForge(t testing.TB) *forge {
	t.Helper()
	f := &forge{root: t.TempDir(), token: token}
	path, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=job", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + f.root},
		// What a client that is gone makes of it is not the test's matter.
		Stderr: io.Discard,
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		f.mu.Lock()
		want, before := f.token, f.before
		f.seen = append(f.seen, r.Method+" "+r.URL.String())
		f.mu.Unlock()
		if user != "x-access-token" || pass != want {
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "Bad credentials", http.StatusUnauthorized)
			return
		}
		if before != nil {
			before(r.URL.Path + "?" + r.URL.RawQuery)
		}
		r.Header.Del("Authorization")
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// set changes what the server does while it runs.
func (f *forge) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// repo makes an empty bare repository and returns its address and directory.
func (f *forge) repo(t testing.TB, name string) (git.Remote, string) {
	t.Helper()
	dir := filepath.Join(f.root, name+".git")
	run(t, "", "git", "init", "-q", "--bare", "-b", "main", dir)
	run(t, dir, "git", "config", "http.receivepack", "true")
	run(t, dir, "git", "config", "uploadpack.allowFilter", "true")
	run(t, dir, "git", "config", "uploadpack.allowAnySHA1InWant", "true")
	run(t, dir, "git", "config", "gc.auto", "0")
	run(t, dir, "git", "config", "receive.autogc", "false")
	r, err := git.ParseURL(f.URL + "/" + name + ".git")
	require.NoError(t, err)
	return r, dir
}

// seeded is a repository with one commit on main.
func (f *forge) seeded(t testing.TB, name string) (git.Remote, string) {
	t.Helper()
	r, dir := f.repo(t, name)
	commitTo(t, dir, "main", map[string]string{"README.md": "# app\n", "src/a.txt": "one\ntwo\nthree\n"}, "feat: begin")
	return r, dir
}

// commitTo makes a commit in a bare repository, behind everybody's back.
func commitTo(t testing.TB, bare, branch string, files map[string]string, message string) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter Else <else@example.com> now\ndata %d\n%s\n", branch, len(message), message)
	if out, err := output(bare, "git", "rev-parse", "-q", "--verify", "refs/heads/"+branch); err == nil {
		fmt.Fprintf(&b, "from %s\n", strings.TrimSpace(out))
	}
	for name, text := range files {
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	b.WriteString("done\n")
	cmd := exec.Command("git", "fast-import", "--quiet", "--done", "--date-format=now")
	cmd.Dir, cmd.Stdin, cmd.Env = bare, &b, clean()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(run(t, bare, "git", "rev-parse", "refs/heads/"+branch))
}

// hook puts a hook of the server's in place.
func hook(t testing.TB, bare, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(bare, "hooks"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bare, "hooks", name), []byte("#!/bin/sh\n"+text), 0o755))
}

var bot = git.Person{Name: "Sandjet", Email: "bot@example.com"}

// work is a job's work tree, not cloned yet, in a sandbox that is a directory.
func work(t testing.TB, r git.Remote) *git.Work {
	t.Helper()
	root := plainDir(t)
	w := &git.Work{
		Runner: local(root), Dir: filepath.Join(root, "tree"), Desk: filepath.Join(root, "desk"), Remote: r,
		Credential: git.Credential{Password: token}, Committer: bot,
	}
	return w
}

// plainDir is a directory whose name holds nothing of the test's.
func plainDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandjet-git-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// local runs the scripts under the shell that the environment asks for.
func local(home string) git.Local {
	l := git.Local{Env: []string{"HOME=" + home}}
	if s := os.Getenv("SANDJET_TEST_SH"); s != "" {
		l.Shell = append(strings.Fields(s), "-c")
	}
	return l
}

// cloned is work with the repository in it, on a branch.
func cloned(t testing.TB, r git.Remote, branch string) (*git.Work, git.Clone) {
	t.Helper()
	w := work(t, r)
	c, err := w.Clone(t.Context(), git.CloneOptions{Branch: branch})
	require.NoError(t, err)
	return w, c
}

func message() git.Commit { return git.Commit{Type: "feat", Subject: "change things"} }

// commit commits what is in the work tree.
func commit(t testing.TB, w *git.Work, base string) git.Committed {
	t.Helper()
	c, err := w.Commit(t.Context(), git.CommitOptions{Message: message(), Trailers: git.Trailers{Task: "j1", Session: "s1"}, Base: base})
	require.NoError(t, err)
	return c
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
}

func clean() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@e", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@e"}
}

func output(dir string, argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, clean()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%v: %w: %s", argv, err, stderr.String())
	}
	return string(out), nil
}

func run(t testing.TB, dir string, argv ...string) string {
	t.Helper()
	out, err := output(dir, argv...)
	require.NoError(t, err)
	return out
}

// recorder keeps what goes over a runner.
type recorder struct {
	git.Runner
	mu      sync.Mutex
	scripts []git.Script
}

func (r *recorder) Run(ctx context.Context, s git.Script) (git.Output, error) {
	r.mu.Lock()
	r.scripts = append(r.scripts, s)
	r.mu.Unlock()
	return r.Runner.Run(ctx, s)
}

// redirect tells the scripts that the credential is for another host than the one
// they go to, as after a redirect of the server's.
type redirect struct {
	git.Runner
	host string
}

func (r redirect) Run(ctx context.Context, s git.Script) (git.Output, error) {
	s.Args = append([]string(nil), s.Args...)
	s.Args[2] = "protocol=http,host=" + r.host
	return r.Runner.Run(ctx, s)
}
