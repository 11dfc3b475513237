package github_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/git/github"
	"github.com/sandjet/sandjet/internal/git/local"
)

func (h *hub) want() git.Pull {
	return git.Pull{
		Remote: h.remote(), Head: "task-j1", Base: "main", Title: "feat: it", Body: git.Body(git.BodyParts{Text: "why", Task: "j1", Session: "s1"}),
		Draft: true, Labels: []string{"agent", "bug fix"}, Reviewers: []string{"ada", "acme/core"}, Task: "j1",
	}
}

func TestEnsureOpensOnce(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	f, p := h.forge(pat("pat")), h.want()
	got, err := f.Ensure(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, git.Pulled{Number: 1, URL: "https://github.com/acme/app/pull/1", State: "open", Draft: true}, got)
	require.Equal(t, true, h.Pulls[0]["draft"])
	require.Equal(t, p.Body, h.Pulls[0]["body"])
	require.Len(t, h.Pulls[0]["labels"], 2)
	require.Len(t, h.Pulls[0]["requested_reviewers"], 1)
	require.Equal(t, []any{"core"}, h.Pulls[0]["asked_teams"])

	// Again, as after a crash before the record; and with a new text.
	p.Body = git.Body(git.BodyParts{Text: "better", Task: "j1"})
	got, err = f.Ensure(t.Context(), p)
	require.NoError(t, err)
	require.True(t, got.Adopted)
	require.Equal(t, 1, got.Number)
	require.Equal(t, p.Body, h.Pulls[0]["body"])
	require.Len(t, h.Pulls[0]["labels"], 2)
	require.Len(t, h.Pulls, 1)
	require.Equal(t, 1, h.calls("^POST .*/pulls$"))
	require.Equal(t, 1, h.calls("^POST .*/labels$"), "labels that are there are not set again")
}

func TestEnsureDefaultBase(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	p := h.want()
	p.Base = ""
	_, err := h.forge(pat("pat")).Ensure(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, "main", h.Pulls[0]["base"].(map[string]any)["ref"])
}

// What is found for a branch, and what is made of it.
func TestEnsureAdopts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(p map[string]any)
		number  int
		state   string
		touched bool
	}{
		"somebody's, open":        {func(p map[string]any) { p["body"] = "by hand" }, 1, "open", false},
		"somebody's, closed":      {func(p map[string]any) { p["body"], p["state"] = "by hand", "closed" }, 2, "open", false},
		"ours, closed":            {func(p map[string]any) { p["state"] = "closed" }, 1, "closed", false},
		"ours, merged":            {func(p map[string]any) { p["state"], p["merged_at"] = "closed", "2026-01-02T03:04:05Z" }, 1, "merged", false},
		"ours, into another base": {func(p map[string]any) { p["base"].(map[string]any)["ref"] = "next" }, 1, "open", true},
		"somebody's, other base":  {func(p map[string]any) { p["base"].(map[string]any)["ref"], p["body"] = "next", "by hand" }, 2, "open", false},
		"of a fork": {func(p map[string]any) {
			p["head"].(map[string]any)["repo"].(map[string]any)["id"] = 8.0
			p["state"] = "closed"
		}, 2, "open", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			f, p := h.forge(pat("pat")), h.want()
			_, err := f.Ensure(t.Context(), p)
			require.NoError(t, err)
			tt.change(h.Pulls[0])
			p.Title = "feat: another title"
			got, err := f.Ensure(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, tt.number, got.Number)
			require.Equal(t, tt.state, got.State)
			require.Equal(t, tt.number == 1, got.Adopted)
			require.Equal(t, tt.touched, h.Pulls[0]["title"] == p.Title, "only what is the job's own is changed")
		})
	}
}

// Ten workers that all believe the job is theirs make one pull request.
func TestEnsureRace(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	f := h.forge(pat("pat"))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			got, err := f.Ensure(t.Context(), h.want())
			if err != nil || got.Number != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, h.Pulls, 1)
}

func TestEnsureLostAnswer(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.Override = func(method, path string, n int) *local.Answer {
		if method == "POST" && strings.HasSuffix(path, "/pulls") {
			return &local.Answer{Drop: true}
		}
		return nil
	}
	got, err := h.forge(pat("pat")).Ensure(t.Context(), h.want())
	require.NoError(t, err)
	require.Equal(t, 1, got.Number)
	require.True(t, got.Adopted)
	require.Len(t, h.Pulls, 1)
}

func TestEnsureUnusual(t *testing.T) {
	t.Parallel()
	creates := func(a *local.Answer) func(string, string, int) *local.Answer {
		return func(method, path string, n int) *local.Answer {
			if method == "POST" && strings.HasSuffix(path, "/pulls") && n == 1 {
				return a
			}
			return nil
		}
	}
	t.Run("nothing to merge", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		h.Override = creates(local.Refusal(422, "Validation Failed", "No commits between main and task-j1"))
		got, err := h.forge(pat("pat")).Ensure(t.Context(), h.want())
		require.NoError(t, err)
		require.Zero(t, got)
	})
	t.Run("no drafts", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		h.Override = creates(local.Refusal(422, "Draft pull requests are not supported in this repository."))
		got, err := h.forge(pat("pat")).Ensure(t.Context(), h.want())
		require.NoError(t, err)
		require.False(t, got.Draft)
		require.Len(t, got.Warnings, 1)
	})
	t.Run("no such base", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		a := local.Refusal(422, "Validation Failed")
		a.Body.(map[string]any)["errors"] = []any{map[string]any{"resource": "PullRequest", "field": "base", "code": "invalid"}}
		h.Override = creates(a)
		_, err := h.forge(pat("pat")).Ensure(t.Context(), h.want())
		require.ErrorIs(t, err, git.ErrNotFound)
		require.ErrorContains(t, err, "/repo/pull_request/base")
	})
	t.Run("unknown reviewer", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		p := h.want()
		p.Reviewers = []string{"nobody", "ada", "acme/core", "SANDJET[bot]"}
		got, err := h.forge(pat("pat")).Ensure(t.Context(), p)
		require.NoError(t, err)
		require.Len(t, got.Warnings, 1)
		require.Contains(t, got.Warnings[0], "nobody")
		require.Len(t, h.Pulls[0]["requested_reviewers"], 1)
	})
	t.Run("labels not permitted", func(t *testing.T) {
		t.Parallel()
		h := newHub(t)
		h.Override = func(_, path string, _ int) *local.Answer {
			if strings.HasSuffix(path, "/labels") {
				return local.Refusal(404, "Not Found")
			}
			return nil
		}
		got, err := h.forge(pat("pat")).Ensure(t.Context(), h.want())
		require.NoError(t, err)
		require.Equal(t, 1, got.Number)
		require.Len(t, got.Warnings, 1)
	})
}

func TestEnsureErrors(t *testing.T) {
	t.Parallel()
	reset := strconv.FormatInt(time.Now().Add(20*time.Minute).Unix(), 10)
	with := func(a *local.Answer, header ...string) *local.Answer {
		a.Header = map[string]string{}
		for i := 0; i < len(header); i += 2 {
			a.Header[header[i]] = header[i+1]
		}
		return a
	}
	slow := local.Refusal(403, "You have exceeded a secondary rate limit.")
	slow.Body.(map[string]any)["documentation_url"] = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
	tests := map[string]struct {
		a        *local.Answer
		kind     error
		class    string
		words    string
		min, max time.Duration
	}{
		"primary limit":         {with(local.Refusal(403, "API rate limit exceeded"), "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset), git.ErrRateLimited, "rate", "hourly limit", 15 * time.Minute, 21 * time.Minute},
		"primary limit, 429":    {with(local.Refusal(429, "API rate limit exceeded"), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset), git.ErrRateLimited, "rate", "hourly limit", 15 * time.Minute, 21 * time.Minute},
		"secondary, with time":  {with(local.Refusal(403, "You have exceeded a secondary rate limit"), "Retry-After", "90"), git.ErrRateLimited, "rate", "slow down", 90 * time.Second, 90 * time.Second},
		"secondary, by its doc": {slow, git.ErrRateLimited, "rate", "slow down", time.Minute, time.Minute},
		"429 alone":             {local.Refusal(429, "Too many"), git.ErrRateLimited, "rate", "slow down", time.Minute, time.Minute},
		"revoked":               {local.Refusal(401, "Bad credentials"), git.ErrAuth, "git_auth", "revoked", 0, 0},
		"single sign-on":        {with(local.Refusal(403, "Resource protected by organization SAML enforcement."), "X-GitHub-SSO", "required; url=https://github.com/orgs/acme/sso?authorization_request=AB"), git.ErrForbidden, "forbidden", "https://github.com/orgs/acme/sso?authorization_request=AB", 0, 0},
		"missing permission":    {with(local.Refusal(403, "Resource not accessible by personal access token"), "X-Accepted-GitHub-Permissions", "pull_requests=write"), git.ErrForbidden, "forbidden", "needs pull_requests=write", 0, 0},
		"no repository":         {local.Refusal(404, "Not Found"), git.ErrNotFound, "not_found", "hidden", 0, 0},
		"refused":               {local.Refusal(422, "Validation Failed", "Something\x1b[31m new"), git.ErrInvalid, "invalid", "Something [31m new", 0, 0},
		"broken":                {local.Refusal(503, "Service unavailable"), git.ErrUnavailable, "unavailable", "Service Unavailable", 0, 0},
		"not JSON":              {&local.Answer{Status: 502, Body: "<html>"}, git.ErrUnavailable, "unavailable", "Bad Gateway", 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			h.Override = func(string, string, int) *local.Answer { return tt.a }
			_, err := h.forge(pat("pat")).Ensure(t.Context(), h.want())
			require.ErrorIs(t, err, tt.kind)
			var e *git.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tt.class, e.Class())
			require.Contains(t, err.Error(), tt.words)
			require.GreaterOrEqual(t, e.RetryAfter, tt.min)
			require.LessOrEqual(t, e.RetryAfter, tt.max)
			require.Len(t, h.Asked, 1, "whoever is refused does not insist")
		})
	}
}

func TestEnsureUnreachable(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.stop()
	_, err := h.forge(pat("pat")).Ensure(t.Context(), h.want())
	require.ErrorIs(t, err, git.ErrUnavailable)
	require.NotContains(t, err.Error(), "Bearer")
}

func TestServes(t *testing.T) {
	t.Parallel()
	for api, hosts := range map[string]map[string]bool{
		"":                               {"https://github.com/a/b": true, "git@github.com:a/b.git": true, "ssh://git@ssh.github.com:443/a/b": true, "https://gitlab.com/a/b": false, "https://github.com/a/b/c": false, "https://api.github.com/a/b": false},
		"https://api.github.com":         {"https://github.com/a/b": true},
		"https://ghe.example.com/api/v3": {"https://ghe.example.com/a/b": true, "https://github.com/a/b": false},
		"https://api.acme.ghe.com":       {"https://acme.ghe.com/a/b": true},
	} {
		f, err := github.New(github.Config{API: api, Tokens: pat("x")})
		require.NoError(t, err)
		for u, want := range hosts {
			r, err := git.ParseURL(u)
			require.NoError(t, err)
			require.Equal(t, want, f.Serves(r), "%s of %s", u, api)
		}
	}
	for _, bad := range []string{"ghe", "ftp://x/", "https://u:secret@ghe/"} {
		_, err := github.New(github.Config{API: bad, Tokens: pat("x")})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestApp(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	app, err := github.NewApp(99, appKey(), h.url, nil)
	require.NoError(t, err)
	f := h.forge(app)
	got, err := f.Ensure(t.Context(), h.want())
	require.NoError(t, err)
	require.Equal(t, 1, got.Number)
	require.Equal(t, 1, h.Minted)
	require.JSONEq(t, `{"repositories":["app"],"permissions":{"metadata":"read","contents":"write","pull_requests":"write"}}`, h.Bodies[1])

	_, err = f.Ensure(t.Context(), h.want())
	require.NoError(t, err)
	require.Equal(t, 1, h.Minted, "a token is used again")
	c, err := f.Credential(t.Context(), h.remote(), github.Read)
	require.NoError(t, err)
	require.Equal(t, git.Credential{Username: "x-access-token", Password: "ghs_minted2"}, c, "but not for another access")
	require.JSONEq(t, `{"repositories":["app"],"permissions":{"metadata":"read","contents":"read"}}`, h.Bodies[len(h.Bodies)-1])

	// Revoked in the middle: another is minted, once.
	h.Tokens["ghs_minted1"] = time.Time{}
	_, err = f.Ensure(t.Context(), h.want())
	require.NoError(t, err)
	require.Equal(t, 3, h.Minted)
	h.Override = func(_, path string, _ int) *local.Answer {
		if strings.Contains(path, "/pulls") {
			return local.Refusal(http.StatusUnauthorized, "Bad credentials")
		}
		return nil
	}
	_, err = f.Ensure(t.Context(), h.want())
	require.ErrorIs(t, err, git.ErrAuth)
	require.Equal(t, 4, h.Minted)
}

func TestAppRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path  string
		a     *local.Answer
		kind  error
		words string
	}{
		"not installed":    {"/installation", local.Refusal(404, "Not Found"), git.ErrNotFound, "install it there"},
		"less permissions": {"/access_tokens", local.Refusal(422, "The permissions requested are not granted to this installation."), git.ErrForbidden, "pull_requests: write"},
		"wrong key":        {"/installation", local.Refusal(401, "A JSON web token could not be decoded"), git.ErrAuth, "token"},
		"suspended":        {"/access_tokens", local.Refusal(403, "This installation has been suspended"), git.ErrForbidden, "App's settings"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			h.Override = func(_, path string, _ int) *local.Answer {
				if strings.HasSuffix(path, tt.path) {
					return tt.a
				}
				return nil
			}
			app, err := github.NewApp(99, appKey(), h.url, nil)
			require.NoError(t, err)
			_, err = h.forge(app).Ensure(t.Context(), h.want())
			require.ErrorIs(t, err, tt.kind)
			require.ErrorContains(t, err, tt.words)
		})
	}
	_, err := github.NewApp(99, []byte("secret, not a key"), "", nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
