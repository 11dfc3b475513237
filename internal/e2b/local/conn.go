package local

import (
	"context"
	"net"
	"net/http"
	"sync"
)

type connKey struct{}

// withConn remembers the TCP connection below a request, so that it can be cut.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// cut resets the connection below ctx's request: no terminating chunk, no
// answer, as when the machine behind a proxy dies.
func cut(ctx context.Context) {
	c, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // a reset, not an orderly end
	}
	_ = c.Close()
}

// calls are the requests that a sandbox is serving. The zero value is ready.
type calls struct {
	mu   sync.Mutex
	open map[*http.Request]context.CancelFunc
}

// add notes a request that is being served; the returned func takes it out and
// must be called before the handler returns, because the connection may serve
// another sandbox next.
func (c *calls) add(r *http.Request, cancel context.CancelFunc) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*http.Request]context.CancelFunc)
	}
	c.open[r] = cancel
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, r)
	}
}

// cut resets every request being served.
func (c *calls) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r, cancel := range c.open {
		cut(r.Context())
		cancel()
	}
}
