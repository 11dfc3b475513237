package events_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a client and a server. Deaf, it swallows what the server
// says; mute, what the client says. The client notices neither until cut.
type proxy struct {
	addr   string
	deaf   atomic.Bool
	mute   atomic.Bool
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	refuse bool
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: "nats://" + l.Addr().String(), conns: map[net.Conn]struct{}{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil || !p.keep(in, out) {
				_ = in.Close()
				if out != nil {
					_ = out.Close()
				}
				continue
			}
			wg.Go(func() { p.pipe(out, in, &p.mute) })
			wg.Go(func() { p.pipe(in, out, &p.deaf) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(false)
		wg.Wait()
	})
	return p
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *proxy) pipe(to, from net.Conn, swallow *atomic.Bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !swallow.Load() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut ends all connections; both ways are open again for those to come, unless
// they are refused until heal.
func (p *proxy) cut(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
	p.deaf.Store(false)
	p.mute.Store(false)
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
}
