package e2b_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
)

// What a run against the real service may cost: so many sandboxes at once and in
// all, each for so long unless it is ended before, which all are.
const (
	liveAlive = 3
	liveTotal = 16
	liveLife  = 2 * time.Minute
	// Whoever finds a sandbox of an earlier run that is older than this ends it:
	// that run was killed.
	liveStale = 10 * time.Minute
)

// The marks of every sandbox that a live run makes.
const (
	liveMark = "sandjet-live-test" // is "yes"
	liveRun  = "sandjet-live-run"  // names the run
)

var errPurse = errors.New("not sent: the live tests may not spend more")

// purse is a transport that lets through what the caps and the marks allow, and
// nothing else. It may be used concurrently.
type purse struct {
	next http.RoundTripper
	run  string

	mu    sync.Mutex
	alive map[string]bool
	open  int // creates whose end nobody knows, and those under way
	total int
}

func (p *purse) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, "/v2")
	onSandbox := strings.HasPrefix(path, "/sandboxes/") && r.Header.Get("E2b-Sandbox-Id") == ""
	switch {
	case r.Method == http.MethodPost && path == "/sandboxes":
		return p.spend(r)
	case r.Method == http.MethodPost && onSandbox:
		if _, err := p.life(r); err != nil {
			return nil, err
		}
	case r.Method == http.MethodDelete && onSandbox:
		res, err := p.next.RoundTrip(r)
		if err == nil && (res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotFound) {
			p.mu.Lock()
			delete(p.alive, strings.TrimPrefix(path, "/sandboxes/"))
			p.mu.Unlock()
		}
		return res, err
	}
	return p.next.RoundTrip(r)
}

// spending is what the purse looks at in a body.
type spending struct {
	Timeout  *int64            `json:"timeout"`
	Metadata map[string]string `json:"metadata"`
}

// life refuses a sandbox that would live too long by itself.
func (p *purse) life(r *http.Request) (q spending, err error) {
	if r.Body == nil {
		return q, nil
	}
	b, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return q, err
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	if len(b) > 0 {
		if err := json.Unmarshal(b, &q); err != nil {
			return q, err
		}
	}
	if q.Timeout != nil && time.Duration(*q.Timeout)*time.Second > liveLife {
		return q, fmt.Errorf("%w: %d s of life, the most is %s", errPurse, *q.Timeout, liveLife)
	}
	return q, nil
}

func (p *purse) spend(r *http.Request) (*http.Response, error) {
	q, err := p.life(r)
	switch {
	case err != nil:
		return nil, err
	case q.Timeout == nil || *q.Timeout <= 0:
		return nil, fmt.Errorf("%w: a sandbox without an end", errPurse)
	case q.Metadata[liveMark] != "yes" || q.Metadata[liveRun] != p.run:
		return nil, fmt.Errorf("%w: a sandbox that nobody would find again", errPurse)
	}
	p.mu.Lock()
	if p.total >= liveTotal || len(p.alive)+p.open >= liveAlive {
		defer p.mu.Unlock()
		return nil, fmt.Errorf("%w: %d sandboxes made and %d alive, the most is %d and %d", errPurse, p.total, len(p.alive)+p.open, liveTotal, liveAlive)
	}
	p.total++
	p.open++
	p.mu.Unlock()
	res, err := p.next.RoundTrip(r)
	if err != nil { // it may be there; the cap holds it for alive
		return nil, err
	}
	b, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var sb e2b.Sandbox
	switch {
	case res.StatusCode == http.StatusCreated && json.Unmarshal(b, &sb) == nil && sb.SandboxID != "":
		p.open--
		p.alive[sb.SandboxID] = true
	case res.StatusCode >= 400 && res.StatusCode < 500:
		p.open--
	}
	return res, nil
}

// live is a service that costs money, for the length of a test.
type live struct {
	site
	*purse
}

// openLive opens the service that the variables name. When the test is over,
// however it went, what it made is gone; so is what runs before it left.
func openLive(t *testing.T, env func(string) string) *live {
	t.Helper()
	p := &purse{next: http.DefaultTransport.(*http.Transport).Clone(), run: rand.Text(), alive: make(map[string]bool)}
	c := client(t, func(c *e2b.Config) {
		c.APIURL, c.SandboxURL, c.Domain = env("E2B_API_URL"), env("E2B_SANDBOX_URL"), env("E2B_DOMAIN")
		c.APIKey = func() (string, error) { return env("E2B_API_KEY"), nil }
		c.HTTPClient = &http.Client{Transport: p}
	})
	t.Cleanup(func() { p.next.(*http.Transport).CloseIdleConnections() })
	l := &live{purse: p}
	l.site.Client = c
	template := env("E2B_TEMPLATE")
	if template == "" {
		template = "base"
	}
	l.site.create = func(t *testing.T, c *e2b.Client, metadata map[string]string) *e2b.Sandbox {
		t.Helper()
		sb, err := c.Create(t.Context(), l.request(template, metadata))
		require.NoError(t, err)
		t.Cleanup(func() { _ = killOne(c, sb.SandboxID) }) // room for the next one
		return sb
	}
	require.NoError(t, sweepLive(c, map[string]string{liveMark: "yes"}, liveStale), "sandboxes of a run that was killed")
	t.Cleanup(func() {
		mine := map[string]string{liveRun: p.run}
		if err := sweepLive(c, mine, 0); err != nil {
			t.Errorf("SANDBOXES MAY BE LEFT, and cost money until they end in %s: find them by metadata %v: %v", liveLife, mine, err)
		}
		t.Logf("%d sandboxes made, of at most %d", p.total, liveTotal)
	})
	return l
}

// request is a create that the purse lets through.
func (l *live) request(template string, metadata map[string]string) e2b.CreateRequest {
	all := map[string]string{liveMark: "yes", liveRun: l.run}
	for k, v := range metadata {
		all[k] = v
	}
	return e2b.CreateRequest{TemplateID: template, Timeout: int(liveLife / time.Second), Metadata: all}
}

// sweepLive ends the sandboxes with these marks that are older than age, and is
// content when a list no longer has them. Each sandbox is killed again until E2B
// says that it is gone: what cost money goes on costing it.
func sweepLive(c *e2b.Client, marks map[string]string, age time.Duration) error {
	var last error
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		left, err := 0, error(nil)
		for sb, lerr := range c.List(ctx, e2b.ListQuery{Metadata: marks}) {
			if lerr != nil {
				err = lerr
				break
			}
			if age > 0 && time.Since(sb.StartedAt) < age {
				continue // another run is at work
			}
			left++
			err = errors.Join(err, killOne(c, sb.SandboxID))
		}
		cancel()
		if err == nil && left == 0 {
			return nil
		}
		if last = err; last == nil {
			last = fmt.Errorf("%d were there and are killed", left)
		}
	}
	return last
}

// killOne has time of its own: a test that failed has none left.
func killOne(c *e2b.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := c.Kill(ctx, id)
	return err
}

// TestLive runs the conformance suite against the service that E2B_API_KEY is for:
// make test-e2b-live. It costs a little money.
func TestLive(t *testing.T) {
	switch {
	case os.Getenv("SANDJET_LIVE") == "":
		t.Skip("SKIPPED: nothing was tried against E2B's service; make test-e2b-live does, with E2B_API_KEY set")
	case os.Getenv("E2B_API_KEY") == "":
		t.Skip("SKIPPED: E2B_API_KEY is not set, so nothing was tried against E2B's service")
	}
	runLive(t, openLive(t, os.Getenv))
}

func runLive(t *testing.T, l *live) {
	t.Helper()
	for _, tt := range conformance {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, l.site) })
	}
}

// asIfLive is a local server in the cloud's place.
func asIfLive(t *testing.T, cfg local.Config) (*local.Server, func(string) string) {
	t.Helper()
	cfg.DataDir = t.TempDir()
	srv, err := local.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	env := map[string]string{"E2B_API_URL": srv.URL(), "E2B_SANDBOX_URL": srv.URL(), "E2B_API_KEY": srv.APIKey()}
	return srv, func(name string) string { return env[name] }
}

// TestLiveSuite is what a live run does, and what it leaves, on the local server.
func TestLiveSuite(t *testing.T) {
	t.Parallel()
	srv, env := asIfLive(t, local.Config{})
	t.Run("run", func(t *testing.T) { runLive(t, openLive(t, env)) })
	require.Empty(t, srv.Sandboxes())
	require.LessOrEqual(t, srv.Peak(), liveAlive)
}

func TestLiveSpendsNoMore(t *testing.T) {
	t.Parallel()
	srv, env := asIfLive(t, local.Config{})
	l := openLive(t, env)
	ctx := t.Context()
	refused := func(r e2b.CreateRequest) {
		t.Helper()
		before := srv.Faults().Count("create")
		_, err := l.Create(ctx, r)
		require.ErrorContains(t, err, errPurse.Error())
		require.Equal(t, before, srv.Faults().Count("create"), "it is not even asked")
	}
	fine := l.request("base", nil)
	for _, spoil := range []func(*e2b.CreateRequest){
		func(r *e2b.CreateRequest) { r.Timeout = 0 },
		func(r *e2b.CreateRequest) { r.Timeout = 3600 },
		func(r *e2b.CreateRequest) { r.Metadata = nil },
		func(r *e2b.CreateRequest) { r.Metadata = map[string]string{liveMark: "yes", liveRun: "another"} },
	} {
		r := fine
		spoil(&r)
		refused(r)
	}
	var last *e2b.Sandbox
	for range liveAlive {
		last = l.create(t, l.Client, nil)
	}
	refused(fine)
	require.ErrorContains(t, l.SetTimeout(ctx, last.SandboxID, time.Hour), errPurse.Error())
	_, _, err := l.Connect(ctx, last.SandboxID, time.Hour)
	require.ErrorContains(t, err, errPurse.Error())
	for range liveTotal - liveAlive {
		require.NoError(t, killOne(l.Client, last.SandboxID))
		last = l.create(t, l.Client, nil)
	}
	require.NoError(t, killOne(l.Client, last.SandboxID))
	refused(fine)
	require.Equal(t, liveTotal, srv.Faults().Count("create"))
}

// TestLiveCleansUp breaks what a run relies on, and looks for what it left.
func TestLiveCleansUp(t *testing.T) {
	t.Parallel()
	srv, env := asIfLive(t, local.Config{})
	t.Run("faults", func(t *testing.T) {
		l := openLive(t, env)
		srv.Faults().Add(local.Fault{Op: "create", Action: local.LostAnswer{}})
		for range liveAlive {
			_, _ = l.Create(t.Context(), l.request("base", nil)) // the first one's answer is lost
		}
		_, err := l.Create(t.Context(), l.request("base", nil))
		require.ErrorContains(t, err, errPurse.Error(), "what may be there counts")
		var ids []string
		for _, sb := range srv.Sandboxes() {
			ids = append(ids, sb.SandboxID)
		}
		require.Len(t, ids, liveAlive)
		require.NoError(t, l.Pause(t.Context(), ids[0]))
		srv.Faults().Add(local.Fault{Op: "kill", Action: local.Status{Code: 500}})
		srv.Faults().Add(local.Fault{Op: "list", Action: local.Status{Code: 502}})
	})
	require.Empty(t, srv.Sandboxes(), "paused, lost, or hard to kill")

	// A run that was killed leaves its own; the next one takes what is stale, and no
	// sandbox of a run beside it, or of others.
	c := client(t, func(c *e2b.Config) {
		c.APIURL, c.SandboxURL = env("E2B_API_URL"), env("E2B_SANDBOX_URL")
		c.APIKey = func() (string, error) { return env("E2B_API_KEY"), nil }
	})
	leave := func(metadata map[string]string) string {
		sb, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base", Timeout: 600, Metadata: metadata})
		require.NoError(t, err)
		return sb.SandboxID
	}
	killed, others := leave(map[string]string{liveMark: "yes", liveRun: "killed"}), leave(map[string]string{"mine": "yes"})
	require.NoError(t, sweepLive(c, map[string]string{liveMark: "yes"}, time.Hour))
	require.Len(t, srv.Sandboxes(), 2, "a run beside it is at work")
	require.NoError(t, sweepLive(c, map[string]string{liveMark: "yes"}, time.Nanosecond))
	require.Len(t, srv.Sandboxes(), 1)
	require.Equal(t, others, srv.Sandboxes()[0].SandboxID, "not %s", killed)
}
