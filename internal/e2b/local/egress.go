package local

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"
)

// egress is a sandbox's way out: an HTTP proxy that holds its network rules.
// In a sandbox with a network of its own it listens in there, and nothing else
// leads out; on the machine's network it asks for a password, so that a sandbox
// does not go out under the rules of another.
//
// It lives with the sandbox's jail. Requests to a host with a rule are read, by
// TLS of the server's own authority if need be; the rest is tunnelled as it is.
type egress struct {
	sb       *sandbox
	listener net.Listener
	password string // empty: none is asked for
	outer    *http.Server
	inner    *http.Server  // of the connections that are read
	read     chan net.Conn // to inner
	tls      *tls.Config   // of those
	cancel   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	tunnels map[*tunnel]struct{}
	tasks   sync.WaitGroup
}

// tunnel is a connection that goes through unread.
type tunnel struct {
	host string
	raw  bool // no TLS and no HTTP, so that no rule rewrites it
	ends [2]net.Conn
}

func (t *tunnel) close() { _ = errors.Join(t.ends[0].Close(), t.ends[1].Close()) }

// openEgress opens the way out of a sandbox that runs on j.
func openEgress(s *sandbox, j *jail) (*egress, error) {
	e := &egress{sb: s, read: make(chan net.Conn), tls: s.srv.trust.downstream(), tunnels: make(map[*tunnel]struct{})}
	var err error
	if j.net != nil {
		e.listener, err = listenIn(int(j.net.Fd()))
	} else {
		e.password = randomHex(16)
		e.listener, err = net.Listen("tcp", loopback("0"))
	}
	if err != nil {
		return nil, fmt.Errorf("open the egress proxy of sandbox %s: %w", s.id(), err)
	}
	life, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	base := func(net.Listener) context.Context { return life }
	e.outer = &http.Server{
		Handler: e.counted(e.serve), BaseContext: base, ReadHeaderTimeout: dialTimeout, IdleTimeout: 10 * time.Minute, ErrorLog: s.srv.http.ErrorLog,
	}
	e.inner = &http.Server{
		Handler: e.counted(e.serveRead), BaseContext: base, ReadHeaderTimeout: dialTimeout, IdleTimeout: 10 * time.Minute, ErrorLog: s.srv.http.ErrorLog,
		TLSConfig: s.srv.trust.downstream(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, proxiedKey{}, c)
		},
	}
	e.tasks.Go(func() { _ = e.outer.Serve(e.listener) }) // both end with close
	e.tasks.Go(func() { _ = e.inner.Serve(readListener{e, life.Done()}) })
	return e, nil
}

// close ends every connection of the sandbox to the outside.
func (e *egress) close() {
	e.mu.Lock()
	e.closed = true
	for t := range e.tunnels {
		t.close()
	}
	e.mu.Unlock()
	e.cancel()
	_ = e.outer.Close()
	_ = e.inner.Close()
	e.tasks.Wait()
	e.rules().transport.CloseIdleConnections()
}

func (e *egress) rules() *egressRules { return e.sb.egressRules.Load() }

// port is where the proxy listens, in the sandbox or on the machine.
func (e *egress) port() string {
	_, port, _ := net.SplitHostPort(e.listener.Addr().String())
	return port
}

// environment tells a sandbox's commands the way out. A loopback address leads
// to the sandbox itself, unless the rules are about it.
func (e *egress) environment() []string {
	at := "http://" + loopback(e.port())
	if e.password != "" {
		at = "http://sandbox:" + e.password + "@" + loopback(e.port())
	}
	var direct []string
	rules := e.rules()
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		if !rules.namesLoopback(host) {
			direct = append(direct, host)
		}
	}
	no := strings.Join(direct, ",")
	return []string{
		"http_proxy=" + at, "https_proxy=" + at, "HTTP_PROXY=" + at, "HTTPS_PROXY=" + at, "no_proxy=" + no, "NO_PROXY=" + no,
		"NODE_USE_ENV_PROXY=1",
	}
}

// review ends the tunnels that the rules of now would not have opened.
func (e *egress) review() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for t := range e.tunnels {
		if !e.mayStay(t) {
			t.close()
		}
	}
}

func (e *egress) mayStay(t *tunnel) bool {
	rules := e.rules()
	if !t.raw && rules.rewritten(t.host) {
		return false
	}
	a, direct := t.ends[1].RemoteAddr().(*net.TCPAddr)
	return rules.socks != nil || !direct || rules.permits(t.host, a.AddrPort().Addr())
}

// counted lets close wait for a handler.
func (e *egress) counted(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		e.tasks.Add(1)
		e.mu.Unlock()
		defer e.tasks.Done()
		next(w, r)
	})
}

// serve answers what the sandbox asks of its proxy.
func (e *egress) serve(w http.ResponseWriter, r *http.Request) {
	if !e.knows(r) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="sandbox"`)
		http.Error(w, "egress: the password of the sandbox is in its http_proxy", http.StatusProxyAuthRequired)
		return
	}
	switch {
	case r.Method == http.MethodConnect:
		e.connect(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		e.forward(w, r, r.URL.Scheme, r.URL.Host)
	default:
		http.Error(w, "egress: this is a proxy for http and CONNECT", http.StatusBadRequest)
	}
}

func (e *egress) knows(r *http.Request) bool {
	if e.password == "" {
		return true
	}
	as := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	_, password, _ := as.BasicAuth()
	return sameSecret(password, e.password)
}

// forward hands a request on with the headers of the rules.
func (e *egress) forward(w http.ResponseWriter, r *http.Request, scheme, host string) {
	rules := e.rules()
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = scheme, host, p.In.URL.RawQuery
			p.Out.Host = p.In.Host
			for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if v, ok := p.In.Header[h]; ok { // the client's own matter
					p.Out.Header[h] = v
				}
			}
			rules.rewrite(p.Out, name)
		},
		Transport:     rules.transport,
		FlushInterval: -1,
		ErrorLog:      e.outer.ErrorLog,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, host, err) },
	}
	// Answers may begin before a request has ended, as they may over HTTP/2.
	_ = http.NewResponseController(w).EnableFullDuplex()
	p.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, host string, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, errDenied) {
		status, err = http.StatusForbidden, errDenied
	}
	http.Error(w, fmt.Sprintf("egress: %s: %v", host, err), status)
}

// connect opens a connection for the sandbox: one that is read where a rule
// rewrites requests, else a tunnel.
func (e *egress) connect(w http.ResponseWriter, r *http.Request) {
	rules := e.rules()
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		http.Error(w, "egress: CONNECT wants host:port", http.StatusBadRequest)
		return
	}
	if !rules.rewritten(host) {
		up, err := rules.dial(r.Context(), "tcp", r.Host)
		if err != nil {
			refuse(w, r.Host, err)
			return
		}
		if down, err := accept(w, r.Host); err == nil {
			e.tunnel(&tunnel{host: host, ends: [2]net.Conn{down, up}})
		} else {
			_ = up.Close()
		}
		return
	}
	if _, err := rules.resolve(r.Context(), host); err != nil && (rules.socks == nil || errors.Is(err, errDenied)) {
		refuse(w, r.Host, err)
		return
	}
	if down, err := accept(w, r.Host); err == nil {
		e.look(r.Context(), down)
	}
}

// accept says yes to a CONNECT.
func accept(w http.ResponseWriter, host string) (*proxied, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	name, _, _ := net.SplitHostPort(host)
	c := &proxied{Conn: conn, buf: buf.Reader, host: host, name: canonicalHost(name)}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// look hands a connection to inner if it speaks TLS or HTTP. What speaks
// neither, as ssh, has no requests to rewrite.
func (e *egress) look(ctx context.Context, c *proxied) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	first, err := c.buf.Peek(4)
	stop()
	switch {
	case err != nil:
		_ = c.Close()
	case first[0] == 0x16: // a TLS handshake
		e.hand(ctx, tls.Server(c, e.tls))
	case slices.Contains(methods, string(first)):
		e.hand(ctx, c)
	default:
		up, err := e.rules().dial(ctx, "tcp", c.host)
		if err != nil {
			_ = c.Close()
			return
		}
		e.tunnel(&tunnel{host: c.name, raw: true, ends: [2]net.Conn{c, up}})
	}
}

// methods are what HTTP requests begin with.
var methods = []string{"GET ", "HEAD", "POST", "PUT ", "PATC", "DELE", "OPTI"}

func (e *egress) hand(ctx context.Context, c net.Conn) {
	select {
	case e.read <- c:
	case <-ctx.Done():
		_ = c.Close()
	}
}

// serveRead answers a request of a connection that is read. It must be for the
// host that the connection is for: by another name the server behind might lead
// it, and the rule's headers, to somebody else.
func (e *egress) serveRead(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(proxiedKey{}).(*proxied)
	if !ok {
		http.Error(w, "egress: no connection of the proxy's", http.StatusInternalServerError)
		return
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = strings.Trim(r.Host, "[]")
	}
	if canonicalHost(name) != c.name {
		http.Error(w, "egress: "+r.Host+" is not the host that was asked for", http.StatusMisdirectedRequest)
		return
	}
	e.forward(w, r, scheme, c.host)
}

// tunnel carries bytes both ways until both sides have ended.
func (e *egress) tunnel(t *tunnel) {
	defer t.close()
	if !e.add(t) {
		return
	}
	defer e.remove(t)
	var ways sync.WaitGroup
	for i := range t.ends {
		from, to := t.ends[i], t.ends[1-i]
		ways.Go(func() {
			if _, err := io.Copy(to, from); err != nil {
				t.close()
				return
			}
			if half, ok := to.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
				t.close()
			}
		})
	}
	ways.Wait()
}

// add counts a tunnel among the open ones, unless the rules that opened it are
// no more.
func (e *egress) add(t *tunnel) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || !e.mayStay(t) {
		return false
	}
	e.tunnels[t] = struct{}{}
	return true
}

func (e *egress) remove(t *tunnel) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.tunnels, t)
}

// proxied is a connection of a sandbox to a host, as it believes.
type proxied struct {
	net.Conn
	buf  *bufio.Reader // what the server has read of it
	host string        // with its port
	name string
}

type proxiedKey struct{}

func (c *proxied) Read(p []byte) (int, error) { return c.buf.Read(p) }

func (c *proxied) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// readListener gives inner the connections that are read.
type readListener struct {
	e    *egress
	done <-chan struct{}
}

func (l readListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.e.read:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l readListener) Close() error   { return nil } // done says it
func (l readListener) Addr() net.Addr { return l.e.listener.Addr() }
