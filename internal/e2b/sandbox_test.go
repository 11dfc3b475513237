package e2b_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/spectest"
)

func withSpec(t *testing.T) func(*e2b.Config) {
	return func(c *e2b.Config) { c.HTTPClient = &http.Client{Transport: spectest.New(t)} }
}

const (
	sandboxJSON = `{"sandboxID":"` + testID + `","templateID":"base","clientID":"c","envdVersion":"0.6.13","envdAccessToken":"` + testToken + `","domain":"e2b.example","trafficAccessToken":null}`
	listedJSON  = `{"sandboxID":"` + testID + `","templateID":"base","clientID":"c","startedAt":"2026-11-20T20:16:41.24Z","endAt":"2026-11-20T21:16:41Z","cpuCount":2,"memoryMB":512,"diskSizeMB":1024,"state":"running","envdVersion":"0.6.13","metadata":{"a":"b c"}}`
)

var detailJSON = strings.TrimSuffix(listedJSON, "}") + `,"envdAccessToken":"` + testToken + `","domain":null,"lifecycle":{"onTimeout":"pause","autoResume":false}}`

// want answers one expected request.
func want(t *testing.T, method, path, body string, status int, reply string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if r.Method != method || r.URL.RequestURI() != path {
			t.Errorf("got %s %s, want %s %s", r.Method, r.URL.RequestURI(), method, path)
		}
		if r.Header.Get("X-Api-Key") != testKey || r.Header.Get("User-Agent") != "sandjet" {
			t.Errorf("headers %v", r.Header)
		}
		if body == "" {
			if len(got) > 0 {
				t.Errorf("body %s, want none", got)
			}
		} else if !jsonEqual(got, []byte(body)) || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("body %s, want %s", got, body)
		}
		if status == http.StatusNoContent {
			w.WriteHeader(status)
			return
		}
		answer(w, status, reply)
	}
}

func jsonEqual(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

func TestCreate(t *testing.T) {
	t.Parallel()
	c := cloud(t, want(t, "POST", "/v2/sandboxes",
		`{"templateID":"base","timeout":60,"autoPause":true,"autoResume":{"enabled":false},"metadata":{"a":"b c"},"envVars":{"X":"1"},"allow_internet_access":false,"network":{"denyOut":["0.0.0.0/0"]}}`,
		201, sandboxJSON), withSpec(t))
	no := false
	sb, err := c.Create(t.Context(), e2b.CreateRequest{
		TemplateID: "base", Timeout: 60, AutoPause: true, AutoResume: &e2b.AutoResume{},
		Metadata: map[string]string{"a": "b c"}, EnvVars: map[string]string{"X": "1"},
		AllowInternet: &no, Network: &e2b.Network{DenyOut: []string{"0.0.0.0/0"}},
	})
	require.NoError(t, err)
	require.Equal(t, e2b.Ref{ID: testID, AccessToken: testToken, Domain: "e2b.example", EnvdVersion: "0.6.13"}, sb.Ref())
	require.NotContains(t, sb.Ref().String(), testToken)
}

func TestGet(t *testing.T) {
	t.Parallel()
	c := cloud(t, want(t, "GET", "/sandboxes/"+testID, "", 200, detailJSON), withSpec(t))
	sb, err := c.Get(t.Context(), testID)
	require.NoError(t, err)
	require.Equal(t, e2b.StateRunning, sb.State)
	require.Equal(t, testToken, sb.Ref().AccessToken)
	require.Equal(t, "pause", sb.Lifecycle.OnTimeout)
	require.Equal(t, 2026, sb.EndAt.Year())
	require.Equal(t, map[string]string{"a": "b c"}, sb.Metadata)
}

func TestConnect(t *testing.T) {
	t.Parallel()
	for status, resumed := range map[int]bool{200: false, 201: true} {
		// 59.2 s are 60: a limit is never shorter than what was asked.
		c := cloud(t, want(t, "POST", "/v2/sandboxes/"+testID+"/connect", `{"timeout":60}`, status, sandboxJSON), withSpec(t))
		sb, got, err := c.Connect(t.Context(), testID, 59200*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, resumed, got)
		require.Equal(t, testID, sb.SandboxID)
	}
}

func TestSetTimeout(t *testing.T) {
	t.Parallel()
	c := cloud(t, want(t, "POST", "/sandboxes/"+testID+"/timeout", `{"timeout":300}`, 204, ""), withSpec(t))
	require.NoError(t, c.SetTimeout(t.Context(), testID, 5*time.Minute))
}

func TestSetNetwork(t *testing.T) {
	t.Parallel()
	allow := true
	full := e2b.NetworkUpdate{
		AllowOut: []string{"example.com"}, DenyOut: []string{"0.0.0.0/0"}, AllowInternet: &allow,
		Rules: map[string][]e2b.NetworkRule{"example.com": {{Transform: e2b.NetworkTransform{Headers: map[string]string{"Authorization": "Basic c2VjcmV0"}}}}},
	}
	c := cloud(t, want(t, "PUT", "/sandboxes/"+testID+"/network",
		`{"allowOut":["example.com"],"denyOut":["0.0.0.0/0"],"allow_internet_access":true,"rules":{"example.com":[{"transform":{"headers":{"Authorization":"Basic c2VjcmV0"}}}]}}`, 204, ""), withSpec(t))
	require.NoError(t, c.SetNetwork(t.Context(), testID, full))

	c = cloud(t, want(t, "PUT", "/sandboxes/"+testID+"/network", `{"rules":{}}`, 204, ""), withSpec(t))
	require.NoError(t, c.SetNetwork(t.Context(), testID, e2b.NetworkUpdate{}), "an empty object clears, also where what is left out stays")

	c = cloud(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = w.Write([]byte(`{"code":400,"message":"no such header: Basic c2VjcmV0"}`))
	})
	err := c.SetNetwork(t.Context(), testID, full)
	require.ErrorIs(t, err, e2b.ErrInvalid)
	require.NotContains(t, err.Error(), "c2VjcmV0")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := cloud(t, want(t, "GET", "/sandboxes/"+testID+"/metrics?end=1800000060&start=1800000000", "", 200,
		`[{"timestamp":"2026-11-20T20:16:41Z","timestampUnix":1795205801,"cpuCount":2,"cpuUsedPct":1.5,"memUsed":1,"memTotal":2,"memCache":3,"diskUsed":4,"diskTotal":5}]`), withSpec(t))
	ms, err := c.Metrics(t.Context(), testID, time.Unix(1800000000, 0), time.Unix(1800000060, 0))
	require.NoError(t, err)
	require.Len(t, ms, 1)
	require.InDelta(t, 1.5, ms[0].CPUUsedPct, 0)
	require.EqualValues(t, 5, ms[0].DiskTotal)
}

func TestKill(t *testing.T) {
	t.Parallel()
	c := cloud(t, want(t, "DELETE", "/sandboxes/"+testID, "", 204, ""), withSpec(t))
	existed, err := c.Kill(t.Context(), testID)
	require.NoError(t, err)
	require.True(t, existed)

	c = cloud(t, want(t, "DELETE", "/sandboxes/"+testID, "", 404, `{"code":404,"message":"not found"}`), withSpec(t))
	existed, err = c.Kill(t.Context(), testID)
	require.NoError(t, err)
	require.False(t, existed)

	c = cloud(t, always(404, `<html>some proxy</html>`))
	existed, err = c.Kill(t.Context(), testID)
	requireKind(t, err, e2b.ErrBadAnswer, false)
	require.False(t, existed)
}

func TestPause(t *testing.T) {
	t.Parallel()
	pause := "/sandboxes/" + testID + "/pause"
	c := cloud(t, want(t, "POST", pause, "", 204, ""), withSpec(t))
	require.NoError(t, c.Pause(t.Context(), testID))

	// After a 409 the state decides, not the words.
	then := func(status int, detail string) *e2b.Client {
		return cloud(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == pause {
				answer(w, 409, `{"code":409,"message":"already paused"}`)
				return
			}
			want(t, "GET", "/sandboxes/"+testID, "", status, detail)(w, r)
		}, withSpec(t))
	}
	require.NoError(t, then(200, strings.Replace(detailJSON, "running", "paused", 1)).Pause(t.Context(), testID))
	requireKind(t, then(200, detailJSON).Pause(t.Context(), testID), e2b.ErrConflict, false)
	requireKind(t, then(404, `{"code":404,"message":"gone"}`).Pause(t.Context(), testID), e2b.ErrNotFound, false)
}

// TestRefused sends nothing: these requests would do harm or cannot be meant.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := cloud(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("sent %s %s", r.Method, r.URL) })
	for _, id := range []string{"", ".", "../templates/x", "a/b", "A", "i1?x", "i1%2f", strings.Repeat("a", 65)} {
		_, err := c.Kill(t.Context(), id)
		requireKind(t, err, e2b.ErrInvalid, false)
		requireKind(t, c.Open(e2b.Ref{ID: id}).Command("true").Run(t.Context()), e2b.ErrInvalid, false)
		_, err = c.Open(e2b.Ref{ID: id}).Stat(t.Context(), "/")
		requireKind(t, err, e2b.ErrInvalid, false)
		_, err = c.Open(e2b.Ref{ID: id}).Healthy(t.Context())
		requireKind(t, err, e2b.ErrInvalid, false)
	}
	for _, d := range []time.Duration{0, -time.Second, 1 << 62} {
		requireKind(t, c.SetTimeout(t.Context(), testID, d), e2b.ErrInvalid, false)
		_, _, err := c.Connect(t.Context(), testID, d)
		requireKind(t, err, e2b.ErrInvalid, false)
	}
	_, err := c.Create(t.Context(), e2b.CreateRequest{})
	requireKind(t, err, e2b.ErrInvalid, false)
	_, err = c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base", Timeout: -1})
	requireKind(t, err, e2b.ErrInvalid, false)
	_, err = c.ListPage(t.Context(), e2b.ListQuery{Limit: 101})
	requireKind(t, err, e2b.ErrInvalid, false)
}

func TestObserve(t *testing.T) {
	t.Parallel()
	calls := make(chan e2b.Call, 8)
	c := cloud(t, always(503, `{"code":503,"message":"x"}`), func(c *e2b.Config) { c.Observe = func(call e2b.Call) { calls <- call } })
	_ = c.Ping(t.Context())
	got := <-calls
	require.Equal(t, "ping", got.Op)
	require.Equal(t, 503, got.Status)
	require.ErrorIs(t, got.Err, e2b.ErrUnavailable)
	require.Positive(t, got.Duration)
}
