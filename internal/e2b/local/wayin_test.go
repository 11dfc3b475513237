package local

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHowPortsAreReached: the Host header that was asked for, TLS where the
// sandbox's server speaks it, whatever becomes of the rules for the way out.
func TestHowPortsAreReached(t *testing.T) {
	t.Parallel()
	said := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %t", r.Host, r.TLS != nil)
	})
	plain, secure := httptest.NewServer(said), httptest.NewTLSServer(said)
	defer plain.Close()
	defer secure.Close()
	port := func(s *httptest.Server) string { return portOf(t, s) }
	cfg := Config{Isolation: None, DataDir: t.TempDir()}
	c := newClient(t, start(t, cfg))
	b := c.create(fmt.Sprintf(`{"templateID":"base","network":{"maskRequestHost":"app.test:${PORT}","httpsPorts":[%s]}}`, port(secure)))
	as := func() {
		t.Helper()
		for _, s := range []*httptest.Server{plain, secure} {
			r := b.call("GET", "/", "", headerSandbox, b.SandboxID, headerPort, port(s))
			require.Equal(t, fmt.Sprintf("app.test:%s %t", port(s), s == secure), r.body)
		}
	}
	as()
	require.Equal(t, 204, c.call("PUT", b.on("/network"), `{"maskRequestHost":"other.test","denyOut":["192.0.2.1"]}`).status)
	as()
	b.client = c.restart(cfg)
	as()

	bare := b.client.create("")
	own := fmt.Sprintf("%s-%s.e2b.test", port(plain), bare.SandboxID)
	req, err := http.NewRequestWithContext(t.Context(), "GET", bare.srv.URL(), nil)
	require.NoError(t, err)
	req.Host = own
	r, err := bare.do(req)
	require.NoError(t, err)
	require.Equal(t, own+" false", r.body, "without a mask it stays")
}

// TestPortsOnTheSecondLoopback: what listens on "localhost" may have ::1 alone.
func TestPortsOnTheSecondLoopback(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("NOT PROVEN HERE: this machine has no IPv6: %v", err)
	} else {
		l.Close()
	}
	eachNetwork(t, Config{}, func(c *client, wall bool) {
		b := c.create("")
		var l net.Listener
		listen := func() (err error) {
			l, err = net.Listen("tcp", "[::1]:0")
			return err
		}
		if wall {
			b.within().launch.RLock()
			network := int(b.within().jail.net.Fd())
			b.within().launch.RUnlock()
			require.NoError(c, inNetwork(network, listen))
		} else {
			require.NoError(c, listen())
		}
		web := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "from the second")
		})}}
		web.Start()
		defer web.Close()
		r := b.call("GET", "/", "", headerSandbox, b.SandboxID, headerPort, portOf(c.T, web))
		require.Equal(c, "from the second", r.body)
		require.Equal(c, 200, r.status)
	})
}

// TestRequestsReachPortsAsTheyAre: nothing is taken out of them or put in.
func TestRequestsReachPortsAsTheyAre(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %q", r.RequestURI, r.Header["Accept-Encoding"])
	}))
	defer web.Close()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	plain := &http.Transport{DisableCompression: true}
	defer plain.CloseIdleConnections()
	c.http = &http.Client{Transport: plain}
	const uri = "/a%2Fb/?x=1;y=2&%zz&q=a+b"
	r := b.call("GET", uri, "", headerSandbox, b.SandboxID, headerPort, portOf(t, web))
	require.Equal(t, uri+" []", r.body)
}

func portOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	return port
}

func TestNetworksThatAreRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	for network, want := range map[string]string{
		`{"httpsPorts":[49983]}`:        "Invalid httpsPorts: 49983",
		`{"httpsPorts":[0]}`:            "Invalid httpsPorts: 0",
		`{"httpsPorts":[65536]}`:        "Invalid httpsPorts: 65536",
		`{"maskRequestHost":"a b"}`:     "Invalid maskRequestHost",
		`{"maskRequestHost":"a/b"}`:     "Invalid maskRequestHost",
		`{"maskRequestHost":"u@b"}`:     "Invalid maskRequestHost",
		`{"maskRequestHost":"a:${TO}"}`: "Invalid maskRequestHost",
		`{"rules":{"a.test":[{"transform":{"headers":{"X-Key":"Bearer ${e2b.secrets.k}"}}}]}}`:     "header X-Key: this server has no secrets",
		`{"rules":{"a.test":[{"transform":{"headers":{"X":"${e2b.identity.tokens.aws}"}}}]}}`:      "header X: this server has no secrets",
		`{"rules":{"a.test":[{"transform":{"headers":{"X":"\u0024{e2b.identity.tokens.aws}"}}}]}}`: "header X: this server has no secrets",
	} {
		r := c.call("POST", "/v2/sandboxes", `{"templateID":"base","network":`+network+`}`)
		require.Equal(t, 400, r.status, "%s", network)
		require.Contains(t, r.body, want)
	}
	r := c.call("PUT", b.on("/network"), `{"rules":{"a.test":[{"transform":{"headers":{"X-Key":"${e2b.secrets.k}"}}}]}}`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "this server has no secrets")
	r = c.call("POST", "/v2/sandboxes", `{"templateID":"base","iam":{"tokens":{"aws":{"audience":"a","tokenType":"JWT-SVID"}}}}`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "workload identity")
}
