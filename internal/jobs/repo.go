package jobs

import (
	"errors"

	"github.com/sandjet/sandjet/internal/git"
)

// Repo says what repository a job works on and what becomes of the changes.
type Repo struct {
	URL         string       `json:"url"`
	Ref         string       `json:"ref,omitempty"`    // branch, tag or commit to clone; empty is the default branch
	Branch      string       `json:"branch,omitempty"` // to commit to; empty is task-<job id>
	Depth       int          `json:"depth,omitempty"`
	Filter      string       `json:"filter,omitempty"`
	Submodules  bool         `json:"submodules,omitempty"`
	LFS         bool         `json:"lfs,omitempty"`
	Commit      *Commit      `json:"commit,omitempty"`
	Push        bool         `json:"push,omitempty"`
	PushMode    string       `json:"push_mode,omitempty"` // PushSandbox or PushHost; empty is the worker's own
	PullRequest *PullRequest `json:"pull_request,omitempty"`
	Credential  string       `json:"credential,omitempty"`
}

// Where a push is made from.
const (
	PushSandbox = "sandbox"
	PushHost    = "host" // the worker takes the commits out of the sandbox and pushes them itself
)

// Commit is a conventional commit.
type Commit struct {
	Type     string `json:"type"`
	Scope    string `json:"scope,omitempty"`
	Subject  string `json:"subject"`
	Body     string `json:"body,omitempty"`
	Breaking bool   `json:"breaking,omitempty"`
	Author   string `json:"author,omitempty"`
}

// PullRequest is what to open after a push.
type PullRequest struct {
	Title     string   `json:"title,omitempty"`
	Body      string   `json:"body,omitempty"`
	Base      string   `json:"base,omitempty"`
	Draft     *bool    `json:"draft,omitempty"`
	Labels    []string `json:"labels,omitempty"`
	Reviewers []string `json:"reviewers,omitempty"`
}

// Git is the block as package git knows it: the one place where the two meet.
func (r *Repo) Git() *git.Repo {
	g := &git.Repo{
		URL: r.URL, Ref: r.Ref, Branch: r.Branch, Depth: r.Depth, Filter: r.Filter, Push: r.Push, Credential: r.Credential,
	}
	if c := r.Commit; c != nil {
		g.Commit = (*git.Commit)(c)
	}
	if p := r.PullRequest; p != nil {
		g.PullRequest = (*git.PullRequest)(p)
	}
	return g
}

// checkRepo says what the schema cannot of a repo block.
func checkRepo(r *Repo) error {
	if r == nil {
		return nil
	}
	var p *git.Problem
	if err := r.Git().Validate(); errors.As(err, &p) {
		return invalid("/repo"+p.Pointer, "%s", p.Reason)
	} else if err != nil {
		return invalid("/repo", "%v", err)
	}
	if r.PushMode != "" && !r.Push {
		return invalid("/repo/push_mode", "says where to push from, and nothing is pushed: set push to true")
	}
	return nil
}
