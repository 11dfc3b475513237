package e2b_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/spectest"
	"github.com/sandjet/sandjet/internal/nodetest"
)

// prism starts a mock that Prism makes of E2B's OpenAPI document. It refuses with
// 422 what is no request of the document, and makes its answers of nothing else.
func prism(t *testing.T) (url string) {
	t.Helper()
	dir := nodetest.Install(t, "prism", os.DirFS(filepath.Join("testdata", "prism")))
	doc := filepath.Join(t.TempDir(), "openapi.yml")
	require.NoError(t, os.WriteFile(doc, spectest.Document(), 0o600))
	cmd := exec.Command("node", "node_modules/@stoplight/prism-cli/dist/index.js", "mock", "--errors", "--host", "127.0.0.1", "--port", "0", doc)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var rest sync.WaitGroup
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		rest.Wait()
		_ = cmd.Wait()
	})
	stop := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "Prism is listening on "); ok {
			rest.Go(func() { _, _ = io.Copy(io.Discard, out) })
			return strings.TrimSpace(addr)
		}
	}
	t.Fatal("prism did not start")
	return ""
}

// asked is a transport to Prism. The first request is answered as prefer says.
type asked struct {
	prefer string
	seen   []string
	next   http.Transport
}

func (a *asked) CloseIdleConnections() { a.next.CloseIdleConnections() }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Method == http.MethodPost { // the document lacks the v2 POSTs
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/v2")
	}
	if a.seen == nil && a.prefer != "" {
		r.Header.Set("Prefer", a.prefer)
	}
	a.seen = append(a.seen, r.Method+" "+strings.ReplaceAll(r.URL.Path, testID, "{sandboxID}"))
	res, err := a.next.RoundTrip(r)
	if err != nil || res.StatusCode < 400 {
		return res, err
	}
	// The document does not say that an error's code repeats the status; it does.
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	b = bytes.Replace(b, []byte(`"code":-2147483648`), []byte(`"code":`+strconv.Itoa(res.StatusCode)), 1)
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return res, err
}

// prismCalls are all calls of the control plane that our client makes, by the
// document's name for them.
var prismCalls = []struct {
	name, operation string
	call            func(ctx context.Context, c *e2b.Client) error
}{
	{"ping", "GET /v2/sandboxes", func(ctx context.Context, c *e2b.Client) error { return c.Ping(ctx) }},
	{"list", "GET /v2/sandboxes", func(ctx context.Context, c *e2b.Client) error {
		_, err := c.ListPage(ctx, e2b.ListQuery{
			States: []e2b.SandboxState{e2b.StateRunning, e2b.StatePaused}, Metadata: map[string]string{"a b": "c&d=ä"},
			Template: "base", StartedAfter: time.Now(), Order: e2b.OldestFirst, Limit: 100, NextToken: "token",
		})
		return err
	}},
	{"create", "POST /sandboxes", func(ctx context.Context, c *e2b.Client) error {
		yes := true
		_, err := c.Create(ctx, e2b.CreateRequest{
			TemplateID: "base", Timeout: 60, AutoPause: true, AutoPauseMemory: &yes, AutoResume: &e2b.AutoResume{Enabled: true},
			Metadata: map[string]string{"a": "b"}, EnvVars: map[string]string{"A": "b"}, AllowInternet: &yes,
			Network: &e2b.Network{AllowOut: []string{"10.0.0.0/8"}, DenyOut: []string{"0.0.0.0/0"}, AllowPublicTraffic: &yes, MaskRequestHost: "h"},
		})
		return err
	}},
	{"create, the least", "POST /sandboxes", func(ctx context.Context, c *e2b.Client) error {
		_, err := c.Create(ctx, e2b.CreateRequest{TemplateID: "base"})
		return err
	}},
	{"get", "GET /sandboxes/{sandboxID}", func(ctx context.Context, c *e2b.Client) error { _, err := c.Get(ctx, testID); return err }},
	{"connect", "POST /sandboxes/{sandboxID}/connect", func(ctx context.Context, c *e2b.Client) error {
		_, _, err := c.Connect(ctx, testID, time.Minute)
		return err
	}},
	{"boot", "POST /sandboxes/{sandboxID}/connect", func(ctx context.Context, c *e2b.Client) error {
		_, _, err := c.Boot(ctx, testID, time.Minute)
		return err
	}},
	{"pause", "POST /sandboxes/{sandboxID}/pause", func(ctx context.Context, c *e2b.Client) error { return c.Pause(ctx, testID) }},
	{"pause, disk", "POST /sandboxes/{sandboxID}/pause", func(ctx context.Context, c *e2b.Client) error { return c.PauseDisk(ctx, testID) }},
	{"timeout", "POST /sandboxes/{sandboxID}/timeout", func(ctx context.Context, c *e2b.Client) error {
		return c.SetTimeout(ctx, testID, time.Minute)
	}},
	{"kill", "DELETE /sandboxes/{sandboxID}", func(ctx context.Context, c *e2b.Client) error {
		existed, err := c.Kill(ctx, testID)
		if err == nil && !existed {
			return e2b.ErrNotFound
		}
		return err
	}},
	{"metrics", "GET /sandboxes/{sandboxID}/metrics", func(ctx context.Context, c *e2b.Client) error {
		_, err := c.Metrics(ctx, testID, time.Unix(1, 0), time.Now())
		return err
	}},
}

// kindOfStatus is what each answer that the document knows means to callers.
var kindOfStatus = map[int]error{
	400: e2b.ErrInvalid, 401: e2b.ErrUnauthorized, 403: e2b.ErrForbidden, 404: e2b.ErrNotFound, 409: e2b.ErrConflict,
	429: e2b.ErrQuota, 500: e2b.ErrUnavailable, 503: e2b.ErrUnavailable, 504: e2b.ErrUnavailable,
}

// TestAgainstAMockOfTheDocument makes each call of our client and has it answered
// with each status that the document knows, and then with anything that fits the
// document. Package spectest holds what is said against the document; here
// somebody else, who has read nothing but the document, answers.
func TestAgainstAMockOfTheDocument(t *testing.T) {
	t.Parallel()
	url := prism(t)
	with := func(prefer string) (*e2b.Client, *asked) {
		tr := &asked{prefer: prefer}
		return client(t, func(c *e2b.Config) {
			c.APIURL, c.SandboxURL, c.HTTPClient = url, url, &http.Client{Transport: tr}
		}), tr
	}
	answers := 0
	for _, tt := range prismCalls {
		t.Run(tt.name, func(t *testing.T) {
			for _, status := range spectest.Statuses(t, tt.operation) {
				c, tr := with(fmt.Sprint("code=", status))
				err := tt.call(t.Context(), c)
				require.Equal(t, tt.operation, tr.seen[0])
				if status < 400 {
					require.NoError(t, err, "%d", status)
				} else {
					require.Contains(t, kindOfStatus, status, "%s answers with it", tt.operation)
					require.ErrorIs(t, err, kindOfStatus[status], "%d: %v", status, err)
				}
				answers++
			}
			for seed := range 5 {
				c, _ := with(fmt.Sprint("dynamic=true, seed=", seed))
				hasClass(t, fmt.Sprint("anything that fits, ", seed), tt.call(t.Context(), c))
				answers++
			}
		})
	}
	t.Logf("%d answers of Prism to %d calls", answers, len(prismCalls))

	// That it looks at requests at all.
	for _, bad := range []struct{ method, path, body string }{
		{"GET", "/v2/sandboxes?limit=1000", ""},
		{"POST", "/sandboxes", `{"timeout":1}`},
		{"POST", "/sandboxes/" + testID + "/timeout", `{"timeout":"soon"}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), bad.method, url+bad.path, strings.NewReader(bad.body))
		require.NoError(t, err)
		req.Header.Set("X-API-Key", testKey)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
		require.Contains(t, []int{400, 422}, res.StatusCode, "%s %s", bad.method, bad.path)
	}
	http.DefaultClient.CloseIdleConnections()
}
