package e2b_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

func collect(t *testing.T, c *e2b.Client, q e2b.ListQuery) (ids []string, err error) {
	t.Helper()
	for sb, err := range c.List(t.Context(), q) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, sb.SandboxID)
	}
	return ids, nil
}

func listed(id string) string { return strings.Replace(listedJSON, testID, id, 1) }

func TestListReadsAllPages(t *testing.T) {
	t.Parallel()
	c := cloud(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("nextToken") {
		case "":
			answer(w, 200, "["+listed("a1")+","+listed("a2")+"]", "X-Next-Token", "t/=1", "X-Total-Running", "5")
		case "t/=1":
			answer(w, 200, "[]", "X-Next-Token", "t2") // an empty page is not the last one
		case "t2":
			answer(w, 200, "["+listed("a3")+"]")
		}
	}, withSpec(t))
	ids, err := collect(t, c, e2b.ListQuery{})
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "a2", "a3"}, ids)

	ids, err = collect(t, c, e2b.ListQuery{NextToken: "t2"})
	require.NoError(t, err)
	require.Equal(t, []string{"a3"}, ids)

	p, err := c.ListPage(t.Context(), e2b.ListQuery{})
	require.NoError(t, err)
	require.Equal(t, "t/=1", p.Next)
	require.Equal(t, 5, p.Running)
	p, err = c.ListPage(t.Context(), e2b.ListQuery{NextToken: "t2"})
	require.NoError(t, err)
	require.Equal(t, -1, p.Running)

	for _, err := range c.List(t.Context(), e2b.ListQuery{}) {
		require.NoError(t, err)
		break // and no panic
	}
}

func TestListQuery(t *testing.T) {
	t.Parallel()
	var got url.Values
	c := cloud(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Query()
		answer(w, 200, "[]")
	}, withSpec(t))
	_, err := collect(t, c, e2b.ListQuery{
		States:   []e2b.SandboxState{e2b.StateRunning, e2b.StatePaused},
		Metadata: map[string]string{"sandjet-session": "a b+c&d=e/ü", "k&": "v"},
		Template: "base", Order: e2b.OldestFirst, Limit: 7,
		StartedAfter: time.Date(2026, 11, 20, 21, 0, 0, 5000, time.FixedZone("", 3600)),
	})
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"state": {"running,paused"}, "template": {"base"}, "order": {"asc"}, "limit": {"7"},
		"startedAfter": {"2026-11-20T20:00:00.000005Z"},
		// As the official SDK sends it, and as E2B decodes it.
		"metadata": {"k%2526=v&sandjet-session=a%2520b%252Bc%2526d%253De%252F%25C3%25BC"},
	}, got)
}

// TestListIsNeverSilentlyShort: who reads a list to kill what is not in it must
// not take an unreadable answer for an empty one.
func TestListIsNeverSilentlyShort(t *testing.T) {
	t.Parallel()
	page := func(second http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("nextToken") == "" {
				answer(w, 200, "["+listed("a1")+"]", "X-Next-Token", "2")
				return
			}
			second(w, r)
		}
	}
	for name, tt := range map[string]struct {
		second http.HandlerFunc
		kind   error
	}{
		"null":              {always(200, "null"), e2b.ErrBadAnswer},
		"object":            {always(200, "{}"), e2b.ErrBadAnswer},
		"nothing":           {always(200, ""), e2b.ErrBadAnswer},
		"html":              {always(200, "<html>"), e2b.ErrBadAnswer},
		"more after it":     {always(200, "[] []"), e2b.ErrBadAnswer},
		"entry without id":  {always(200, `[{"state":"running"}]`), e2b.ErrBadAnswer},
		"entry, no state":   {always(200, `[{"sandboxID":"a2"}]`), e2b.ErrBadAnswer},
		"round in a circle": {always(200, "["+listed("a2")+"]", "X-Next-Token", "2"), e2b.ErrBadAnswer},
		"bad token":         {always(400, `{"code":400,"message":"Invalid next token"}`), e2b.ErrInvalid},
		"server fault":      {always(500, `{"code":500,"message":"x"}`), e2b.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids, err := collect(t, cloud(t, page(tt.second)), e2b.ListQuery{})
			require.Error(t, err)
			require.ErrorIs(t, err, tt.kind)
			require.Contains(t, ids, "a1")
		})
	}
}

func TestBoxURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ sandboxURL, domain, refDomain, id, want string }{
		{"", "", "", "i1", "https://sandbox.e2b.app"},
		{"", "", "e2b.dev", "i1", "https://sandbox.e2b.dev"},
		{"", "e2b-staging.dev", "", "i1", "https://sandbox.e2b-staging.dev"},
		{"", "own.example", "", "i1", "https://49983-i1.own.example"},
		{"", "e2b.app", "own.example", "i1-c9", "https://49983-i1.own.example"},
		{"http://127.0.0.1:3001/", "e2b.app", "own.example", "i1", "http://127.0.0.1:3001"},
		{"", "", "evil.example/x?", "i1", ""},
	} {
		t.Run(fmt.Sprintf("%s,%s,%s", tt.sandboxURL, tt.domain, tt.refDomain), func(t *testing.T) {
			t.Parallel()
			var got string
			c := client(t, func(cfg *e2b.Config) {
				cfg.SandboxURL, cfg.Domain = tt.sandboxURL, tt.domain
				cfg.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					got = r.URL.Scheme + "://" + r.URL.Host
					return &http.Response{StatusCode: 204, Body: http.NoBody, Header: http.Header{}}, nil
				})}
			})
			_, err := c.Open(e2b.Ref{ID: tt.id, Domain: tt.refDomain}).Healthy(t.Context())
			require.Equal(t, tt.want == "", err != nil, "%v", err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	key := func() (string, error) { return testKey, nil }
	for name, cfg := range map[string]e2b.Config{
		"no key":          {},
		"no scheme":       {APIKey: key, APIURL: "api.e2b.app"},
		"other scheme":    {APIKey: key, SandboxURL: "ftp://x"},
		"password in it":  {APIKey: key, APIURL: "https://u:hunter2@x"},
		"query":           {APIKey: key, APIURL: "https://x?y=hunter2"},
		"domain is a URL": {APIKey: key, Domain: "https://e2b.app"},
	} {
		_, err := e2b.New(cfg)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestCheckEnvd(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{
		"0.6.13": true, "0.5.7": true, "1.0.0": true, "99.99.99": true, "v0.6.0-rc1": true, "": true, "x": true, "0": true,
		"0.5.6": false, "0.4.99": false, "0.5.6-beta": false,
	} {
		require.Equal(t, ok, e2b.Ref{ID: testID, EnvdVersion: version}.CheckEnvd() == nil, version)
	}
}
