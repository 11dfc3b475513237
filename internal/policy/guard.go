package policy

import (
	"errors"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// GuardedPaths are the paths in a repository that give power over it or over who
// works in it: workflows run with its secrets, CODEOWNERS says who must agree, the
// others make git or an agent run something. Pushes that change them are refused
// unless a rule allows it.
var GuardedPaths = []string{
	".github/workflows/**", ".github/actions/**", ".gitlab-ci.yml",
	"**/CODEOWNERS", "**/.gitmodules", "**/.gitattributes", "**/.lfsconfig",
	".githooks/**", ".husky/**", "**/.git/**",
}

// guarded is what a rule says about guarded paths.
type guarded struct {
	add, allow *names // their texts are patterns of doublestar
}

// Guarded returns a *Refusal if an owner may not push a change of a path, which is
// relative to the repository with slashes. Upper and lower case are the same: they
// are so for some who check the repository out.
func (p *Policy) Guarded(owner, path string) error {
	r := p.rule(owner)
	if r == nil {
		if !p.open() {
			return p.nobody(owner)
		}
		r = &Rule{}
	}
	if matchPath(r.guarded.allow.texts(), path) {
		return nil
	}
	if matchPath(r.guarded.add.texts(), path) {
		return p.refuse(r, r.guarded.add.line, "", "changes of %q are not pushed: it is among guarded_paths", path)
	}
	if !matchPath(GuardedPaths, path) {
		return nil
	}
	return &Refusal{
		File: p.fileOrNone(), Line: r.Line, Rule: r.Name,
		Reason: "changes of \"" + path + "\" are not pushed: it is guarded unless guarded_paths of a rule allow it",
	}
}

func (p *Policy) fileOrNone() string {
	if p.open() {
		return "no policy file"
	}
	return p.file
}

func (n *names) texts() []string {
	if n == nil {
		return nil
	}
	out := make([]string, len(n.list))
	for i, g := range n.list {
		out[i] = g.text
	}
	return out
}

func matchPath(patterns []string, path string) bool {
	path = strings.ToLower(strings.TrimPrefix(path, "./"))
	for _, pattern := range patterns {
		if ok, _ := doublestar.Match(strings.ToLower(pattern), path); ok {
			return true
		}
	}
	return false
}

// checkPattern returns an error if s is no pattern of a path.
func checkPattern(s string) error {
	if s == "" || strings.HasPrefix(s, "/") || !doublestar.ValidatePattern(s) {
		return errors.New(`want a path in the repository such as "deploy/**", without a slash at its beginning`)
	}
	return nil
}
