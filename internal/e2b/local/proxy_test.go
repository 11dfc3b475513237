package local

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

func TestDataPlaneRouting(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	gone := c.create("")
	require.Equal(t, 204, c.call("DELETE", gone.on(""), "").status)
	asleep := c.create("")
	require.Equal(t, 204, c.call("POST", asleep.on("/pause"), "").status)
	for _, tc := range []struct {
		name, path string
		header     []string
		status     int
		body       string
	}{
		{"health needs no token", "/health", []string{headerSandbox, b.SandboxID, headerPort, envdPort}, 204, ""},
		{"no token", "/envs", []string{headerSandbox, b.SandboxID, headerPort, envdPort}, 401, `{"code":401,"message":"unauthorized access`},
		{"wrong token", "/envs", []string{headerSandbox, b.SandboxID, headerPort, envdPort, "X-Access-Token", "x"}, 401, `"code":401`},
		{"one header", "/envs", []string{headerSandbox, b.SandboxID}, 400, "missing header"},
		{"bad id", "/envs", []string{headerSandbox, "A", headerPort, envdPort}, 400, "Invalid sandbox ID"},
		{"no header", "/envs", nil, 400, "Invalid host"},
		{"unsigned file", "/files?path=x", nil, 401, `"code":401`},
		{"killed", "/health", gone.headers(), 502, `"message":"The sandbox was not found","code":502`},
		{"paused", "/health", asleep.headers(), 502, `"sandboxId":"` + asleep.SandboxID},
		{"unknown", "/health", []string{headerSandbox, "inone", headerPort, envdPort}, 502, `"code":502`},
		{"unknown method", "/process.Process/Nope", b.headers(), 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.call("GET", tc.path, "", tc.header...)
			require.Equal(t, tc.status, r.status, "%s", r.body)
			require.Contains(t, r.body, tc.body)
		})
	}

	req, err := http.NewRequestWithContext(t.Context(), "GET", c.srv.URL()+"/health", nil)
	require.NoError(t, err)
	req.Host = "49983-" + b.SandboxID + ".e2b.app"
	r, err := c.do(req)
	require.NoError(t, err)
	require.Equal(t, 204, r.status, "by the host's name")
}

func TestPortsOfTheSandbox(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("from " + r.URL.Path)) }))
	defer web.Close()
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	require.NoError(t, err)
	b := c.create(`{"templateID":"base","network":{"allowPublicTraffic":false}}`)
	require.NotNil(t, b.TrafficAccessToken)
	to := func(port string, more ...string) reply {
		return c.call("GET", "/page", "", append([]string{headerSandbox, b.SandboxID, headerPort, port}, more...)...)
	}
	require.Equal(t, 403, to(port).status)
	r := to(port, "e2b-traffic-access-token", *b.TrafficAccessToken)
	require.Equal(t, "from /page", r.body)
	web.Close()
	r = to(port, "e2b-traffic-access-token", *b.TrafficAccessToken)
	require.Equal(t, 502, r.status)
	var e struct {
		Message string
		Port    json.Number
	}
	r.into(t, &e)
	require.Contains(t, e.Message, "port is not open")
	require.Equal(t, port, e.Port.String())
}

func TestAutoResume(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create(`{"templateID":"base","autoPause":true,"autoResume":{"enabled":true},"timeout":10}`)
	pause := func(body string) { require.Equal(t, 204, c.call("POST", b.on("/pause"), body).status) }
	pause("")
	require.Equal(t, 403, c.call("GET", "/health", "", headerSandbox, b.SandboxID, headerPort, envdPort).status)
	require.Equal(t, e2b.StatePaused, b.detail().State)
	require.Equal(t, 204, b.envd("GET", "/health", "").status)
	require.Equal(t, e2b.StateRunning, b.detail().State)
	require.InDelta(t, 300, time.Until(b.detail().EndAt).Seconds(), patience.Seconds())
	pause(`{"memory":false}`)
	require.Equal(t, 502, b.envd("GET", "/health", "").status, "what kept no memory is not woken by traffic")
}
