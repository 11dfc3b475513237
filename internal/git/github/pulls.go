package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	gh "github.com/google/go-github/v88/github"

	"github.com/sandjet/sandjet/internal/git"
)

// Config says which GitHub, and with which tokens.
type Config struct {
	API       string // address of the API; empty is github.com
	Tokens    Tokens
	Transport http.RoundTripper // nil is http.DefaultTransport
}

// Forge is GitHub as git knows it. It may be used concurrently.
type Forge struct {
	cfg  Config
	host string
}

var _ git.Forge = (*Forge)(nil)

// New makes a Forge.
func New(cfg Config) (*Forge, error) {
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	c, err := newClient(cfg.API)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.BaseURL())
	if err != nil {
		return nil, fmt.Errorf("github client: %w", err)
	}
	return &Forge{cfg: cfg, host: strings.TrimPrefix(strings.ToLower(u.Host), "api.")}, nil
}

// Serves reports whether a remote is of this GitHub.
func (f *Forge) Serves(r git.Remote) bool {
	_, _, ok := r.OwnerRepo()
	host := r.Host
	if r.Scheme == "ssh" { // another port, the same machine
		host, _, _ = strings.Cut(host, ":")
		host = strings.TrimPrefix(host, "ssh.")
		mine, _, _ := strings.Cut(f.host, ":")
		return ok && host == mine
	}
	return ok && host == f.host
}

// Credential is what git clones or pushes with: a token for this repository and
// this operation. Errors are *git.Error.
func (f *Forge) Credential(ctx context.Context, r git.Remote, a Access) (git.Credential, error) {
	owner, repo, err := f.place(r)
	if err != nil {
		return git.Credential{}, err
	}
	t, err := f.cfg.Tokens.Token(ctx, owner, repo, a)
	if err != nil {
		return git.Credential{}, tokenError(err)
	}
	return git.Credential{Username: "x-access-token", Password: t}, nil
}

// Drop forgets a credential that GitHub did not take. It reports whether another one
// may be had.
func (f *Forge) Drop(c git.Credential) bool { return f.cfg.Tokens.Drop(c.Password) }

// Host is the machine whose pull requests it makes.
func (f *Forge) Host() string { return f.host }

func tokenError(err error) error {
	t := explain("get a token", err)
	if t.Kind == git.ErrUnavailable && t.Code == 0 {
		t.Message = "no token for GitHub"
	}
	return t.Error
}

func (f *Forge) place(r git.Remote) (owner, repo string, err error) {
	if !f.Serves(r) {
		return "", "", &git.Error{Op: "pull request", Kind: git.ErrUnsupported, Message: "pull requests are made on " + f.host + " alone, for addresses of the form owner/repository"}
	}
	owner, repo, _ = r.OwnerRepo()
	return owner, repo, nil
}

// Ensure implements git.Forge. A token that GitHub does not take is exchanged for
// another once, where there is another.
func (f *Forge) Ensure(ctx context.Context, p git.Pull) (git.Pulled, error) {
	owner, repo, err := f.place(p.Remote)
	if err != nil {
		return git.Pulled{}, err
	}
	for again := false; ; again = true {
		token, err := f.cfg.Tokens.Token(ctx, owner, repo, Pulls)
		if err != nil {
			return git.Pulled{}, tokenError(err)
		}
		c, err := newClient(f.cfg.API, gh.WithTransport(exchange{f.cfg.Transport}), gh.WithTimeout(timeout), gh.WithAuthToken(token))
		if err != nil {
			return git.Pulled{}, err
		}
		res, t := (&call{c: c, owner: owner, repo: repo, want: p}).ensure(ctx)
		if t == nil {
			return res, nil
		}
		if t.Kind == git.ErrAuth && !again && f.cfg.Tokens.Drop(token) {
			continue
		}
		return git.Pulled{}, t.Error
	}
}

// call is one Ensure.
type call struct {
	c           *gh.Client
	owner, repo string
	want        git.Pull
}

const op = "pull request"

func (c *call) ensure(ctx context.Context) (git.Pulled, *trouble) {
	if c.want.Base == "" {
		r, _, err := c.c.Repositories.Get(ctx, c.owner, c.repo)
		if err != nil {
			return git.Pulled{}, explain(op, err)
		}
		c.want.Base = r.GetDefaultBranch()
	}
	found, t := c.find(ctx)
	if t != nil {
		return git.Pulled{}, t
	}
	var res git.Pulled
	if found == nil {
		if found, t = c.open(ctx, &res); t != nil || found == nil {
			return res, t
		}
	} else {
		res.Adopted = true
		if t := c.update(ctx, found, &res); t != nil {
			return git.Pulled{}, t
		}
	}
	res.Number, res.URL, res.Draft, res.State = found.GetNumber(), found.GetHTMLURL(), found.GetDraft(), found.GetState()
	if found.MergedAt != nil {
		res.State = "merged"
	}
	if res.State != "open" {
		return res, nil
	}
	if t := c.label(ctx, found, &res); t != nil {
		return git.Pulled{}, t
	}
	return res, c.review(ctx, found, &res)
}

// find looks for the pull request of the branch: an open one into the base, or the
// job's own, whatever has become of it.
func (c *call) find(ctx context.Context) (*gh.PullRequest, *trouble) {
	opts := &gh.PullRequestListOptions{State: "all", Head: c.owner + ":" + c.want.Head, Sort: "created", Direction: "desc", ListOptions: gh.ListOptions{PerPage: 100}}
	var own *gh.PullRequest
	for {
		list, resp, err := c.c.PullRequests.List(ctx, c.owner, c.repo, opts)
		if err != nil {
			return nil, explain(op, err)
		}
		for _, p := range list {
			// GitHub ignores a filter that it cannot read, and a fork may have a
			// branch of the same name.
			if p.GetHead().GetRef() != c.want.Head || p.GetHead().GetRepo().GetID() != p.GetBase().GetRepo().GetID() {
				continue
			}
			mine := c.mine(p)
			if p.GetState() == "open" && (mine || p.GetBase().GetRef() == c.want.Base) {
				return p, nil
			}
			if mine && own == nil {
				own = p
			}
		}
		if resp.NextPage == 0 {
			return own, nil
		}
		opts.Page = resp.NextPage
	}
}

// mine reports whether a pull request is the job's.
func (c *call) mine(p *gh.PullRequest) bool {
	return c.want.Task != "" && strings.Contains(p.GetBody(), git.Mark(c.want.Task))
}

// open opens the pull request; nil with no trouble means that there is nothing to
// merge.
func (c *call) open(ctx context.Context, res *git.Pulled) (*gh.PullRequest, *trouble) {
	n := &gh.NewPullRequest{
		Title: &c.want.Title, Head: &c.want.Head, Base: &c.want.Base, Body: &c.want.Body, Draft: &c.want.Draft,
	}
	for {
		p, _, err := c.c.PullRequests.Create(ctx, c.owner, c.repo, n)
		if err == nil {
			return p, nil
		}
		t := explain(op, err)
		switch {
		case t.Kind == git.ErrInvalid && t.says("no commits between"):
			return nil, nil
		case t.Kind == git.ErrInvalid && t.says("draft pull requests are not supported") && n.GetDraft():
			n.Draft = gh.Ptr(false)
			res.Warnings = append(res.Warnings, "the repository has no drafts: the pull request is open for review")
			continue
		case t.Kind == git.ErrInvalid && t.says("already exists"), t.Kind == git.ErrUnavailable:
			// Somebody was faster, or the answer was lost: what counts is what is there.
			if found, t2 := c.find(ctx); t2 == nil && found != nil {
				res.Adopted = true
				return found, nil
			}
		case t.Kind == git.ErrInvalid && t.says("base"):
			t.Kind = git.ErrNotFound
			t.Message = fmt.Sprintf("there is no branch %s to merge into: correct /repo/pull_request/base (%s)", c.want.Base, words(t.said))
		}
		return nil, t
	}
}

// update brings the job's own pull request up to date. Somebody else's stays as it
// is.
func (c *call) update(ctx context.Context, p *gh.PullRequest, res *git.Pulled) *trouble {
	if p.GetState() != "open" || !c.mine(p) || (p.GetTitle() == c.want.Title && p.GetBody() == c.want.Body) {
		return nil
	}
	_, _, err := c.c.PullRequests.Edit(ctx, c.owner, c.repo, p.GetNumber(), &gh.PullRequest{Title: &c.want.Title, Body: &c.want.Body})
	return c.mild(err, res, "its text could not be brought up to date")
}

func (c *call) label(ctx context.Context, p *gh.PullRequest, res *git.Pulled) *trouble {
	has := map[string]bool{}
	for _, l := range p.Labels {
		has[strings.ToLower(l.GetName())] = true
	}
	var add []string
	for _, l := range c.want.Labels {
		if !has[strings.ToLower(l)] {
			add = append(add, l)
		}
	}
	if len(add) == 0 {
		return nil
	}
	// go-github sends a bare list, which GitHub's description no longer knows.
	u := fmt.Sprintf("repos/%s/%s/issues/%d/labels", c.owner, c.repo, p.GetNumber())
	req, err := c.c.NewRequest(ctx, http.MethodPost, u, map[string][]string{"labels": add})
	if err == nil {
		_, err = c.c.Do(req, nil)
	}
	return c.mild(err, res, "its labels could not be set")
}

func (c *call) review(ctx context.Context, p *gh.PullRequest, res *git.Pulled) *trouble {
	has := map[string]bool{strings.ToLower(p.GetUser().GetLogin()): true} // nobody reviews his own
	for _, u := range p.RequestedReviewers {
		has[strings.ToLower(u.GetLogin())] = true
	}
	var r gh.ReviewersRequest
	for _, name := range c.want.Reviewers {
		if has[strings.ToLower(name)] {
			continue
		}
		if _, team, is := strings.Cut(name, "/"); is {
			r.TeamReviewers = append(r.TeamReviewers, team)
		} else {
			r.Reviewers = append(r.Reviewers, name)
		}
	}
	if len(r.Reviewers)+len(r.TeamReviewers) == 0 {
		return nil
	}
	_, _, err := c.c.PullRequests.RequestReviewers(ctx, c.owner, c.repo, p.GetNumber(), r)
	if err == nil || explain(op, err).Kind != git.ErrInvalid {
		return c.mild(err, res, "its reviewers could not be asked")
	}
	// One whom GitHub does not know spoils it for all: ask each by himself.
	for _, u := range r.Reviewers {
		_, _, err := c.c.PullRequests.RequestReviewers(ctx, c.owner, c.repo, p.GetNumber(), gh.ReviewersRequest{Reviewers: []string{u}})
		if t := c.mild(err, res, u+" could not be asked for a review"); t != nil {
			return t
		}
	}
	for _, team := range r.TeamReviewers {
		_, _, err := c.c.PullRequests.RequestReviewers(ctx, c.owner, c.repo, p.GetNumber(), gh.ReviewersRequest{TeamReviewers: []string{team}})
		if t := c.mild(err, res, "team "+team+" could not be asked for a review"); t != nil {
			return t
		}
	}
	return nil
}

// mild makes a warning of what is no reason to fail: the pull request stands. What
// may go away by itself stays an error, for the job to come back.
func (c *call) mild(err error, res *git.Pulled, what string) *trouble {
	if err == nil {
		return nil
	}
	t := explain(op, err)
	switch t.Kind {
	case git.ErrInvalid, git.ErrForbidden, git.ErrNotFound:
		res.Warnings = append(res.Warnings, what+": "+t.Message)
		return nil
	}
	return t
}
