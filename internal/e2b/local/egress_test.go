package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eachNetwork runs a test on a server whose sandboxes have the machine's network
// and on one where they have their own.
func eachNetwork(t *testing.T, cfg Config, f func(c *client, wall bool)) {
	t.Helper()
	need(t, "curl")
	t.Parallel()
	for name, own := range map[string]bool{"machine": false, "own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.NoNetwork = own
			c := newClient(t, start(t, cfg))
			health := c.call("GET", "/health", "").body
			if own && !c.srv.ownNetwork(c.srv.isolation) {
				require.Contains(t, health, "\negress: proxy: ")
				t.Log("NOT PROVEN HERE: a network of its own needs strong isolation and a server that is root")
				return
			}
			require.Contains(t, health, map[bool]string{false: "\negress: proxy: ", true: "\negress: wall: "}[own])
			f(c, own)
		})
	}
}

// within is the sandbox as the server has it.
func (b *testBox) within() *sandbox {
	b.Helper()
	sb, err := b.srv.find(b.SandboxID)
	require.NoError(b, err)
	return sb
}

// way is the sandbox's way out.
func (b *testBox) way() *egress {
	b.Helper()
	sb := b.within()
	sb.launch.RLock()
	defer sb.launch.RUnlock()
	return sb.egress
}

// open is how many tunnels go through.
func (e *egress) open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.tunnels)
}

func (b *testBox) setNetwork(format string, args ...any) {
	b.Helper()
	r := b.call("PUT", b.on("/network"), fmt.Sprintf(format, args...))
	require.Equal(b, 204, r.status, "%s", r.body)
}

// ok runs a script that must succeed and returns what it prints.
func (b *testBox) ok(script string) string {
	b.Helper()
	r := b.run(script)
	require.NoError(b, r.err)
	require.Zero(b, r.end.GetExitCode(), "%s%s", r.stdout.String(), r.stderr.String())
	return r.stdout.String()
}

// mirror answers with the header that it was sent, and runs before first.
type mirror struct {
	*httptest.Server
	mu     sync.Mutex
	before func(r *http.Request)
}

func newMirror(t *testing.T, tls bool) *mirror {
	t.Helper()
	m := &mirror{}
	m.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		before := m.before
		m.mu.Unlock()
		if before != nil {
			before(r)
		}
		n, _ := io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/quiet" {
			_, _ = fmt.Fprintln(w, r.Header.Get("X-Key") != "")
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s [%s] %d\n", r.Method, r.URL.RequestURI(), r.Header.Get("X-Key"), n)
	}))
	m.EnableHTTP2 = true
	if tls {
		m.StartTLS()
	} else {
		m.Start()
	}
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) do(before func(r *http.Request)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = before
}

// certificate is the file of a TLS server's certificate.
func certificate(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return file
}

const keyRule = `{"allowOut":["127.0.0.1"],"rules":{"127.0.0.1":[{"transform":{"headers":{"X-Key":%q}}}]}}`

func TestEgressHeaders(t *testing.T) {
	plain, secure := newMirror(t, false), newMirror(t, true)
	var kept, logged lockedBuffer
	cfg := Config{EgressCA: certificate(t, secure.Server), Record: &kept, Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	secret := "secret" + randomHex(8)
	eachNetwork(t, cfg, func(c *client, _ bool) {
		b := c.create(`{"templateID":"base","network":{"allowOut":["127.0.0.1"]}}`)
		for _, m := range []*mirror{plain, secure} {
			get := "curl -sS --fail-with-body -H 'X-Key: mine' " + m.URL
			b.setNetwork(`{"allowOut":["127.0.0.1"]}`)
			require.Equal(c, "GET /a?b=%2F;c [mine] 0\n", b.ok(get+"'/a?b=%2F;c'"), "before")
			b.setNetwork(keyRule, secret)
			require.Equal(c, "true\n", b.ok("curl -sS --fail-with-body "+m.URL+"/quiet"))
			require.Equal(c, "GET /a?b=%2F;c ["+secret+"] 0\n", b.ok(get+"'/a?b=%2F;c'"), "within, and instead of the client's own")
			require.Equal(c, "POST /p ["+secret+"] 3000000\n", b.ok("head -c 3000000 /dev/zero | "+get+"/p -T - -X POST"), "a body of no known length")
			require.Equal(c, "GET /p ["+secret+"] 0\n", b.ok(get+"/p --http1.1"))
			require.Equal(c, "GET /p ["+secret+"] 0\n", b.ok(get+"/p --proxytunnel"), "http by CONNECT too")
			b.setNetwork(keyRule, "other")
			require.Equal(c, "GET / [other] 0\n", b.ok(get))
			b.setNetwork(`{"allowOut":["127.0.0.1"]}`)
			require.Equal(c, "GET / [mine] 0\n", b.ok(get), "after")
		}
	})
	t.Cleanup(func() { // after both networks
		require.NotContains(t, kept.String(), secret)
		require.Contains(t, kept.String(), "/network")
		require.NotContains(t, logged.String(), secret)
	})
}

// TestEgressWindow: a rule holds for a request, not for a connection.
func TestEgressWindow(t *testing.T) {
	secure := newMirror(t, true)
	var turns sync.Mutex // the mirror is one, the networks two
	eachNetwork(t, Config{EgressCA: certificate(t, secure.Server)}, func(c *client, _ bool) {
		turns.Lock()
		defer turns.Unlock()
		b := c.create("")
		b.setNetwork(keyRule, "secret")
		secure.do(func(r *http.Request) {
			if r.URL.Path == "/1" {
				b.setNetwork(`{"allowOut":["127.0.0.1"]}`)
			}
		})
		defer secure.do(nil)
		out := b.ok(fmt.Sprintf("curl -sSv --http1.1 %s/1 %[1]s/2 2>log; grep -ci 're-using existing connection' log", secure.URL))
		require.Equal(c, "GET /1 [secret] 0\nGET /2 [] 0\n1\n", out, "%s", b.run("cat log").stdout.String())
	})
}

// TestEgressSecretStaysOutside looks for the value in a sandbox while a request
// that carries it is on its way.
func TestEgressSecretStaysOutside(t *testing.T) {
	secure := newMirror(t, true)
	secret := "secret" + randomHex(8)
	var turns sync.Mutex
	eachNetwork(t, Config{EgressCA: certificate(t, secure.Server)}, func(c *client, _ bool) {
		if c.srv.Isolation() != string(Strong) {
			c.Skip("the files of the server are in reach")
		}
		turns.Lock()
		defer turns.Unlock()
		b := c.create("")
		b.setNetwork(keyRule, secret)
		var found string
		var carried bool
		secure.do(func(r *http.Request) {
			carried = r.Header.Get("X-Key") == secret
			half := len(secret) / 2 // so that the search does not find itself
			for _, user := range []string{"user", "root"} {
				st, err := b.processes().Start(b.Context(), as(ask(b, sh(fmt.Sprintf(
					`s=%s; s=${s}%s; env | grep -c $s; for p in /proc/[0-9]*; do cat $p/environ $p/cmdline 2>/dev/null; done >/tmp/seen-$(id -u); grep -ac $s /tmp/seen-$(id -u);
					grep -rslF $s /home /tmp /root /etc /run /var /dev/shm | wc -l`, secret[:half], secret[half:]))), user))
				if err == nil {
					found += finish(st).stdout.String()
				}
			}
		})
		defer secure.do(nil)
		require.Equal(c, "true\n", b.ok("curl -sS "+secure.URL+"/quiet"))
		require.True(c, carried)
		require.Equal(c, strings.Repeat("0\n", 6), found)
	})
}

func TestEgressDenies(t *testing.T) {
	plain := newMirror(t, false)
	_, port, err := net.SplitHostPort(plain.Listener.Addr().String())
	require.NoError(t, err)
	eachNetwork(t, Config{}, func(c *client, wall bool) {
		b := c.create("")
		status := func(args string) string {
			return b.run("curl -s -o /dev/null -m 60 -w '%{http_connect} %{http_code}' --noproxy '' " + args).stdout.String()
		}
		if wall {
			require.Equal(c, "000 403", status(plain.URL), "the machine's loopback is not the internet")
			require.Equal(c, "000 403", status("http://localhost:"+port))
			require.Equal(c, "403 000", status("-p "+plain.URL))
			b.setNetwork(`{"allowOut":["0.0.0.0/0"]}`)
			require.Equal(c, "000 403", status(plain.URL))
		}
		b.setNetwork(`{"denyOut":["127.0.0.0/8"]}`)
		require.Equal(c, "000 403", b.run("curl -s -o /dev/null -w '%{http_connect} %{http_code}' "+plain.URL).stdout.String(), "also where it would be direct")
		require.Equal(c, "000 403", status("http://localhost:"+port), "what a name means counts")
		require.Equal(c, "403 000", status("-p "+plain.URL), "CONNECT")
		require.Equal(c, "403 000", status("https://127.0.0.1:"+port))
		b.setNetwork(`{"denyOut":["127.0.0.0/8"],"rules":{"127.0.0.1":[{"transform":{"headers":{"X-Key":"k"}}}]}}`)
		require.Equal(c, "403 000", status("https://127.0.0.1:"+port), "a rule does not allow its host")
		require.Equal(c, "000 403", status(plain.URL))
		b.setNetwork(`{"denyOut":["127.0.0.0/8"],"allowOut":["127.0.0.1"]}`)
		require.Equal(c, "000 200", status(plain.URL), "allow beats deny")
		require.Equal(c, "200 200", status("-p "+plain.URL))
		b.setNetwork(`{"denyOut":["0.0.0.0/0"],"allowOut":["localhost"]}`)
		require.Equal(c, "000 200", status("http://localhost:"+port))
		require.Equal(c, "000 403", status(plain.URL), "the name was allowed, not its address")
		b.setNetwork(`{"allow_internet_access":false}`)
		require.Equal(c, "000 403", status("http://192.0.2.1/"))
		require.Equal(c, "403 000", status("https://192.0.2.1/"))

		d := c.create(`{"templateID":"base","allow_internet_access":false}`)
		require.Equal(c, "403", d.run("curl -s -o /dev/null -w '%{http_connect}' https://192.0.2.1/").stdout.String())
	})
}

// TestEgressWall: past the proxy nothing leads out.
func TestEgressWall(t *testing.T) {
	plain := newMirror(t, false)
	eachNetwork(t, Config{}, func(c *client, wall bool) {
		if !wall {
			return
		}
		b := c.create(`{"templateID":"base","network":{"allowOut":["127.0.0.1"]}}`)
		require.Equal(c, "GET / [] 0\n", b.ok("curl -sS "+plain.URL))
		addrs, err := net.InterfaceAddrs()
		require.NoError(c, err)
		_, port, err := net.SplitHostPort(plain.Listener.Addr().String())
		require.NoError(c, err)
		for _, a := range append(addrs, &net.IPNet{IP: net.IPv4(1, 1, 1, 1)}) {
			at := net.JoinHostPort(a.(*net.IPNet).IP.String(), port)
			require.Equal(c, "000", b.run("curl -s -o /dev/null -m 60 -w '%{http_code}' --noproxy '*' http://"+at).stdout.String(), "%s", at)
		}
		require.Equal(c, "lo\n", b.ok("ls /sys/class/net 2>/dev/null || tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"))
		// Who calls a port of the sandbox from outside does not get its way out.
		_, mine, _ := strings.Cut(b.ok("echo $http_proxy"), "127.0.0.1:")
		r := c.call("GET", "/", "", headerSandbox, b.SandboxID, headerPort, strings.TrimSpace(mine))
		require.Equal(c, 502, r.status, "%s", r.body)
	})
}

// TestEndedSandboxLeavesNoNetwork: the kernel keeps a network as long as a file
// of it is open.
func TestEndedSandboxLeavesNoNetwork(t *testing.T) {
	eachNetwork(t, Config{}, func(c *client, wall bool) {
		if !wall {
			return
		}
		for _, end := range []struct{ method, path, body string }{{"DELETE", "", ""}, {"POST", "/pause", `{"memory":false}`}} {
			b := c.create("")
			b.ok("true")
			sb := b.within()
			sb.launch.RLock()
			own := sb.jail.net
			sb.launch.RUnlock()
			_, err := own.Stat()
			require.NoError(c, err)
			require.Equal(c, 204, c.call(end.method, b.on(end.path), end.body).status)
			_, err = own.Stat()
			require.ErrorIs(c, err, os.ErrClosed, "after %s %s", end.method, end.path)
		}
	})
}

// TestEgressKnowsWhoAsks: on the machine's network every sandbox reaches every
// proxy.
func TestEgressKnowsWhoAsks(t *testing.T) {
	need(t, "curl")
	t.Parallel()
	plain := newMirror(t, false)
	c := newClient(t, start(t, Config{}))
	a, b := c.create(""), c.create("")
	a.setNetwork(keyRule, "secret")
	require.Equal(t, "GET / [secret] 0\n", a.ok("curl -sS "+plain.URL))
	proxy, err := url.Parse(strings.TrimSpace(a.ok("echo $http_proxy")))
	require.NoError(t, err)
	own := b.ok("echo ${http_proxy%@*}")
	require.Equal(t, "407 407", b.run(fmt.Sprintf(
		`curl -s --noproxy '' -o /dev/null -w '%%{http_code} ' -x http://%s %s; curl -s --noproxy '' -o /dev/null -w '%%{http_code}' -x %s@%[1]s %[2]s`,
		proxy.Host, plain.URL, strings.TrimSpace(own))).stdout.String())
}

// TestEgressCutsTunnels: what is denied from now on ends, what is not goes on.
func TestEgressCutsTunnels(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for w.(http.Flusher).Flush(); r.Context().Err() == nil; {
			if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(slow.Close)
	eachNetwork(t, Config{}, func(c *client, _ bool) {
		for name, network := range map[string]string{"denied": `{"denyOut":["127.0.0.1"]}`, "with a rule": fmt.Sprintf(keyRule, "secret")} {
			b := c.create(`{"templateID":"base","network":{"allowOut":["127.0.0.1"]}}`)
			st, _ := b.begin(sh("curl -s -p --limit-rate 1M " + slow.URL + " | { head -c 1000 >/dev/null; echo began; cat >/dev/null; }"))
			for r := (&result{}); !strings.Contains(r.stdout.String(), "began"); r.take(st.Msg().GetEvent()) {
				require.True(c, st.Receive(), "%v", st.Err())
			}
			b.setNetwork(`{"allowOut":["127.0.0.1"],"denyOut":["10.0.0.0/8"]}`)
			require.NotZero(c, b.way().open(), "%s: one that may stay stays", name)
			b.setNetwork("%s", network)
			require.NotNil(c, finish(st).end, name)
		}
	})
}

// TestEgressLeavesLoopback: a sandbox reaches its own servers as if there was no
// proxy, even where nothing may go out.
func TestEgressLeavesLoopback(t *testing.T) {
	need(t, "python3")
	eachNetwork(t, Config{}, func(c *client, _ bool) {
		if !isFile("/usr/bin/python3") {
			c.Skip("no python3 below /usr, so none in a sandbox")
		}
		b := c.create(`{"templateID":"base","allow_internet_access":false}`)
		b.put("page", "served inside")
		out := b.ok(`/usr/bin/python3 -u -m http.server --bind 127.0.0.1 0 >log 2>&1 & p=$!
			until port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' log) && [ -n "$port" ]; do kill -0 $p || exit 1; done
			curl -sS http://127.0.0.1:$port/page http://localhost:$port/page; kill $p`)
		require.Equal(c, "served insideserved inside", out)
	})
}

// throughProxy is a connection to the proxy of a sandbox on the machine's network.
func (b *testBox) throughProxy() (c net.Conn, head string, proxy *url.URL) {
	b.Helper()
	proxy, err := url.Parse(strings.TrimSpace(b.ok("echo $http_proxy")))
	require.NoError(b, err)
	c, err = net.Dial("tcp", proxy.Host)
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c, "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.String())) + "\r\n\r\n", proxy
}

func TestEgressTunnelEndsByHalves(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var server sync.WaitGroup
	server.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		all, _ := io.ReadAll(c) // to the client's end
		_, _ = c.Write(append(all, " and back"...))
		_ = c.Close()
	})
	t.Cleanup(func() { _ = l.Close(); server.Wait() })
	b := newClient(t, start(t, Config{})).create("")
	c, head, _ := b.throughProxy()
	_, err = io.WriteString(c, "CONNECT "+l.Addr().String()+" HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\n"+head+"there")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	const yes = "HTTP/1.1 200 Connection established\r\n\r\n"
	answer := make([]byte, len(yes))
	_, err = io.ReadFull(c, answer)
	require.NoError(t, err)
	require.Equal(t, yes, string(answer))
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	out, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "there and back", string(out))
}

// TestEgressTunnelOfOldRules: one that was dialled before an update and comes
// after it is not opened.
func TestEgressTunnelOfOldRules(t *testing.T) {
	t.Parallel()
	b := newClient(t, start(t, Config{})).create("")
	b.ok("true")
	e := b.way()
	near, far := net.Pipe()
	old := &tunnel{host: "127.0.0.1", ends: [2]net.Conn{near, far}}
	require.True(t, e.add(old))
	e.remove(old)
	b.setNetwork(keyRule, "secret")
	require.False(t, e.add(old))
	old.close()
}

// TestEgressAnswersFlow: what a server has said is not kept back.
func TestEgressAnswersFlow(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		<-heard
		_, _ = io.WriteString(w, "b")
	}))
	t.Cleanup(slow.Close)
	b := newClient(t, start(t, Config{})).create("")
	_, _, proxy := b.throughProxy()
	tr := &http.Transport{Proxy: http.ProxyURL(proxy)}
	t.Cleanup(tr.CloseIdleConnections)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, "GET", slow.URL, nil)
	require.NoError(t, err)
	res, err := tr.RoundTrip(req)
	if err != nil {
		close(heard)
	}
	require.NoError(t, err)
	defer res.Body.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(res.Body, first)
	close(heard)
	require.NoError(t, err)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "ab", string(first)+string(rest))
}

// TestEgressBothWays: whichever HTTP a client takes, its request and the answer
// go on side by side. Who takes both gets HTTP/1.1.
func TestEgressBothWays(t *testing.T) {
	t.Parallel()
	echo := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Trailer", "X-End")
		w.(http.Flusher).Flush()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); w.(http.Flusher).Flush() {
			_, _ = fmt.Fprintln(w, lines.Text())
		}
		w.Header().Set("X-End", r.Header.Get("X-Key"))
	}))
	echo.EnableHTTP2 = true
	echo.StartTLS()
	t.Cleanup(func() { echo.CloseClientConnections(); echo.Close() })
	b := newClient(t, start(t, Config{EgressCA: certificate(t, echo)})).create("")
	b.setNetwork(keyRule, "secret")
	_, _, proxy := b.throughProxy()
	roots := x509.NewCertPool()
	roots.AddCert(b.srv.trust.cert)
	one, two, both := &http.Protocols{}, &http.Protocols{}, &http.Protocols{}
	one.SetHTTP1(true)
	two.SetHTTP2(true)
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	for _, want := range []struct {
		takes *http.Protocols
		major int
	}{{one, 1}, {two, 2}, {both, 1}} {
		tr := &http.Transport{Proxy: http.ProxyURL(proxy), Protocols: want.takes, TLSClientConfig: &tls.Config{RootCAs: roots}}
		t.Cleanup(tr.CloseIdleConnections)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		body, say := io.Pipe()
		context.AfterFunc(ctx, func() { _ = say.CloseWithError(ctx.Err()) })
		req, err := http.NewRequestWithContext(ctx, "POST", echo.URL, body)
		require.NoError(t, err)
		res, err := tr.RoundTrip(req)
		require.NoError(t, err, "takes %v", want.takes)
		require.Equal(t, want.major, res.ProtoMajor, "takes %v", want.takes)
		heard := bufio.NewReader(res.Body)
		for i := range 3 {
			_, err := fmt.Fprintln(say, i)
			require.NoError(t, err)
			line, err := heard.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintln(i), line)
		}
		require.NoError(t, say.Close())
		rest, err := io.ReadAll(heard)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, "secret", res.Trailer.Get("X-End"))
		require.NoError(t, res.Body.Close())
	}
}

// TestEgressCloseWaits: what the proxy began for a sandbox ends before the
// sandbox does.
func TestEgressCloseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sb := &sandbox{}
		sb.egressRules.Store(rulesFor(t, `{}`, false))
		e := &egress{sb: sb, cancel: func() {}, outer: &http.Server{}, inner: &http.Server{}}
		release := make(chan struct{})
		handler := e.counted(func(http.ResponseWriter, *http.Request) { <-release })
		go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		synctest.Wait()
		closed := make(chan struct{})
		go func() { e.close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a request was answered")
		default:
		}
		close(release)
		<-closed
		require.Panics(t, func() { handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) }, "none begins after")
	})
}

// TestEgressServersAreWhoTheySay: a rule's headers go to nobody else.
func TestEgressServersAreWhoTheySay(t *testing.T) {
	secure := newMirror(t, true)
	var called atomic.Bool
	secure.do(func(*http.Request) { called.Store(true) })
	eachNetwork(t, Config{}, func(c *client, _ bool) { // which does not know the certificate
		b := c.create("")
		b.setNetwork(keyRule, "secret")
		require.Equal(c, "502", b.run("curl -s -o /dev/null -w '%{http_code}' "+secure.URL).stdout.String())
		require.False(c, called.Load())
	})
}

func TestEgressHostOfAnother(t *testing.T) {
	secure := newMirror(t, true)
	eachNetwork(t, Config{EgressCA: certificate(t, secure.Server)}, func(c *client, _ bool) {
		b := c.create("")
		b.setNetwork(keyRule, "secret")
		for _, v := range []string{"--http1.1", "--http2"} {
			require.Equal(c, "421", b.run("curl -s -o /dev/null -w '%{http_code}' -H 'Host: evil.example' "+v+" "+secure.URL).stdout.String())
		}
	})
}

// TestEgressGit: git's requests go through with a password that it does not
// have, streams and all.
func TestEgressGit(t *testing.T) {
	need(t, "git")
	git := gitServer(t)
	at, err := url.Parse(git)
	require.NoError(t, err)
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }, FlushInterval: -1}
	var streamed atomic.Int32
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 { // CGI wants to know how much comes
			streamed.Add(1)
			b, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
		}
		behind.ServeHTTP(w, r)
	})
	plain, secure := httptest.NewServer(front), httptest.NewTLSServer(front)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("bot:pass word/1"))
	rule := fmt.Sprintf(`{"allowOut":["127.0.0.1"],"rules":{"127.0.0.1":[{"transform":{"headers":{"Authorization":%q}}}]}}`, basic)
	eachNetwork(t, Config{EgressCA: certificate(t, secure)}, func(c *client, _ bool) {
		for _, base := range []string{plain.URL, secure.URL} {
			req, err := http.NewRequestWithContext(c.Context(), "PUT", git, nil)
			require.NoError(c, err)
			made, err := http.DefaultClient.Do(req)
			require.NoError(c, err)
			repo, err := io.ReadAll(made.Body)
			require.NoError(c, err)
			require.NoError(c, made.Body.Close())
			repoURL := base + strings.TrimPrefix(string(repo), git)

			b := c.create("")
			b.setNetwork(`{"allowOut":["127.0.0.1"]}`)
			b.ok("git init -q -b main r && cd r && git config user.name n && git config user.email e@e && head -c 5000000 /dev/urandom >big && git add . && git commit -qm m")
			push := "cd r && GIT_TERMINAL_PROMPT=0 git push -q " + repoURL + " main 2>&1"
			require.NotZero(c, b.run(push).end.GetExitCode(), "nobody says who we are")
			b.setNetwork("%s", rule)
			before := streamed.Load()
			b.ok(push)
			require.Greater(c, streamed.Load(), before, "the push came as a stream")
			require.Equal(c, "m\n", b.ok("git clone -q "+repoURL+" s && cmp r/big s/big && git -C s log --format=%s"))
			b.setNetwork(`{"allowOut":["127.0.0.1"]}`)
			require.NotZero(c, b.run("GIT_TERMINAL_PROMPT=0 git ls-remote "+repoURL).end.GetExitCode(), "the window is over")
			require.NotZero(c, b.run("grep -r '"+basic[6:]+"' .").end.GetExitCode())
		}
	})
}

// TestEgressTrust: programs with certificates of their own take the proxy's.
func TestEgressTrust(t *testing.T) {
	secure := newMirror(t, true)
	eachLevelOf := Config{EgressCA: certificate(t, secure.Server)}
	need(t, "curl")
	t.Parallel()
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			cfg := eachLevelOf
			cfg.Isolation = level
			b := newClient(t, start(t, cfg)).create("")
			b.setNetwork(keyRule, "secret")
			require.Equal(t, "true\n", b.ok("curl -sS "+secure.URL+"/quiet"))
			if isFile("/usr/bin/node") {
				b.put("get.mjs", `import http from 'node:http'; import https from 'node:https'
const proxy = new URL(process.env.https_proxy), to = new URL(process.argv[2])
const auth = 'Basic ' + Buffer.from(proxy.username + ':' + proxy.password).toString('base64')
http.request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: to.host, headers: { 'Proxy-Authorization': auth } })
  .on('connect', (res, socket) => https.get(to, { socket, agent: false }, (r) => r.pipe(process.stdout))).end()`)
				require.Equal(t, "true\n", b.ok("/usr/bin/node get.mjs "+secure.URL+"/quiet"))
			}
		})
	}
}

func TestEgressRulesStay(t *testing.T) {
	plain := newMirror(t, false)
	eachNetwork(t, Config{DataDir: ""}, func(c *client, own bool) {
		cfg := Config{DataDir: c.TempDir(), NoNetwork: own, APIKey: "e2b_stays"}
		srv, err := Start(c.Context(), cfg)
		require.NoError(c, err)
		b := newClient(c.T, srv).create("")
		b.setNetwork(keyRule, "secret")
		get := "curl -sS " + plain.URL
		require.Equal(c, "GET / [secret] 0\n", b.ok(get))
		for _, body := range []string{`{}`, `{"memory":false}`} {
			require.Equal(c, 204, b.call("POST", b.on("/pause"), body).status)
			require.Equal(c, 201, b.call("POST", "/v2"+b.on("/connect"), "").status)
			require.Equal(c, "GET / [secret] 0\n", b.ok(get), "after a pause with %s", body)
		}
		b.setNetwork(keyRule, "newer")
		require.NoError(c, srv.Close())
		again := newClient(c.T, start(c.T, cfg))
		b.client = again
		require.Equal(c, "GET / [newer] 0\n", b.ok(get), "after a restart")
		b.setNetwork(`{"denyOut":["127.0.0.1"]}`)
		require.Equal(c, "403", b.run("curl -s -o /dev/null -w '%{http_code}' "+plain.URL).stdout.String())
	})
}

// TestEgressSocks: what the rules let out goes by way of a proxy of the user's.
func TestEgressSocks(t *testing.T) {
	plain := newMirror(t, false)
	socks := newSocks(t, plain.Listener.Addr().String())
	eachNetwork(t, Config{}, func(c *client, _ bool) {
		b := c.create("")
		const network = `{"allowOut":["git.invalid","192.0.2.7"],"denyOut":["0.0.0.0/0"],"egressProxy":{"address":%q,"username":"u","password":"p"},
			"rules":{"git.invalid":[{"transform":{"headers":{"X-Key":"secret"}}}]}}`
		b.setNetwork(network, socks.addr)
		require.Equal(c, "GET / [secret] 0\n", b.ok("curl -sS http://git.invalid"))
		require.Equal(c, "GET / [] 0\n", b.ok("curl -sS -p http://192.0.2.7"))
		require.Equal(c, "403", b.run("curl -s -o /dev/null -w '%{http_code}' http://192.0.2.8").stdout.String())
	})
	t.Cleanup(func() {
		require.Contains(t, socks.asked.String(), "3 git.invalid:80 u:p\n", "by name: it is the proxy who looks it up")
		require.Contains(t, socks.asked.String(), "1 192.0.2.7:80 u:p\n")
		require.NotContains(t, socks.asked.String(), "192.0.2.8")
	})
}

// socks is a SOCKS5 proxy that leads everywhere to one address.
type socks struct {
	addr  string
	asked lockedBuffer
}

func newSocks(t *testing.T, to string) *socks {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &socks{addr: l.Addr().String()}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() { s.serve(c, to) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); tasks.Wait() })
	return s
}

func (s *socks) serve(c net.Conn, to string) {
	defer c.Close()
	read := func(n byte) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(c, b)
		return b
	}
	read(read(2)[1])
	_, _ = c.Write([]byte{5, 2}) // a user and a password
	user := read(read(2)[1])
	password := read(read(1)[0])
	_, _ = c.Write([]byte{1, 0})
	kind := read(4)[3]
	var host string
	if kind == 3 {
		host = string(read(read(1)[0]))
	} else {
		host = net.IP(read(4)).String()
	}
	port := read(2)
	_, _ = fmt.Fprintf(&s.asked, "%d %s:%d %s:%s\n", kind, host, int(port[0])<<8|int(port[1]), user, password)
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(c, up); _ = c.Close() })
	_, _ = io.Copy(up, c)
	_ = up.Close()
	back.Wait()
}

// TestRulesChangeBesideCalls: what never changes of a sandbox is read without a
// lock, also while its rules are replaced. It takes the race detector to fail.
func TestRulesChangeBesideCalls(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	sb := b.within()
	var both sync.WaitGroup
	both.Go(func() {
		assert.NoError(t, sb.setNetwork(map[string]json.RawMessage{"denyOut": json.RawMessage(`["192.0.2.1"]`)}))
	})
	both.Go(func() {
		r := httptest.NewRequest("GET", "/envs", nil)
		assert.ErrorContains(t, sb.authorize(r), "unauthorized") //nolint:testifylint // not the test's goroutine
		assert.True(t, sb.trafficAllowed(r))
		_, err := sb.userOf(http.Header{})
		assert.NoError(t, err)
	})
	both.Wait()
}
