package main

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/git/local"
)

//go:embed demoproject
var demoProject embed.FS

// A repository is the stack's own: one small project on a git server with a forge,
// both on loopback.
type repository struct {
	*local.Server
	URL   string // of the repository
	Head  string // commit that main is at
	dir   string
	token string // with which the worker pushes and opens pull requests
}

// errNoGit happens where git is not installed.
var errNoGit = errors.New("git is not installed: the repository is served by git itself")

// startGit serves the demo's project from dir, where it may be from an earlier start.
func startGit(dir, addr string, log *slog.Logger) (*repository, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, errNoGit
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &repository{token: rand.Text()}
	var err error
	if r.Server, err = local.Start(local.Config{
		Dir: dir, Addr: addr, Token: r.token, Open: true, Web: true,
		Report: func(format string, args ...any) {
			log.Warn("amiss at the git server", "what", fmt.Sprintf(format, args...))
		},
	}); err != nil {
		return nil, err
	}
	r.Hub.Do(func() { r.Hub.Tokens[r.token] = time.Now().AddDate(10, 0, 0) })
	if err := r.fill(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// fill makes the repository unless it is there.
func (r *repository) fill() (err error) {
	if r.URL, r.dir, err = r.Make("demo/roman"); err != nil {
		return err
	}
	if !r.Has("demo", "roman", "main") {
		if _, err := r.Commit(r.dir, "main", "feat: roman numerals in a few lines of shell", project()); err != nil {
			return err
		}
	}
	r.Head, err = r.Git(r.dir, "rev-parse", "refs/heads/main")
	return err
}

// project is the demo's project, its contents by path.
func project() map[string]string {
	files := map[string]string{}
	const root = "demoproject"
	err := fs.WalkDir(demoProject, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := demoProject.ReadFile(name)
		files[strings.TrimPrefix(path.Clean(name), root+"/")] = string(b)
		return err
	})
	if err != nil {
		panic(err) // the files are compiled in
	}
	return files
}

// env is what a worker wants to push there and to open pull requests. Nothing where
// the outer environment has a credential for GitHub: that is for repositories there.
func (r *repository) env(outer func(string) string) map[string]string {
	if r == nil || outer("GITHUB_TOKEN")+outer("GITHUB_TOKEN_FILE")+outer("GITHUB_APP_ID") != "" {
		return nil
	}
	return map[string]string{"GITHUB_TOKEN": r.token, "GITHUB_API_URL": r.Server.URL}
}
