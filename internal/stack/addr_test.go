package stack

import (
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
