package git

import (
	"fmt"
	"path"
	"strings"
)

// Finding is one reason why a push is refused.
type Finding struct {
	Path   string
	Reason string
}

func (f Finding) String() string {
	if f.Path == "" {
		return f.Reason
	}
	return fmt.Sprintf("%q %s", f.Path, f.Reason)
}

// Guard says what may not be pushed. The zero value guards Guarded and sets no
// limit.
type Guard struct {
	// Paths are patterns of guarded paths: "*" is within one part, "**" any number
	// of parts. nil is Guarded. Upper and lower case count as the same.
	Paths []string
	// Allow are patterns that are not guarded after all.
	Allow []string
	// Refuse says of a path why it may not be pushed, instead of Paths and Allow; nil
	// from it is that it may.
	Refuse func(path string) error
	// AllowLinks lets symbolic links lead out of the tree.
	AllowLinks bool
	// AllowModules lets submodules be added.
	AllowModules bool
	Limits       Limits
}

// Limits bound what one push brings. 0 is no limit.
type Limits struct {
	File    int64 // bytes of one file
	Binary  int64 // bytes of one binary file
	Total   int64 // bytes of all new files
	Files   int   // paths changed
	Commits int
}

// DefaultLimits are below what GitHub refuses (100 MiB a file) and above what a
// person would review.
func DefaultLimits() Limits {
	return Limits{File: 50 << 20, Binary: 10 << 20, Total: 200 << 20, Files: 10_000, Commits: 200}
}

// Guarded are the paths that decide what others run, or who is asked.
func Guarded() []string {
	return []string{
		".github/workflows/**",
		".github/actions/**",
		"CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS",
		".gitmodules", ".lfsconfig",
		".githooks/**", ".husky/**",
	}
}

// check returns what of a history may not be pushed, each path once.
func (g Guard) check(h history) (findings []Finding, tooLarge bool) {
	paths := g.Paths
	if paths == nil {
		paths = Guarded()
	}
	seen := map[Finding]bool{}
	add := func(p, format string, args ...any) {
		if f := (Finding{Path: p, Reason: fmt.Sprintf(format, args...)}); !seen[f] {
			seen[f] = true
			findings = append(findings, f)
		}
	}
	touched := map[string]bool{}
	for _, t := range h.touches {
		touched[t.path] = true
		if g.Refuse != nil {
			if err := g.Refuse(t.path); err != nil {
				add(t.path, "%s", err)
			}
		} else if matchAny(paths, t.path) && !matchAny(g.Allow, t.path) {
			add(t.path, "is guarded: the policy would have to allow it")
		}
		if t.newMode == modeModule && t.oldMode != modeModule && !g.AllowModules {
			add(t.path, "is a git repository within the tree: remove its .git, or put it in .gitignore")
		}
		if t.newMode == modeLink && !g.AllowLinks {
			if to, ok := h.links[t.id]; !ok || leadsOut(t.path, to) {
				add(t.path, "is a link that leads out of the tree")
			}
		}
	}
	if len(findings) > 0 {
		return findings, false
	}
	l := g.Limits
	for _, t := range h.touches {
		if n := h.sizes[t.id]; l.File > 0 && n > l.File && t.newMode != modeModule {
			add(t.path, "has %d bytes: more than %d", n, l.File)
		}
	}
	for _, f := range h.Files {
		if f.Binary && l.Binary > 0 && f.Size > l.Binary {
			add(f.Path, "is binary and has %d bytes: more than %d", f.Size, l.Binary)
		}
	}
	switch {
	case l.Total > 0 && h.Bytes > l.Total:
		add("", "all together have %d bytes: more than %d", h.Bytes, l.Total)
	case l.Files > 0 && len(touched) > l.Files:
		add("", "%d paths are changed: more than %d", len(touched), l.Files)
	case l.Commits > 0 && h.Commits > l.Commits:
		add("", "there are %d commits: more than %d", h.Commits, l.Commits)
	}
	return findings, len(findings) > 0
}

// leadsOut reports whether a link at p leads out of the tree, or into git's own
// directory.
func leadsOut(p, to string) bool {
	if to == "" || strings.HasPrefix(to, "/") || len(to) >= 4096 || strings.ContainsRune(to, 0) {
		return true
	}
	at := path.Join(path.Dir(p), to)
	first, _, _ := strings.Cut(at, "/")
	return first == ".." || strings.EqualFold(first, ".git")
}

func matchAny(patterns []string, p string) bool {
	for _, pat := range patterns {
		if match(strings.Split(strings.ToLower(pat), "/"), strings.Split(strings.ToLower(p), "/")) {
			return true
		}
	}
	return false
}

// match compares part by part; "**" stands for any number of them.
func match(pat, p []string) bool {
	if len(pat) == 0 {
		return len(p) == 0
	}
	if pat[0] == "**" {
		for i := range len(p) + 1 {
			if match(pat[1:], p[i:]) {
				return true
			}
		}
		return false
	}
	if len(p) == 0 {
		return false
	}
	ok, err := path.Match(pat[0], p[0])
	return err == nil && ok && match(pat[1:], p[1:])
}
