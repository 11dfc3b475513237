package git

import (
	"errors"
	"regexp"
	"strings"
)

const maxRef = 255

var shaRegexp = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// IsCommitID reports whether s is a whole commit id (SHA-1 or SHA-256).
func IsCommitID(s string) bool { return shaRegexp.MatchString(s) }

// CheckBranch returns what keeps s from being the name of a branch: git's own
// rules (git check-ref-format --branch), and beyond them nothing that reads as an
// option, a pseudo ref or a commit id.
func CheckBranch(s string) error {
	if err := checkRef(s); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(s, "refs/"):
		return errors.New(`want the short name, without "refs/heads/"`)
	case s == "HEAD" || strings.HasSuffix(s, "_HEAD"):
		return errors.New("git uses this name itself")
	case IsCommitID(s):
		return errors.New("a commit id is not a name for a branch")
	}
	return nil
}

// checkRefArg checks what to clone: a branch, a tag, a whole ref name or a commit.
func checkRefArg(s string) error {
	if err := checkRef(s); err != nil {
		return err
	}
	if strings.HasPrefix(s, "refs/") && !strings.HasPrefix(s, "refs/heads/") && !strings.HasPrefix(s, "refs/tags/") {
		return errors.New("want a branch, a tag or a commit")
	}
	return nil
}

// checkRef is git check-ref-format, with one level allowed.
func checkRef(s string) error {
	switch {
	case s == "":
		return errors.New("empty")
	case len(s) > maxRef:
		return errors.New("longer than 255 bytes")
	case strings.HasPrefix(s, "-"):
		return errors.New("begins with a dash: that reads as an option")
	case s == "@" || strings.Contains(s, "@{"):
		return errors.New(`"@" and "@{" mean something else to git`)
	case strings.Contains(s, ".."):
		return errors.New(`holds ".."`)
	case strings.HasSuffix(s, "."):
		return errors.New("ends with a dot")
	}
	for _, r := range s {
		if r <= ' ' || r == 0x7f || r == '\uFFFD' || strings.ContainsRune(`~^:?*[\`, r) {
			return errors.New(`holds a blank, a control character or one of ~ ^ : ? * [ \`)
		}
	}
	for _, part := range strings.Split(s, "/") {
		switch {
		case part == "":
			return errors.New("holds an empty part: a slash at an end, or two in a row")
		case strings.HasPrefix(part, "."):
			return errors.New("a part begins with a dot")
		case strings.HasSuffix(part, ".lock"):
			return errors.New(`a part ends with ".lock"`)
		case strings.HasPrefix(part, "-"):
			return errors.New("a part begins with a dash")
		}
	}
	return nil
}
