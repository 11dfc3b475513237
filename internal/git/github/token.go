package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	gh "github.com/google/go-github/v88/github"
)

// Access is what a token is for.
type Access int

// The accesses, each with all that the one before has.
const (
	Read      Access = iota // clone
	Write                   // push
	Pulls                   // push, and open pull requests
	Workflows               // that, and change workflow files
)

// Tokens gives tokens for a repository. It may be used concurrently.
type Tokens interface {
	// Token returns a token that is good for five minutes at least. Errors are
	// *git.Error.
	Token(ctx context.Context, owner, repo string, a Access) (string, error)
	// Drop forgets a token that GitHub did not take. It reports whether another
	// one may be had.
	Drop(token string) bool
}

// Static is a personal access token, asked for anew each time: it may be
// exchanged while the worker runs.
type Static func(context.Context) (string, error)

// Token returns the token, whatever it is for: its permissions are GitHub's matter.
func (s Static) Token(ctx context.Context, _, _ string, _ Access) (string, error) {
	t, err := s(ctx)
	if err == nil && strings.TrimSpace(t) == "" {
		err = errors.New("the GitHub token is empty")
	}
	return strings.TrimSpace(t), err
}

// Drop reports that there is no other token.
func (s Static) Drop(string) bool { return false }

// beforeExpiry is how long a token must still be good for to be given away.
const beforeExpiry = 5 * time.Minute

// App mints tokens of a GitHub App.
type App struct {
	client *gh.Client
	now    func() time.Time

	mu            sync.Mutex
	installations map[string]int64
	tokens        map[scope]minted
}

type scope struct {
	owner, repo string
	access      Access
}

type minted struct {
	token   string
	expires time.Time
}

// NewApp makes an App from its id and private key in PEM form. api is the address
// of the API, empty for github.com; transport is http.DefaultTransport if nil.
func NewApp(id int64, key []byte, api string, transport http.RoundTripper) (*App, error) {
	if transport == nil {
		transport = http.DefaultTransport
	}
	jwt, err := ghinstallation.NewAppsTransport(exchange{transport}, id, key)
	if err != nil {
		return nil, errors.New("the GitHub App's key is not an RSA key in PEM form") // the cause may repeat the key
	}
	c, err := newClient(api, gh.WithTransport(jwt), gh.WithTimeout(timeout))
	if err != nil {
		return nil, err
	}
	return &App{client: c, now: time.Now, installations: map[string]int64{}, tokens: map[scope]minted{}}, nil
}

// Token returns a token for one repository with the permissions of a.
func (a *App) Token(ctx context.Context, owner, repo string, access Access) (string, error) {
	key := scope{strings.ToLower(owner), strings.ToLower(repo), access}
	a.mu.Lock()
	t, ok := a.tokens[key]
	inst, known := a.installations[key.owner]
	a.mu.Unlock()
	if ok && t.expires.Sub(a.now()) > beforeExpiry {
		return t.token, nil
	}
	if !known {
		i, _, err := a.client.Apps.GetRepositoryInstallation(ctx, owner, repo)
		if err != nil {
			e := explain("find the App's installation", err)
			if e.Code == http.StatusNotFound {
				e.Message = fmt.Sprintf("the GitHub App is not installed for %s/%s, or there is no such repository: install it there", owner, repo)
			}
			return "", e.Error
		}
		inst = i.GetID()
	}
	got, _, err := a.client.Apps.CreateInstallationToken(ctx, inst, &gh.InstallationTokenOptions{
		Repositories: []string{repo}, Permissions: permissions(access),
	})
	if err != nil {
		e := explain("mint a token", err)
		switch e.Code {
		case http.StatusNotFound:
			a.mu.Lock()
			delete(a.installations, key.owner) // installed anew, it has another number
			a.mu.Unlock()
		case http.StatusUnprocessableEntity, http.StatusForbidden:
			e.forbidden("the GitHub App may not have this repository, or not " + wants(access) + ": grant it in the App's settings, and accept it where it is installed")
		}
		return "", e.Error
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, t := range a.tokens {
		if a.now().After(t.expires) {
			delete(a.tokens, k)
		}
	}
	a.installations[key.owner] = inst
	a.tokens[key] = minted{got.GetToken(), got.GetExpiresAt().Time}
	return got.GetToken(), nil
}

// Drop forgets a token; the next one is minted.
func (a *App) Drop(token string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, t := range a.tokens {
		if t.token == token {
			delete(a.tokens, k)
			return true
		}
	}
	return false
}

// permissions are the least that an access needs.
func permissions(a Access) *gh.InstallationPermissions {
	p := &gh.InstallationPermissions{Metadata: gh.Ptr("read"), Contents: gh.Ptr("read")}
	if a >= Write {
		p.Contents = gh.Ptr("write")
	}
	if a >= Pulls {
		p.PullRequests = gh.Ptr("write")
	}
	if a >= Workflows {
		p.Workflows = gh.Ptr("write")
	}
	return p
}

func wants(a Access) string {
	return [...]string{
		Read: "contents: read", Write: "contents: write", Pulls: "contents: write and pull_requests: write",
		Workflows: "contents, pull_requests and workflows: write",
	}[a]
}

// timeout bounds one call to GitHub.
const timeout = 30 * time.Second

const defaultAPI = "https://api.github.com/"

// newClient makes a client of an API's address: empty is github.com, anything else
// a GitHub Enterprise.
func newClient(api string, opts ...gh.ClientOptionsFunc) (*gh.Client, error) {
	if api != "" && strings.TrimRight(api, "/") != strings.TrimRight(defaultAPI, "/") {
		u, err := url.Parse(api)
		if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
			return nil, errors.New("the GitHub API's address is no https address")
		}
		opts = append(opts, gh.WithEnterpriseURLs(api, api))
	}
	opts = append(opts, gh.WithUserAgent("sandjet"), gh.WithDisableRateLimitCheck())
	c, err := gh.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("github client: %w", err)
	}
	return c, nil
}
