package e2b

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DefaultDomain is where E2B's cloud is.
const DefaultDomain = "e2b.app"

// EnvdPort is the port of a sandbox where envd listens.
const EnvdPort = "49983"

// sharedDomains serve all sandboxes under one host and route by header.
var sharedDomains = []string{"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"}

// Config says where E2B is and how to speak to it. Empty strings count as not
// given.
type Config struct {
	// APIKey returns the key of the control plane. It is asked on each call, so
	// that a rotated key is used at once. Required.
	APIKey func() (string, error)
	// APIURL is the control plane; default https://api.<Domain>.
	APIURL string
	// SandboxURL is the data plane of every sandbox; default by Domain.
	SandboxURL string
	// Domain is the base domain; default e2b.app.
	Domain string
	// HTTPClient replaces the transports of this package. Its Timeout is not
	// used, since it would cut streams, and redirects are never followed.
	HTTPClient *http.Client
	// UserAgent is sent with each request; default "sandjet".
	UserAgent string
	// Observe is told of each request when its answer is there (of a stream:
	// when its process has started). It must be quick and safe for concurrent
	// use.
	Observe func(Call)
	// Admit may hold calls back, such as while E2B does not answer; nil lets all
	// of them go.
	Admit Admit
	// Timeouts bound the calls of the control plane.
	Timeouts Timeouts
}

// Timeouts bound the calls of the control plane. A zero field is its default.
// They are this side's patience only and are not sent.
type Timeouts struct {
	Read   time.Duration // get, list, metrics, ping; default 30 s
	Create time.Duration // create, connect; default 90 s
	Pause  time.Duration // default 120 s: about 4 s for each GiB of memory
	Change time.Duration // kill, set timeout; default 30 s
	Box    time.Duration // one small call to envd: stat, signal, ...; default 30 s
	Idle   time.Duration // longest silence inside a file transfer; default 60 s
}

func (t Timeouts) withDefaults() Timeouts {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&t.Read, 30*time.Second)
	or(&t.Create, 90*time.Second)
	or(&t.Pause, 120*time.Second)
	or(&t.Change, 30*time.Second)
	or(&t.Box, 30*time.Second)
	or(&t.Idle, 60*time.Second)
	return t
}

// Call is one request, as Observe sees it.
type Call struct {
	Op       string // as in Error.Op
	Status   int    // HTTP status; 0 if there was no answer
	Err      error  // nil if it went well
	Duration time.Duration
}

func (c Config) check() (Config, error) {
	if c.APIKey == nil {
		return c, errors.New("e2b: no API key source")
	}
	if c.Domain == "" {
		c.Domain = DefaultDomain
	}
	if !validDomain(c.Domain) {
		return c, fmt.Errorf("e2b: domain %q is not a host name", c.Domain)
	}
	if c.APIURL == "" {
		c.APIURL = "https://api." + c.Domain
	}
	var err error
	if c.APIURL, err = baseURL(c.APIURL); err != nil {
		return c, fmt.Errorf("e2b: API URL: %w", err)
	}
	if c.SandboxURL != "" {
		if c.SandboxURL, err = baseURL(c.SandboxURL); err != nil {
			return c, fmt.Errorf("e2b: sandbox URL: %w", err)
		}
	}
	if c.UserAgent == "" {
		c.UserAgent = "sandjet"
	}
	c.Timeouts = c.Timeouts.withDefaults()
	return c, nil
}

// baseURL checks a configured address. A value is not echoed: it may hold a
// password.
func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", errors.New("not a URL: want http(s)://host[:port]")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", errors.New("want http(s)://host[:port]")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", errors.New("want no user, query or fragment in it")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// boxURL returns where the data plane of one sandbox is: the configured
// address, the shared host of E2B's own domains, or a host of its own.
func (c Config) boxURL(id, domain string) (string, error) {
	if c.SandboxURL != "" {
		return c.SandboxURL, nil
	}
	if domain == "" {
		domain = c.Domain
	}
	if !validDomain(domain) {
		return "", fmt.Errorf("domain %q is not a host name", domain)
	}
	if slices.Contains(sharedDomains, domain) {
		return "https://sandbox." + domain, nil
	}
	return "https://" + EnvdPort + "-" + shortID(id) + "." + domain, nil
}

var (
	domainRegexp = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$`)
	idRegexp     = regexp.MustCompile(`^[a-z0-9]{1,64}(-[a-z0-9]{1,64})?$`)
)

func validDomain(s string) bool { return domainRegexp.MatchString(s) }

// validID reports whether s can be a sandbox's id; anything else never gets
// into a path or a header.
func validID(s string) bool { return idRegexp.MatchString(s) }

// shortID drops the client id that older ids end in.
func shortID(id string) string {
	short, _, _ := strings.Cut(id, "-")
	return short
}
