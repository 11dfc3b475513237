package e2b

import (
	"net"
	"net/http"
	"time"
)

// noRedirect hands a redirect back as the answer: net/http would carry the
// X-API-KEY and X-Access-Token headers to the other host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newHTTPClient returns a client without a global timeout: control-plane calls
// carry their own, and a stream may last for days.
func newHTTPClient(from *http.Client, idle int) *http.Client {
	if from != nil {
		c := *from
		c.Timeout = 0
		c.CheckRedirect = noRedirect
		return &c
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		CheckRedirect: noRedirect,
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        4 * idle,
			MaxIdleConnsPerHost: idle,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true, // a compressed body has no length and no offsets
			HTTP2: &http.HTTP2Config{
				SendPingTimeout: 30 * time.Second,
				PingTimeout:     15 * time.Second,
			},
		},
	}
}
