package local

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

func TestFaultStatus(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	tr := new(http.Transport) // the answers are not E2B's, on purpose
	t.Cleanup(tr.CloseIdleConnections)
	c.http.Transport = tr
	f := c.srv.Faults()
	create := func() reply { return c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`) }
	f.Add(Fault{Op: "create", Skip: 1, Count: 2, Action: Status{Code: 429, Message: "slow", RetryAfter: 1500 * time.Millisecond}})
	remove := f.Add(Fault{Op: "create", Count: -1, Action: Status{Code: 503, ErrorCode: "sandbox_capacity_unavailable"}})
	require.Equal(t, 503, create().status, "what one skips, the next may take")
	r := create()
	require.Equal(t, 429, r.status)
	require.Equal(t, "2", r.header.Get("Retry-After"))
	require.JSONEq(t, `{"code":429,"message":"slow"}`, r.body)
	require.Equal(t, 429, create().status)
	r = create()
	require.JSONEq(t, `{"code":503,"message":"Service Unavailable","error_code":"sandbox_capacity_unavailable"}`, r.body)
	remove()
	remove()
	require.Equal(t, 201, create().status)
	require.Equal(t, 5, f.Count("create"))
	require.Equal(t, 5, f.Count("*"))
	require.Len(t, c.srv.Sandboxes(), 1, "a status does nothing else")

	b := c.create("")
	other := c.create("")
	f.Add(Fault{Op: "*", Sandbox: b.SandboxID, Count: -1, Action: Status{Code: 500, Body: "boom"}})
	require.Equal(t, "boom", b.envd("GET", "/health", "").body)
	require.Equal(t, "boom", c.call("GET", b.on(""), "").body)
	require.Equal(t, 204, other.envd("GET", "/health", "").status)
	for id, status := range map[string]int{b.SandboxID: 500, other.SandboxID: 204} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.srv.URL()+"/health", nil)
		require.NoError(t, err)
		req.Host = envdPort + "-" + id + ".e2b.test"
		r, err := c.do(req)
		require.NoError(t, err)
		require.Equal(t, status, r.status, "by the host's name")
	}
}

func TestFaultLostAnswer(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	f := c.srv.Faults()
	f.Add(Fault{Op: "create", Action: LostAnswer{}})
	_, err := c.try("POST", "/v2/sandboxes", `{"templateID":"base"}`)
	require.Error(t, err)
	require.Len(t, c.srv.Sandboxes(), 1, "the effect is there")

	b := c.create("")
	f.Add(Fault{Op: "start", Action: LostAnswer{}})
	st, err := b.processes().Start(t.Context(), ask(b, sh("read x; sleep 100")))
	if err == nil {
		require.False(t, st.Receive())
		require.Error(t, st.Err())
		_ = st.Close()
	}
	require.Equal(t, 1, f.Started("sleep 100"))
	require.Equal(t, 0, f.Started("sleep 101"))
	f.Add(Fault{Op: "write", Action: LostAnswer{}})
	_, err = c.try("POST", "/files?path=f", "there", append(b.headers(), "Content-Type", octets)...)
	require.Error(t, err)
	require.Equal(t, "there", b.content("f"))
	f.Add(Fault{Op: "kill", Action: LostAnswer{}})
	_, err = c.try("DELETE", b.on(""), "")
	require.Error(t, err)
	require.Equal(t, 404, c.call("DELETE", b.on(""), "").status)
}

// Who asked has its connection reset at once; the effect comes later all the same.
func TestFaultLateEffect(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	met := make(chan struct{}, 1)
	c.srv.Faults().Add(Fault{Op: "create", Action: LateEffect(50 * time.Millisecond), Met: func() { met <- struct{}{} }})
	_, err := c.try("POST", "/v2/sandboxes", `{"templateID":"base"}`)
	require.Error(t, err)
	require.Len(t, met, 1)
	require.Eventually(t, func() bool { return len(c.srv.Sandboxes()) == 1 }, patience, time.Millisecond)
	require.Equal(t, 201, c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`).status, "one call alone")
}

func TestFaultHangAndDelay(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	f := c.srv.Faults()
	release := f.Add(Fault{Op: "create", Action: Hang{}})
	done := make(chan reply, 1)
	go func() {
		r, _ := c.try("POST", "/v2/sandboxes", `{"templateID":"base"}`)
		done <- r
	}()
	require.Eventually(t, func() bool { return f.Count("create") == 1 }, patience, time.Millisecond)
	select {
	case <-done:
		t.Fatal("it does not hang")
	case <-time.After(20 * time.Millisecond): // ample, were it not to hang
	}
	release()
	require.Equal(t, 201, (<-done).status, "released, the call goes on with its body")

	f.Add(Fault{Op: "create", Action: Hang{}})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", c.srv.URL()+"/v2/sandboxes", strings.NewReader(`{"templateID":"base"}`))
	require.NoError(t, err)
	req.Header.Set("X-API-Key", c.srv.APIKey())
	failed := make(chan error, 1)
	go func() {
		_, err := c.do(req)
		failed <- err
	}()
	require.Eventually(t, func() bool { return f.Count("create") == 2 }, patience, time.Millisecond)
	leave()
	require.Error(t, <-failed)
	require.Len(t, c.srv.Sandboxes(), 1, "a client that goes takes its call along")

	f.Add(Fault{Op: "list", Action: Delay(30 * time.Millisecond)})
	began := time.Now()
	require.Equal(t, 200, c.call("GET", "/v2/sandboxes", "").status)
	require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
	// A call that hangs does not keep the server from closing; the cleanup sees.
	f.Add(Fault{Op: "list", Action: Hang{}})
	go func() { _, _ = c.try("GET", "/v2/sandboxes", "") }()
	require.Eventually(t, func() bool { return f.Count("list") == 2 }, patience, time.Millisecond)
}

func TestFaultCut(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	f := c.srv.Faults()
	b := c.create("")
	b.put("big", strings.Repeat("x", 100_000))
	f.Add(Fault{Op: "read", Action: CutAfter{Bytes: 50_000}})
	r, err := c.try("GET", "/files?path=big", "", append(b.headers(), "Accept-Encoding", "identity")...)
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	require.LessOrEqual(t, len(r.body), 50_000)

	f.Add(Fault{Op: "start", Action: CutAfter{After: 3 * time.Second}}) // after the start, also on a busy machine
	st, err := b.processes().Start(t.Context(), ask(b, sh("sleep 100")))
	require.NoError(t, err)
	require.True(t, st.Receive())
	for st.Receive() {
	}
	require.Error(t, st.Err())
	_ = st.Close()

	req := sh("echo one; read x; exit 7")
	req.Stdin = nil
	f.Add(Fault{Op: "process.connect", Action: CutAfter{Bytes: 10}})
	_, pid := b.begin(req)
	require.Error(t, b.follow(pid, nil).err)
	got := b.follow(pid, func() { b.say(pid, "\n") })
	require.EqualValues(t, 7, got.end.GetExitCode(), "the command lived on")
	require.Equal(t, connect.CodeNotFound, connect.CodeOf(b.signal(pid, process.Signal_SIGNAL_SIGKILL)))
}
