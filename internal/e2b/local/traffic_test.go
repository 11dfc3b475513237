package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lockedBuffer is a record that is read while the server writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestRecord(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	c := newClient(t, start(t, Config{Isolation: None, Record: &out, APIKey: "a-key-of-my-own"}))
	b := c.create(`{"templateID":"base","envVars":{"K":"env-secret"},"metadata":{"shown":"yes"},` +
		`"network":{"allowPublicTraffic":false,"egressProxy":{"address":"h:1","password":"proxy-secret"}}}`)
	require.NotNil(t, b.TrafficAccessToken)
	req := sh("echo printed-secret; echo $S")
	req.Process.Envs = map[string]string{"S": "call-secret"}
	st, err := b.processes().Start(t.Context(), ask(b, req))
	require.NoError(t, err)
	require.NoError(t, finish(st).err)
	b.put("f", "file-secret")
	require.Equal(t, "file-secret", b.content("f"))
	b.put("f.json", `{"a":"file-secret"}`)
	require.Contains(t, b.envd("GET", "/files?path=f.json", "", "Accept-Encoding", "identity").body, "file-secret")
	sig := sign("f", "read", "", b.EnvdAccessToken, "")
	require.Equal(t, 200, c.call("GET", "/files?path=f&signature="+strings.ReplaceAll(sig, "+", "%2B"), "").status)
	require.Equal(t, 400, c.call("POST", "/v2/sandboxes", `{"templateID":"base","timeout":0}`).status)
	require.Equal(t, 204, c.call("DELETE", b.on(""), "").status)
	require.Equal(t, 404, c.call("GET", b.on(""), "").status)

	// A line is written when its call is over, a moment after its answer.
	require.Eventually(t, func() bool { return strings.Count(out.String(), "\n") == 10 }, patience, time.Millisecond, "%s", &out)
	for _, secret := range []string{
		"a-key-of-my-own", b.EnvdAccessToken, *b.TrafficAccessToken, sig[3:20], "env-secret", "proxy-secret", "call-secret", "file-secret",
		"printed-secret\\n",
	} {
		require.NotContains(t, out.String(), secret)
	}
	byOp := make(map[string]exchange)
	for s := bufio.NewScanner(strings.NewReader(out.String())); s.Scan(); {
		var ex exchange
		require.NoError(t, json.Unmarshal(s.Bytes(), &ex), "%s", s.Text())
		byOp[ex.Op] = ex
	}
	require.Equal(t, 400, byOp["create"].Status)
	require.Contains(t, string(byOp["create"].Answer), "Timeout must be greater than 0", "what it takes to understand a fault is there")
	require.Equal(t, 204, byOp["kill"].Status)
	require.Contains(t, string(byOp["start"].Request), "echo printed-secret", "the command line, as it was sent")
	require.Equal(t, "application/connect+json", byOp["start"].Headers["Content-Type"])
	require.Positive(t, byOp["start"].Sent)
	require.Positive(t, byOp["read"].Sent)
	require.Empty(t, byOp["read"].Answer)
	require.Contains(t, byOp["read"].URL, "signature=%5Bremoved%5D")
	require.Contains(t, out.String(), `"shown":"yes"`)
}

func TestRecordOfACutCall(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	c := newClient(t, start(t, Config{Isolation: None, Record: &out}))
	c.srv.Faults().Add(Fault{Op: "list", Action: LostAnswer{}})
	_, err := c.try("GET", "/v2/sandboxes", "")
	require.Error(t, err)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `"op":"list"`) }, patience, time.Millisecond)
	require.Contains(t, out.String(), `"status":0`)
}

func TestLatency(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None, Latency: 200 * time.Millisecond}))
	began := time.Now()
	b := c.create("")
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	began = time.Now()
	require.Equal(t, 204, b.envd("GET", "/health", "").status)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond, "both planes are far away")
}

func TestAddressBeyondLoopback(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		_, err := Start(t.Context(), Config{Addr: addr, Isolation: None, DataDir: t.TempDir()})
		require.ErrorContains(t, err, "is not loopback, and isolation is none", "%s", addr)
		require.ErrorContains(t, err, "--insecure-no-isolation")
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0"} {
		start(t, Config{Addr: addr, Isolation: None})
	}
	start(t, Config{Addr: "0.0.0.0:0", Isolation: None, Insecure: true})
	if best := levels(t); best[len(best)-1] == Strong {
		c := newClient(t, start(t, Config{Addr: "0.0.0.0:0", Isolation: Strong}))
		require.Contains(t, c.call("GET", "/health", "").body, "isolation strong")
	}
}
