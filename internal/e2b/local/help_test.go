package local

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem/filesystemconnect"
	"github.com/sandjet/sandjet/internal/e2b/envd/process"
	"github.com/sandjet/sandjet/internal/e2b/envd/process/processconnect"
	"github.com/sandjet/sandjet/internal/e2b/spectest"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// stuck is after how long a test gives up on what has no limit of its own, so that
// it fails, and not all of the package with it.
const stuck = 5 * time.Minute

// missing ends a test that lacks a real tool.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_REAL") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		missing(t, "%s is not installed", tool)
	}
}

// eachLevel runs a test on a server of each level of isolation.
func eachLevel(t *testing.T, f func(c *client)) {
	t.Helper()
	t.Parallel()
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			f(newClient(t, start(t, Config{Isolation: level})))
		})
	}
}

// levels are those that this machine allows.
func levels(t *testing.T) []Isolation {
	t.Helper()
	list := []Isolation{None}
	m := newMachine(Config{})
	defer m.close()
	for _, level := range []Isolation{Basic, Strong} {
		if err := m.tryIsolation(level); err == nil {
			list = append(list, level)
		} else if os.Getenv("REQUIRE_REAL") == "1" {
			t.Fatalf("isolation %s: %v", level, err)
		}
	}
	return list
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// start starts a server that ends with the test.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	}
	srv, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, atMost(stuck, srv.Close), "close the server") })
	return srv
}

// atMost is what f returns, or an error that shows all goroutines.
func atMost(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		all := make([]byte, 1<<20)
		return fmt.Errorf("not done after %s:\n%s", limit, all[:runtime.Stack(all, true)])
	}
}

// client is a bare client of a server, with connections of its own.
type client struct {
	*testing.T
	srv  *Server
	http *http.Client
}

func newClient(t *testing.T, srv *Server) *client {
	t.Helper()
	tr := spectest.New(t)
	tr.Wrong = true // bad requests are what many tests are about
	t.Cleanup(tr.CloseIdleConnections)
	return &client{T: t, srv: srv, http: &http.Client{Transport: tr, Timeout: stuck}}
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) into(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.body), v), "%s", r.body)
}

// try makes a call of the control plane; key and value pairs are headers.
func (c *client) try(method, path, body string, header ...string) (reply, error) {
	req, err := http.NewRequestWithContext(c.Context(), method, c.srv.URL()+path, strings.NewReader(body))
	require.NoError(c, err)
	req.Header.Set("X-API-Key", c.srv.APIKey())
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.do(req)
}

func (c *client) do(req *http.Request) (reply, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{status: res.StatusCode, header: res.Header, body: string(b)}, err
}

func (c *client) call(method, path, body string, header ...string) reply {
	c.Helper()
	r, err := c.try(method, path, body, header...)
	require.NoError(c, err)
	return r
}

// box is a sandbox and the way into it.
type testBox struct {
	*client
	e2b.Sandbox
}

func (c *client) create(body string) *testBox {
	c.Helper()
	if body == "" {
		body = `{"templateID":"base"}`
	}
	r := c.call("POST", "/v2/sandboxes", body)
	require.Equal(c, http.StatusCreated, r.status, "%s", r.body)
	b := &testBox{client: c}
	r.into(c.T, &b.Sandbox)
	return b
}

func (b *testBox) on(verb string) string { return "/sandboxes/" + b.SandboxID + verb }

func (b *testBox) headers() []string {
	return []string{headerSandbox, b.SandboxID, headerPort, envdPort, "X-Access-Token", b.EnvdAccessToken}
}

// envd makes a plain HTTP call to envd.
func (b *testBox) envd(method, path, body string, header ...string) reply {
	b.Helper()
	return b.call(method, path, body, append(b.headers(), header...)...)
}

func (b *testBox) processes(opts ...connect.ClientOption) processconnect.ProcessClient {
	return processconnect.NewProcessClient(b.http, b.srv.URL(), append(opts, connect.WithProtoJSON())...)
}

func (b *testBox) files() filesystemconnect.FilesystemClient {
	return filesystemconnect.NewFilesystemClient(b.http, b.srv.URL())
}

// ask wraps a message with the headers that lead into the sandbox.
func ask[T any](b *testBox, msg *T) *connect.Request[T] {
	req := connect.NewRequest(msg)
	h := b.headers()
	for i := 0; i < len(h); i += 2 {
		req.Header().Set(h[i], h[i+1])
	}
	return req
}

// as makes a request another user's.
func as[T any](req *connect.Request[T], user string) *connect.Request[T] {
	req.Header().Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
	return req
}

func sh(script string) *process.StartRequest {
	return &process.StartRequest{
		Process: &process.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", script}}, Stdin: new(bool),
	}
}

func byPid(pid uint32) *process.ProcessSelector {
	return &process.ProcessSelector{Selector: &process.ProcessSelector_Pid{Pid: pid}}
}

// result is all that a stream told.
type result struct {
	pid            uint32
	stdout, stderr bytes.Buffer
	end            *process.ProcessEvent_EndEvent
	err            error
}

func (r *result) take(ev *process.ProcessEvent) {
	switch ev := ev.GetEvent().(type) {
	case *process.ProcessEvent_Start:
		r.pid = ev.Start.GetPid()
	case *process.ProcessEvent_Data:
		r.stdout.Write(ev.Data.GetStdout())
		r.stdout.Write(ev.Data.GetPty())
		r.stderr.Write(ev.Data.GetStderr())
	case *process.ProcessEvent_End:
		r.end = ev.End
	}
}

// finish reads a stream of Start to its end.
func finish(st *connect.ServerStreamForClient[process.StartResponse]) *result {
	r := &result{}
	for st.Receive() {
		r.take(st.Msg().GetEvent())
	}
	r.err = st.Err()
	_ = st.Close()
	return r
}

// run runs a script to its end.
func (b *testBox) run(script string) *result {
	b.Helper()
	st, err := b.processes().Start(b.Context(), ask(b, sh(script)))
	require.NoError(b, err)
	return finish(st)
}

// begin starts a command and returns once it runs.
func (b *testBox) begin(req *process.StartRequest) (*connect.ServerStreamForClient[process.StartResponse], uint32) {
	b.Helper()
	st, err := b.processes().Start(b.Context(), ask(b, req))
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	require.True(b, st.Receive(), "%v", st.Err())
	return st, st.Msg().GetEvent().GetStart().GetPid()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// outside is where the machine itself finds a path of the sandbox.
func (b *testBox) outside(path string) string {
	b.Helper()
	sb := b.within()
	sb.launch.RLock()
	defer sb.launch.RUnlock()
	return sb.disk.root + path
}
