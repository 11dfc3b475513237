package main

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
)

// What the flags say of limits is what the server gets, and a value that makes no
// sense is an error that names the flag.
func TestLimitsOfFlags(t *testing.T) {
	t.Parallel()
	good := e2bOptions{memory: 2048, processes: 1024, disk: 10240, network: "none"}
	e, _, err := good.server()
	require.NoError(t, err)
	require.Equal(t, local.Limits{Memory: 2 << 30, Processes: 1024, Disk: 10 << 30}, e.Limits)

	none := good
	none.memory, none.processes, none.disk = -1, -1, -1
	e, _, err = none.server()
	require.NoError(t, err)
	require.Negative(t, e.Limits.Memory)
	require.Negative(t, e.Limits.Processes)
	require.Negative(t, e.Limits.Disk)

	for flag, values := range map[string][]int64{"memory": {0, -2, 1<<40 + 1}, "processes": {0, -2}, "disk": {0, 15, -2, 1<<24 + 1}} {
		for _, v := range values {
			bad := good
			switch flag {
			case "memory":
				bad.memory = v
			case "processes":
				bad.processes = int(v)
			case "disk":
				bad.disk = v
			}
			_, _, err := bad.server()
			require.ErrorContains(t, err, "--"+flag+" ", "%d", v)
		}
	}
}

// TestTakenAddress: who is told what is in the way knows the flag.
func TestTakenAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a := app{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }}
	err = a.e2b(t.Context(), e2bOptions{addr: l.Addr().String(), network: "none", memory: 64, processes: 64, disk: -1, logLevel: "error"})
	require.ErrorContains(t, err, "--e2b-addr: ")
	require.ErrorContains(t, err, "address already in use; without it a free port is taken")
}
