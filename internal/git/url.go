package git

import (
	"errors"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Remote is a repository's address without a password.
type Remote struct {
	URL    string // as git takes it
	Scheme string // "https", "http" (loopback only) or "ssh"
	User   string // of ssh; empty over https
	Host   string // with the port, if one is named; in lower case
	Path   string // without the leading slash and ".git": "acme/app"
}

const maxURL = 2048

var (
	scpRegexp  = regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._-]*)@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^:][^\s\\]*)$`)
	hostRegexp = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?$`)
	userRegexp = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// pathRegexp: what is safe for a shell on the other side, too.
	pathRegexp = regexp.MustCompile(`^[A-Za-z0-9._~/@+%-]+$`)
)

// errURL names no part of the address: what is refused may be a password.
var errURL = errors.New("want https://host/path, ssh://user@host/path or user@host:path, without a password, query or fragment")

// ParseURL reads an address of the forms https://host/path, ssh://user@host/path
// and user@host:path. Everything else that git would take is refused: file:, git:
// and ext:: reach what a job may not, and a password in an address ends up in logs.
// http is taken for a loopback host, where nobody listens in between.
//
// The error never repeats the address.
func ParseURL(s string) (Remote, error) {
	if s == "" || len(s) > maxURL || strings.HasPrefix(s, "-") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return Remote{}, errURL
	}
	if strings.Contains(s, "://") {
		return parseSchemed(s)
	}
	m := scpRegexp.FindStringSubmatch(s)
	if m == nil || strings.Contains(s, "::") {
		return Remote{}, errURL
	}
	p, ok := cleanPath(m[3])
	if !ok {
		return Remote{}, errURL
	}
	return Remote{URL: s, Scheme: "ssh", User: m[1], Host: strings.ToLower(m[2]), Path: p}, nil
}

func parseSchemed(s string) (Remote, error) {
	u, err := url.Parse(s)
	if err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#") || !hostRegexp.MatchString(u.Host) {
		return Remote{}, errURL
	}
	p, ok := cleanPath(strings.TrimPrefix(u.EscapedPath(), "/"))
	if !ok {
		return Remote{}, errURL
	}
	r := Remote{URL: s, Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: p}
	switch {
	case r.Scheme == "https" && u.User == nil:
		return r, nil
	case r.Scheme == "http" && u.User == nil:
		if loopback(u.Hostname()) {
			return r, nil
		}
		return Remote{}, errors.New("http sends the credential in the clear: want https")
	case r.Scheme == "ssh":
		r.User = u.User.Username()
		if _, has := u.User.Password(); has || (u.User != nil && !userRegexp.MatchString(r.User)) {
			return Remote{}, errURL
		}
		return r, nil
	}
	return Remote{}, errURL
}

func cleanPath(p string) (string, bool) {
	if p == "" || strings.HasPrefix(p, "-") || !pathRegexp.MatchString(p) {
		return "", false
	}
	p = strings.TrimPrefix(p, "/")
	for _, part := range strings.Split(p, "/") {
		if part == ".." || part == "." || strings.HasPrefix(part, "-") {
			return "", false
		}
	}
	p = strings.TrimSuffix(strings.TrimSuffix(p, "/"), ".git")
	return p, p != "" && !strings.HasSuffix(p, "/")
}

func loopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Name is the last part of the path: what a directory for the repository may be
// called.
func (r Remote) Name() string {
	n := path.Base(r.Path)
	if n == "" || n == "." || n == "/" || strings.HasPrefix(n, ".") {
		return "repo"
	}
	return n
}

// OwnerRepo splits a path of exactly two parts, as forges have them.
func (r Remote) OwnerRepo() (owner, repo string, ok bool) {
	owner, repo, ok = strings.Cut(r.Path, "/")
	return owner, repo, ok && owner != "" && repo != "" && !strings.Contains(repo, "/")
}

// Address is the repository's address for people: without what may be a credential.
func (r Remote) Address() string { return r.Scheme + "://" + r.Host + "/" + r.Path }

// Same reports whether two addresses name one repository over one protocol.
func (r Remote) Same(o Remote) bool {
	return r.Scheme == o.Scheme && r.User == o.User && r.Host == o.Host && r.Path == o.Path
}
