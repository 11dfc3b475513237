package e2b_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/stack"
)

// kinds are all kinds of failure; an error has exactly one.
var kinds = []error{
	e2b.ErrInvalid, e2b.ErrUnauthorized, e2b.ErrForbidden, e2b.ErrNotFound, e2b.ErrExists, e2b.ErrConflict,
	e2b.ErrQuota, e2b.ErrRateLimited, e2b.ErrUnavailable, e2b.ErrSandboxGone, e2b.ErrStalled, e2b.ErrCut,
	e2b.ErrBadAnswer, e2b.ErrRange, e2b.ErrNoSpace, e2b.ErrUnsupported,
}

func requireKind(t *testing.T, err, kind error, unknown bool) *e2b.Error {
	t.Helper()
	require.Error(t, err)
	for _, k := range kinds {
		require.Equal(t, k == kind, errors.Is(err, k), "is %q: %v", k, err)
	}
	require.Equal(t, unknown, errors.Is(err, e2b.ErrUnknown), "outcome unknown: %v", err)
	var e *e2b.Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestControlPlaneErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		status  int
		body    string
		headers []string
		kind    error
		unknown bool
	}{
		{"bad field", 400, `{"code":400,"message":"Timeout must be greater than 0"}`, nil, e2b.ErrInvalid, false},
		{"bad request of a proxy", 400, `<html>400</html>`, nil, e2b.ErrBadAnswer, false},
		{"wrong key", 401, `{"code":401,"message":"Invalid API key"}`, nil, e2b.ErrUnauthorized, false},
		{"wrong key, no body", 401, ``, nil, e2b.ErrUnauthorized, false},
		{"blocked team", 403, `{"code":403,"message":"team is blocked"}`, nil, e2b.ErrForbidden, false},
		{"unknown template", 404, `{"code":404,"message":"template 'x' not found"}`, nil, e2b.ErrNotFound, false},
		{"404 of a proxy", 404, `<html>not here</html>`, nil, e2b.ErrBadAnswer, false},
		{"404 without a body", 404, ``, nil, e2b.ErrBadAnswer, false},
		{"404 whose body says something else", 404, `{"code":500,"message":"x"}`, nil, e2b.ErrBadAnswer, false},
		{"in transition", 409, `{"code":409,"message":"cannot be paused while in 'pausing' state"}`, nil, e2b.ErrConflict, false},
		{"quota", 429, `{"code":429,"message":"you have reached the maximum number of concurrent E2B sandboxes (20)"}`, nil, e2b.ErrQuota, false},
		{"rate", 429, `{"code":429,"message":"Rate limit exceeded"}`, []string{"Retry-After", "7"}, e2b.ErrRateLimited, false},
		{"rate by its other headers", 429, `{"code":429,"message":"Rate limit exceeded"}`, []string{"RateLimit-Limit", "10", "RateLimit-Reset", "7"}, e2b.ErrRateLimited, false},
		{"server fault", 500, `{"code":500,"message":"x","error_code":"sandbox_create_failed"}`, nil, e2b.ErrUnavailable, true},
		{"gateway", 502, `<html>bad gateway</html>`, nil, e2b.ErrUnavailable, true},
		{"no capacity", 503, `{"code":503,"message":"x","error_code":"sandbox_capacity_unavailable"}`, nil, e2b.ErrUnavailable, false},
		{"503 of a proxy", 503, `upstream connect error`, nil, e2b.ErrUnavailable, true},
		{"placement timed out", 504, `{"code":504,"message":"x","error_code":"sandbox_placement_timeout"}`, nil, e2b.ErrUnavailable, true},
		{"redirect", 302, ``, []string{"Location", "http://127.0.0.1:1/"}, e2b.ErrBadAnswer, false},
		{"unexpected success", 202, `{}`, nil, e2b.ErrBadAnswer, false},
		{"created, but unreadable", 201, `{"sandboxID":"i1`, nil, e2b.ErrBadAnswer, true},
		{"created, but what", 201, `{}`, nil, e2b.ErrBadAnswer, true},
		{"created, but null", 201, `null`, nil, e2b.ErrBadAnswer, true},
		{"created, with an id that is a path", 201, `{"sandboxID":"../teams","templateID":"b","clientID":"c","envdVersion":"0"}`, nil, e2b.ErrBadAnswer, true},
		{"created, with a field of another type", 201, `{"sandboxID":["i1"]}`, nil, e2b.ErrBadAnswer, true},
		{"created, without a bound", 201, `{"sandboxID":"` + strings.Repeat("a", 9<<20) + `"}`, nil, e2b.ErrBadAnswer, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := cloud(t, always(tt.status, tt.body, append(tt.headers, "X-Request-Id", "req-1")...))
			_, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base"})
			e := requireKind(t, err, tt.kind, tt.unknown)
			require.Equal(t, tt.status, e.Status)
			require.Equal(t, "create", e.Op)
			require.Equal(t, "req-1", e.RequestID)
		})
	}
}

func TestErrorCarriesCodeAndWait(t *testing.T) {
	t.Parallel()
	inHalfAMinute := time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)
	for _, tt := range []struct {
		header   string
		min, max time.Duration
	}{
		{"3", 3 * time.Second, 3 * time.Second},
		{"0", time.Second, time.Second},
		{"soon", time.Second, time.Second},
		{"-4", time.Second, time.Second},
		{"99999999999999999999999", time.Second, time.Second},
		{"18446744073709551615", time.Hour, time.Hour},
		{inHalfAMinute, 2 * time.Second, 31 * time.Second},
	} {
		c := cloud(t, always(429, `{"code":429,"message":"slow","error_code":"rate"}`, "Retry-After", tt.header))
		err := c.Ping(t.Context())
		e := requireKind(t, err, e2b.ErrRateLimited, false)
		require.Equal(t, "rate", e.Code)
		require.GreaterOrEqual(t, e.RetryAfter, tt.min, tt.header)
		require.LessOrEqual(t, e.RetryAfter, tt.max, tt.header)
	}
}

func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	c := cloud(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 401, `{"code":401,"message":"bad key `+r.Header.Get("X-Api-Key")+r.Header.Get("X-Access-Token")+`\u0007\nline"}`)
	})
	_, err := c.Get(t.Context(), testID)
	requireKind(t, err, e2b.ErrUnauthorized, false)
	require.NotContains(t, err.Error(), testKey)
	require.Contains(t, err.Error(), "bad key [redacted]  line")

	box := c.Open(ref())
	_, _, err = box.Open(t.Context(), "/f", 0)
	requireKind(t, err, e2b.ErrUnauthorized, false)
	require.NotContains(t, err.Error(), testToken)
	_, err = box.Stat(t.Context(), "/f")
	requireKind(t, err, e2b.ErrUnauthorized, false)
	require.NotContains(t, err.Error(), testToken)
	err = box.Command("true").Run(t.Context())
	requireKind(t, err, e2b.ErrUnauthorized, false)
	require.NotContains(t, err.Error(), testToken)
}

func TestRedirectCarriesNoKey(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	c := cloud(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stolen" {
			got <- r.Header.Get("X-Api-Key")
			return
		}
		http.Redirect(w, r, "/stolen", http.StatusTemporaryRedirect)
	}, func(cfg *e2b.Config) { cfg.HTTPClient = &http.Client{Transport: new(http.Transport)} })
	requireKind(t, c.Ping(t.Context()), e2b.ErrBadAnswer, false)
	require.Empty(t, got)
}

func TestTransportErrors(t *testing.T) {
	t.Parallel()
	t.Run("connection refused: nothing was sent", func(t *testing.T) {
		t.Parallel()
		addr, err := stack.FreeAddr()
		require.NoError(t, err)
		c := client(t, func(cfg *e2b.Config) { cfg.APIURL = "http://" + addr })
		_, err = c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base"})
		requireKind(t, err, e2b.ErrUnavailable, false)
	})
	t.Run("answer lost: the outcome is unknown", func(t *testing.T) {
		t.Parallel()
		calls := make(chan struct{}, 8)
		c := cloud(t, func(http.ResponseWriter, *http.Request) {
			calls <- struct{}{}
			panic(http.ErrAbortHandler)
		})
		_, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base"})
		requireKind(t, err, e2b.ErrUnavailable, true)
		require.Len(t, calls, 1, "a create is sent once")
	})
	t.Run("no answer in time", func(t *testing.T) {
		t.Parallel()
		c := cloud(t, hang, timeouts(soon))
		_, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base"})
		requireKind(t, err, e2b.ErrUnavailable, true)
		require.ErrorContains(t, err, "no answer within 1s")
	})
	t.Run("half an answer", func(t *testing.T) {
		t.Parallel()
		c := cloud(t, func(w http.ResponseWriter, r *http.Request) {
			answer(w, 201, `{"sandboxID":`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		_, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base"})
		requireKind(t, err, e2b.ErrCut, true)
	})
	t.Run("the caller's own end has no kind", func(t *testing.T) {
		t.Parallel()
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		c := cloud(t, func(w http.ResponseWriter, r *http.Request) {
			cancel(why)
			hang(w, r)
		})
		_, err := c.Get(ctx, testID)
		requireKind(t, err, nil, true)
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("the caller's own deadline has no kind", func(t *testing.T) {
		t.Parallel()
		c := cloud(t, hang)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		_, err := c.Get(ctx, testID)
		requireKind(t, err, nil, true)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("no key", func(t *testing.T) {
		t.Parallel()
		c := client(t, func(cfg *e2b.Config) { cfg.APIKey = func() (string, error) { return " \n", nil } })
		requireKind(t, c.Ping(t.Context()), nil, false)
	})
}

// hang reads the request and never answers.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the server notices the client's end only then
	<-r.Context().Done()
}

// endless is a body that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

func (e *endless) Close() error { return nil }

func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	for status, most := range map[int]int{201: 9 << 20, 500: 128 << 10} {
		body := new(endless)
		c := client(t, func(c *e2b.Config) {
			c.HTTPClient = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Body: body, Header: http.Header{}, ContentLength: -1}, nil
			})}
		})
		_, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base"})
		require.ErrorIs(t, err, e2b.ErrUnknown)
		require.Less(t, body.read, most)
	}
}

func TestErrorSpeaksFS(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, &e2b.Error{Kind: e2b.ErrNotFound}, fs.ErrNotExist)
	require.ErrorIs(t, &e2b.Error{Kind: e2b.ErrExists}, fs.ErrExist)
	require.ErrorIs(t, &e2b.Error{Kind: e2b.ErrForbidden}, fs.ErrPermission)
	require.NotErrorIs(t, &e2b.Error{}, fs.ErrNotExist)
}
