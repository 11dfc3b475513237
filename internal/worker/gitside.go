package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/git/github"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/store"
)

// GitConfig is what the worker has for repositories. ConfigFromEnv reads it.
type GitConfig struct {
	GitHubToken func() (string, error) // GITHUB_TOKEN or GITHUB_TOKEN_FILE, read again on change; nil for none
	GitHubAppID int64                  // GITHUB_APP_ID; 0 for none
	GitHubKey   []byte                 // GITHUB_APP_KEY_FILE: the App's private key, PEM
	GitHubAPI   string                 // GITHUB_API_URL: of a GitHub Enterprise; empty is github.com

	Committer  git.Person // WORKER_GIT_COMMITTER: "Name <mail>", who makes the commits
	SigningKey []byte     // WORKER_GIT_SIGNING_KEY_FILE: private SSH key that signs them; nil signs none
	SSHKey     []byte     // WORKER_GIT_SSH_KEY_FILE: deploy key for ssh addresses
	KnownHosts []byte     // WORKER_GIT_KNOWN_HOSTS_FILE: pinned host keys; empty is github.com's
	PushMode   string     // WORKER_GIT_PUSH_MODE: sandbox or host; a job may only narrow it
	Credential string     // WORKER_GIT_CREDENTIAL: how a sandbox gets a token: auto or file
	Mirrors    string     // WORKER_GIT_MIRRORS: directory in the sandbox with mirrors, <host>/<path>.git
	// WORKER_GIT_PATIENCE: how long a git server may be out of reach before that spends
	// an attempt, and how long git may say nothing before it is ended.
	Patience time.Duration

	PullRate float64 // no variable: pull requests of the fleet a second; 1
}

// GitHub asks for no more than 80 requests a minute that make something, and for a
// second between them.
const (
	pullRate  = 1
	pullBurst = 20
)

// gitSide is what all jobs with repositories share: who we are to git servers, and
// the budget of GitHub's API.
type gitSide struct {
	cfg  GitConfig
	hub  *github.Forge // nil where there is no credential for GitHub
	view *store.Store
	log  *slog.Logger
	// plain are the templates whose sandboxes get credentials by file alone, since
	// a header did not help.
	plain sync.Map
}

// remember has a template's sandboxes get credentials by file from now on.
func (g *gitSide) remember(template string) {
	if _, known := g.plain.LoadOrStore(template, true); !known {
		g.log.Info("header rules do not reach the git server: credentials go by file", "template", template)
	}
}

func newGitSide(cfg GitConfig, view *store.Store, log *slog.Logger) (*gitSide, error) {
	g := &gitSide{cfg: cfg, view: view, log: log}
	var tokens github.Tokens
	switch {
	case cfg.GitHubAppID != 0:
		app, err := github.NewApp(cfg.GitHubAppID, cfg.GitHubKey, cfg.GitHubAPI, nil)
		if err != nil {
			return nil, fmt.Errorf("GITHUB_APP_KEY_FILE: %w", err)
		}
		tokens = app
	case cfg.GitHubToken != nil:
		tokens = github.Static(func(context.Context) (string, error) { return cfg.GitHubToken() })
	default:
		return g, nil
	}
	var err error
	if g.hub, err = github.New(github.Config{API: cfg.GitHubAPI, Tokens: tokens}); err != nil {
		return nil, fmt.Errorf("GITHUB_API_URL: %w", err)
	}
	return g, nil
}

// budget is the name of a credential's share of GitHub's API in Redis: the limits
// are the credential's.
func budget(ref string) string {
	if ref == "" {
		return "github"
	}
	return "github." + ref
}

// take takes a place in a budget, or says how long to wait for one. Nothing is spent
// on waiting.
func (g *gitSide) take(ctx context.Context, ref string, perSecond float64) error {
	wait, err := g.view.TakeRate(ctx, budget(ref), budget(ref), perSecond, pullBurst)
	if err != nil {
		return fmt.Errorf("take a place in GitHub's rate: %w", err)
	}
	if wait > 0 {
		return waitFor(jobs.ClassRate, wait, "GitHub's limits leave no room for another call")
	}
	return nil
}

// learn keeps the whole fleet from GitHub for as long as it asks.
func (g *gitSide) learn(ctx context.Context, ref string, err error) {
	var e *git.Error
	if !errors.As(err, &e) || e.Kind != git.ErrRateLimited || e.RetryAfter <= 0 {
		return
	}
	if err := g.view.PauseRate(ctx, budget(ref), e.RetryAfter); err != nil {
		g.log.Warn("rate limit not noted", "route", budget(ref), "err", err)
	}
}

// secret makes a credential of a secret's value: a key for ssh, else a token.
func (g *gitSide) secret(r git.Remote, value string) git.Credential {
	if r.Scheme == "ssh" {
		return git.Credential{Key: []byte(value), KnownHosts: g.cfg.KnownHosts}
	}
	return git.Credential{Password: value}
}

// known is what of own can be told without asking anybody.
func (g *gitSide) known(r git.Remote) git.Credential {
	switch {
	case r.Scheme == "ssh":
		return git.Credential{Key: g.cfg.SSHKey}
	case g.cfg.GitHubToken != nil && g.hub.Serves(r):
		if t, err := g.cfg.GitHubToken(); err == nil {
			return git.Credential{Password: t}
		}
	}
	return git.Credential{}
}

// own is the worker's own credential for a repository: the zero one where it has none.
func (g *gitSide) own(ctx context.Context, r git.Remote, a github.Access) (git.Credential, error) {
	switch {
	case r.Scheme == "ssh" && len(g.cfg.SSHKey) > 0:
		return git.Credential{Key: g.cfg.SSHKey, KnownHosts: g.cfg.KnownHosts}, nil
	case r.Scheme != "ssh" && g.hub != nil && g.hub.Serves(r):
		if err := g.take(ctx, "", 0); err != nil {
			return git.Credential{}, err
		}
		c, err := g.hub.Credential(ctx, r, a)
		g.learn(ctx, "", err)
		return c, err
	}
	return git.Credential{}, nil
}

// forge is who makes pull requests for a remote, with a token or the worker's own.
func (g *gitSide) forge(token func() (string, error)) (*github.Forge, error) {
	if token == nil {
		return g.hub, nil
	}
	return github.New(github.Config{API: g.cfg.GitHubAPI, Tokens: github.Static(func(context.Context) (string, error) { return token() })})
}

// mirror is where a template may have a mirror of a repository.
func (g *gitSide) mirror(r git.Remote) string {
	if g.cfg.Mirrors == "" || strings.Contains(r.Host, ":") || strings.Contains(r.Path, "~") {
		return ""
	}
	return path.Join(g.cfg.Mirrors, r.Host, r.Path+".git")
}
