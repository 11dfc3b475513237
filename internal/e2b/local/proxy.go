package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"
)

// proxy hands a call on to a server inside the sandbox.
func (s *sandbox) proxy(w http.ResponseWriter, r *http.Request, port string) {
	if !s.trafficAllowed(r) {
		proxyError{Sandbox: s.id(), Message: "The traffic access token is missing or wrong", Code: http.StatusForbidden}.write(w, r)
		return
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		writeText(w, failf(http.StatusBadRequest, "Invalid sandbox port"))
		return
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = s.wayIn.scheme(int(n)), loopback(port), p.In.URL.RawQuery
			p.Out.Host = cmp.Or(s.wayIn.host(port), p.In.Host)
			p.SetXForwarded()
		},
		Transport: &http.Transport{
			DisableKeepAlives:  true,
			DisableCompression: true,                                  // what the two have agreed on is theirs
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as with E2B: the certificate is the sandbox's own making
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, port) },
		},
		ErrorLog: s.srv.http.ErrorLog,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
			proxyError{Sandbox: s.id(), Message: "The sandbox is running but port is not open", Code: http.StatusBadGateway, Port: int(n)}.write(w, r)
		},
	}
	p.ServeHTTP(w, r)
}

func (s *sandbox) trafficAllowed(r *http.Request) bool {
	return s.rec.TrafficToken == "" || sameSecret(r.Header.Get("e2b-traffic-access-token"), s.rec.TrafficToken)
}

// autoResumeLeast is the least time that traffic wakes a sandbox for.
const autoResumeLeast = 300 * time.Second

// autoResume wakes a paused sandbox for a call, if it was created so and the
// call has the right to. It answers the call itself when it does not. One that
// has no memory is not woken: what the call is for does not run in it.
func (s *sandbox) autoResume(w http.ResponseWriter, r *http.Request, port string) bool {
	rec := s.snapshot()
	if !rec.AutoResume || s.is(gone) {
		writeGone(w, r, s.id())
		return false
	}
	allowed := s.trafficAllowed(r)
	if port == envdPort {
		allowed = rec.Token == "" || sameSecret(r.Header.Get("X-Access-Token"), rec.Token)
	}
	if !allowed {
		proxyError{Sandbox: s.id(), Message: "The access token is missing or wrong", Code: http.StatusForbidden}.write(w, r)
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	_, err := s.connect(ctx, max(autoResumeLeast, rec.Timeout), resumeMemory)
	switch {
	case errors.Is(err, errAsleep):
		writeGone(w, r, s.id())
	case err != nil:
		writeError(w, err)
	}
	return err == nil
}
