package stack

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitAddr(t *testing.T) {
	t.Parallel()
	tests := []struct {
		addr, host string
		port       int
		err        string
	}{
		{"", "127.0.0.1", -1, ""},
		{"127.0.0.1:4222", "127.0.0.1", 4222, ""},
		{"localhost:0", "127.0.0.1", -1, ""},
		{"[::1]:80", "::1", 80, ""},
		{"0.0.0.0:4222", "", 0, "not loopback"},
		{":4222", "", 0, "not loopback"},
		{"example.com:1", "", 0, "not loopback"},
		{"4222", "", 0, "want host:port"},
		{"127.0.0.1:nats", "", 0, "port"},
		{"127.0.0.1:70000", "", 0, "port"},
	}
	for _, tt := range tests {
		t.Run(tt.addr, func(t *testing.T) {
			t.Parallel()
			host, port, err := splitAddr(tt.addr)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.host, host)
			require.Equal(t, tt.port, port)
		})
	}
}

// A held address is nobody else's: neither a listener nor a connection that takes any
// port gets it, though who knows it may listen there, and again.
func TestHoldAddr(t *testing.T) {
	t.Parallel()
	addr, release, err := HoldAddr()
	require.NoError(t, err)
	defer release()
	_, err = net.Dial("tcp", addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	for range 2 {
		r, err := StartRedis(RedisOptions{Addr: addr})
		require.NoError(t, err)
		require.NoError(t, r.Stop())
		s, err := StartNATS(NATSOptions{Addr: addr, StoreDir: t.TempDir()})
		require.NoError(t, err)
		require.Equal(t, addr, s.Addr().String())
		s.Shutdown()
		s.WaitForShutdown()
	}
	// A connection that asks for this very port shows that the kernel knows it is taken.
	_, p, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	port, err := strconv.Atoi(p)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}
	_, err = d.Dial("tcp", l.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRINUSE)

	release()
	release()
	c, err := d.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_ = c.Close()
}
