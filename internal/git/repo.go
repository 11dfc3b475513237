package git

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Repo says what repository a job works on and what becomes of the changes. Its
// JSON form is the repo block of a job.
type Repo struct {
	URL         string       `json:"url"`
	Ref         string       `json:"ref,omitempty"`    // branch, tag or commit to clone; empty is the default branch
	Branch      string       `json:"branch,omitempty"` // to commit to; empty is BranchFor(job)
	Depth       int          `json:"depth,omitempty"`  // commits to fetch; 0 is all
	Filter      string       `json:"filter,omitempty"` // partial clone filter
	Commit      *Commit      `json:"commit,omitempty"`
	Push        bool         `json:"push,omitempty"`
	PullRequest *PullRequest `json:"pull_request,omitempty"`
	Credential  string       `json:"credential,omitempty"` // name of the secret to clone and push with
}

// PullRequest is what to open after a push.
type PullRequest struct {
	Title     string   `json:"title,omitempty"` // empty is the commit's first line
	Body      string   `json:"body,omitempty"`
	Base      string   `json:"base,omitempty"`  // branch to merge into; empty is the default branch
	Draft     *bool    `json:"draft,omitempty"` // nil is true
	Labels    []string `json:"labels,omitempty"`
	Reviewers []string `json:"reviewers,omitempty"` // users, or "organisation/team"
}

// IsDraft reports whether the pull request is opened as a draft.
func (p PullRequest) IsDraft() bool { return p.Draft == nil || *p.Draft }

// BranchFor is the branch of a job that names none.
func BranchFor(job string) string { return "task-" + job }

// Problem is what is wrong with a repo block. It is an error of kind ErrInvalid.
type Problem struct {
	Pointer string // JSON pointer into the block, as "/commit/type"
	Reason  string
}

func (p *Problem) Error() string { return p.Pointer + ": " + p.Reason }

// Is makes a Problem an ErrInvalid.
func (p *Problem) Is(target error) bool { return target == ErrInvalid }

func problem(pointer, format string, args ...any) *Problem {
	return &Problem{Pointer: pointer, Reason: fmt.Sprintf(format, args...)}
}

var (
	filterRegexp   = regexp.MustCompile(`^(blob:none|blob:limit=[0-9]{1,12}[kmg]?|tree:[0-9]{1,6})$`)
	reviewerRegexp = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:\[bot\])?(?:/[A-Za-z0-9._-]{1,100})?$`)
)

const (
	maxDepth  = 1_000_000
	maxLabels = 100
	maxBody   = 65536
	maxTitle  = 256
)

// Validate returns the first thing wrong with the block as a *Problem, or nil.
// It never repeats a URL, which may hold a password.
func (r *Repo) Validate() error {
	if _, err := ParseURL(r.URL); err != nil {
		return problem("/url", "%s", err)
	}
	if r.Ref != "" {
		if err := checkRefArg(r.Ref); err != nil {
			return problem("/ref", "%s", err)
		}
	}
	if r.Branch != "" {
		if err := CheckBranch(r.Branch); err != nil {
			return problem("/branch", "%s", err)
		}
	}
	switch {
	case r.Depth < 0 || r.Depth > maxDepth:
		return problem("/depth", "%d is not between 1 and %d; leave it out for the whole history", r.Depth, maxDepth)
	case r.Filter != "" && !filterRegexp.MatchString(r.Filter):
		return problem("/filter", `want "blob:none", "blob:limit=<size>" or "tree:<depth>"`)
	case r.PullRequest != nil && !r.Push:
		return problem("/pull_request", "a pull request needs the branch pushed: set push to true")
	case r.Push && r.Commit == nil:
		return problem("/commit", "what is pushed needs a commit message: give commit a type and a subject")
	}
	if r.Commit != nil {
		if err := r.Commit.validate("/commit"); err != nil {
			return err
		}
	}
	if r.PullRequest != nil {
		if err := r.PullRequest.validate("/pull_request", r.Branch); err != nil {
			return err
		}
	}
	return nil
}

func (p *PullRequest) validate(at, branch string) error {
	switch {
	case utf8.RuneCountInString(p.Title) > maxTitle:
		return problem(at+"/title", "longer than %d characters", maxTitle)
	case strings.ContainsAny(p.Title, "\r\n\x00"):
		return problem(at+"/title", "more than one line")
	case utf8.RuneCountInString(p.Body) > maxBody:
		return problem(at+"/body", "longer than %d characters", maxBody)
	case len(p.Labels) > maxLabels:
		return problem(at+"/labels", "more than %d", maxLabels)
	case len(p.Reviewers) > maxLabels:
		return problem(at+"/reviewers", "more than %d", maxLabels)
	}
	if p.Base != "" {
		if err := CheckBranch(p.Base); err != nil {
			return problem(at+"/base", "%s", err)
		}
		if p.Base == branch {
			return problem(at+"/base", "the branch cannot be merged into itself")
		}
	}
	for i, l := range p.Labels {
		if strings.TrimSpace(l) == "" || utf8.RuneCountInString(l) > 50 || strings.ContainsAny(l, "\r\n\x00") {
			return problem(at+"/labels/"+strconv.Itoa(i), "want 1 to 50 characters on one line")
		}
	}
	for i, r := range p.Reviewers {
		if !reviewerRegexp.MatchString(r) {
			return problem(at+"/reviewers/"+strconv.Itoa(i), `want a user or an "organisation/team"`)
		}
	}
	return nil
}
