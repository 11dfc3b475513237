package git

import (
	"regexp"
	"strings"
)

// said is the one table that turns git's and the servers' words (LC_ALL=C) into
// kinds. The first match counts, so the narrow ones stand first. Where git has a
// form for programs, as push --porcelain, that is read before.
var said = []struct {
	re   *regexp.Regexp
	kind error
	hint string // what to do; empty is git's own words
}{
	{re(`No space left on device|Disk quota exceeded`), ErrNoSpace, "the sandbox's disk is full"},
	{re(`SAML SSO|SAML enforcement`), ErrForbidden, "the organisation wants the token authorised for its single sign-on"},
	{re(`refusing to allow .* to create or update workflow`), ErrForbidden, "the credential lacks the permission to change workflows"},
	{re(`exceeds GitHub's file size limit|exceeds the maximum|pack exceeds maximum allowed size|[Rr]equest [Ee]ntity [Tt]oo [Ll]arge|error: 413`), ErrTooLarge, ""},
	{re(`returned error: 429|[Rr]ate limit|secondary rate`), ErrRateLimited, "the server asks to slow down"},
	{re(`could not read (Username|Password) for`), ErrAuth, "the server wants a credential, and there is none for it: it may be another server than the credential's, or the repository is private"},
	{re(`Authentication failed for|returned error: 401|Invalid username or (password|token)|HTTP Basic: Access denied|Support for password authentication was removed`), ErrAuth, "the server does not take the credential: it may be revoked, expired, or for another repository"},
	{re(`Permission denied \(|Load key .*: (invalid format|error in libcrypto)|Too many authentication failures`), ErrAuth, "the server does not take the key"},
	{re(`Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No .* host key is known for`), ErrAuth, "the server's host key is not the pinned one: check known_hosts of the credential"},
	{re(`CONNECT tunnel failed, response 403|Received HTTP code 403 from proxy`), ErrForbidden, "the sandbox's network rules do not let it reach the server"},
	{re(`Write access to repository not granted|[Pp]ermission to \S+ denied|returned error: 403|key .* read only|not allowed to push|deploy key is read-only`), ErrForbidden, "the credential may not do this to the repository: it lacks the permission to write, or is for another"},
	{re(`[Rr]epository not found|repository '.*' not found|does not appear to be a git repository|returned error: 404`), ErrNotFound, "the repository is not there, or hidden from this credential"},
	{re(`couldn't find remote ref|Remote branch .* not found|not our ref|unadvertised object|no such ref`), ErrNotFound, "the ref is not in the repository"},
	{re(`transport '.*' not allowed|filtering not recognized|unknown (object format|repository extension)|Expected git repo version|does not support|dumb http transport`), ErrUnsupported, ""},
	{re(`Could not resolve host|Connection refused|Connection timed out|Connection reset|Failed to connect|Operation too slow|early EOF|unexpected disconnect|remote end hung up|RPC failed|returned error: 5\d\d|Network is unreachable|SSL_|GnuTLS|gnutls_handshake|server certificate|Could not read from remote repository|kex_exchange_identification|Operation timed out|Empty reply from server|bad line length|protocol error|CONNECT tunnel failed|HTTP code \d+ from proxy|Proxy CONNECT aborted`), ErrUnavailable, ""},
	{re(`not a git repository|bad object|unable to read|invalid object|object file .* is empty|bad config|index file (corrupt|smaller)|loose object .* corrupt|bad tree|invalid path '`), ErrBroken, ""},
}

func re(s string) *regexp.Regexp { return regexp.MustCompile(s) }

// classify makes an error of a script that failed. text is git's standard error
// without its progress.
func classify(op string, code int, text string) *Error {
	e := &Error{Op: op, Code: code, Message: excerpt(text)}
	switch code {
	case exitNoGit, exitUnsupported:
		e.Kind = ErrUnsupported
	case exitBroken, exitUnsound:
		e.Kind = ErrBroken
		if strings.Contains(text, "No space left on device") {
			e.Kind = ErrNoSpace
		}
	case exitExists:
		e.Kind = ErrExists
	case exitNotFound:
		e.Kind = ErrNotFound
	case exitConflict:
		e.Kind = ErrConflict
	case exitTooLarge:
		e.Kind = ErrTooLarge
	case exitOverruled:
		e.Kind = ErrOverruled
	default:
		for _, s := range said {
			if !s.re.MatchString(text) {
				continue
			}
			e.Kind = s.kind
			if s.hint != "" {
				e.Message = s.hint + " (" + e.Message + ")"
			}
			break
		}
	}
	return e
}

const maxExcerpt = 1000

// excerpt keeps the lines that say what went wrong: those of the server and those
// that git marks; all if there are none.
func excerpt(text string) string {
	var marked, all []string
	for _, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(printable(l))
		switch {
		case l == "" || l == "remote:" || strings.HasPrefix(l, "hint:"):
		case strings.HasPrefix(l, "remote:") || strings.HasPrefix(l, "fatal:") || strings.HasPrefix(l, "error:") || strings.HasPrefix(l, "ERROR:") || strings.HasPrefix(l, "ssh:"):
			marked = append(marked, l)
			all = append(all, l)
		default:
			all = append(all, l)
		}
	}
	if len(marked) == 0 {
		marked = all
	}
	return clip(strings.Join(marked, "; "), maxExcerpt)
}

// printable takes out control characters: the words come from a server, and are
// shown on terminals.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\uFFFD' {
			return -1
		}
		return r
	}, s)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 { // not within a character
		n--
	}
	return s[:n] + "…"
}

// remoteWords are the server's own lines of a text.
func remoteWords(text string) string {
	var out []string
	for _, l := range strings.Split(text, "\n") {
		if w, ok := strings.CutPrefix(l, "remote:"); ok {
			if w = strings.TrimSpace(printable(w)); w != "" {
				out = append(out, w)
			}
		}
	}
	return clip(strings.Join(out, "\n"), maxExcerpt)
}
