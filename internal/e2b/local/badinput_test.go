package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// envelope is one frame of a Connect stream that says it is n bytes long.
func envelope(flags byte, n uint32, payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, n)) + payload
}

func whole(flags byte, payload string) string { return envelope(flags, uint32(len(payload)), payload) }

// TestBadFrames sends frames that are not what they say. Each is refused with
// its own error, and what it asked for is not begun.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	neighbour, b := c.create(""), c.create("")
	_, pid := b.begin(&process.StartRequest{Process: &process.ProcessConfig{Cmd: "cat"}})
	const touch = `{"process":{"cmd":"touch","args":["begun"]},"stdin":false}`
	input := fmt.Sprintf(`{"start":{"process":{"pid":%d}}}`, pid)
	bomb := zipped(t, `{"process":{"cmd":"touch","args":["begun","`+strings.Repeat("x", maxMessage)+`"]}}`)
	for _, tc := range []struct {
		name, method, body string
		header             []string
		code, message      string
	}{
		{name: "no frame", method: "Start", body: "", code: "unimplemented", message: "zero messages"},
		{name: "a frame's head is cut", method: "Start", body: "\x00\x00\x00", code: "internal", message: "incomplete envelope"},
		{name: "a frame is cut", method: "Start", body: whole(0, touch)[:40], code: "internal", message: "promised 58 bytes"},
		{name: "a frame is longer than it says", method: "Start", body: envelope(0, uint32(len(touch)-5), touch), code: "invalid_argument"},
		{name: "a frame says it has no end", method: "Start", body: envelope(0, 1<<32-1, touch), code: "resource_exhausted", message: "larger than configured max"},
		{name: "a frame says it is just too long", method: "StreamInput", body: whole(0, input) + envelope(0, maxMessage+1, "x"), code: "resource_exhausted"},
		{name: "two frames for one", method: "Start", body: whole(0, touch) + whole(0, touch), code: "unimplemented", message: "multiple messages"},
		{name: "an unknown flag", method: "Start", body: whole(0x40, touch), code: "internal", message: "flags"},
		{name: "compressed, without a word of it", method: "Start", body: whole(1, zipped(t, touch)), code: "internal", message: "compress"},
		{name: "compressed in an unknown way", method: "Start", body: whole(1, touch), header: []string{"Connect-Content-Encoding", "br"}, code: "unimplemented", message: "unknown compression"},
		{name: "compressed, and no gzip", method: "Start", body: whole(1, touch), header: []string{"Connect-Content-Encoding", "gzip"}, code: "invalid_argument"},
		{name: "compressed, and cut", method: "Start", body: whole(1, zipped(t, touch)[:30]), header: []string{"Connect-Content-Encoding", "gzip"}, code: "invalid_argument"},
		{name: "small until it is unpacked", method: "Start", body: whole(1, bomb), header: []string{"Connect-Content-Encoding", "gzip"}, code: "resource_exhausted"},
		{name: "no JSON", method: "Start", body: whole(0, `{"process":`), code: "invalid_argument", message: "unmarshal"},
		{name: "JSON of another shape", method: "Start", body: whole(0, `{"process":["touch","begun"]}`), code: "invalid_argument"},
		{name: "not UTF-8", method: "Start", body: whole(0, "{\"process\":{\"cmd\":\"\xff\xfe\"}}"), code: "invalid_argument", message: "UTF-8"},
		{name: "input before its start", method: "StreamInput", body: whole(0, `{"data":{"input":{"stdin":"eA=="}}}`), code: "invalid_argument", message: "the first message must be a start"},
		{name: "input that ends in a frame", method: "StreamInput", body: whole(0, input) + whole(0, `{"data":{"input":{"stdin":"eA=="}}}`)[:20], code: "internal", message: "promised"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			header := append([]string{"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1"}, tc.header...)
			r := b.envd("POST", "/process.Process/"+tc.method, tc.body, header...)
			require.Equal(t, http.StatusOK, r.status, "a stream's error is in its last frame: %s", r.body)
			require.GreaterOrEqual(t, len(r.body), 5)
			require.Equal(t, byte(2), r.body[0], "%q", r.body)
			require.Contains(t, r.body, `"code":"`+tc.code+`"`)
			require.Contains(t, r.body, tc.message)
			require.Equal(t, 404, b.envd("GET", "/files?path=begun", "").status, "nothing was begun")
		})
	}
	r := b.envd("POST", "/process.Process/Start", whole(1, zipped(t, touch)),
		"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1", "Connect-Content-Encoding", "gzip")
	require.Contains(t, r.body, `"exited":true`, "compressed as announced is taken: %q", r.body)
	require.Equal(t, 200, b.envd("GET", "/files?path=begun", "").status)
	un := b.envd("POST", "/process.Process/SendInput", strings.Repeat(" ", maxMessage+1), "Content-Type", "application/json")
	require.Equal(t, http.StatusTooManyRequests, un.status, "resource_exhausted, as Connect maps it: %s", un.body)
	require.Len(t, b.list(), 1, "the command that input was for lives")
	unharmed(c, neighbour)
}

// wire is a connection of a client that does not keep to the rules.
type wire struct {
	*testing.T
	net.Conn
}

func (c *client) wire() wire {
	c.Helper()
	conn, err := net.Dial("tcp", c.srv.Addr())
	require.NoError(c, err)
	c.Cleanup(func() { _ = conn.Close() })
	return wire{c.T, conn}
}

// post sends a request's head and as much of its body as is given. A length
// below 0 is a chunked body without its last chunk.
func (w wire) post(path string, length int, body string, header ...string) {
	w.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\n", path)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	if length < 0 {
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body)
	} else {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", length, body)
	}
	_, err := w.Write(b.Bytes())
	require.NoError(w, err)
}

// hangUp ends the connection: by a reset, or in order.
func (w wire) hangUp(reset bool) {
	w.Helper()
	if reset {
		require.NoError(w, w.Conn.(*net.TCPConn).SetLinger(0))
	}
	require.NoError(w, w.Close())
}

// idle waits until no call to the sandbox is being served.
func (b *testBox) idle() {
	b.Helper()
	sb, err := b.srv.find(b.SandboxID)
	require.NoError(b, err)
	require.Eventually(b, func() bool {
		sb.calls.mu.Lock()
		defer sb.calls.mu.Unlock()
		return len(sb.calls.open) == 0
	}, patience, time.Millisecond)
}

// TestHalfSentBodies leaves in the middle of a request. What was asked for is not
// done by half, but for an upload: that leaves a file cut short, as with envd.
func TestHalfSentBodies(t *testing.T) {
	t.Parallel()
	srv := start(t, Config{Isolation: None})
	c := newClient(t, srv)
	neighbour := c.create("")
	for _, reset := range []bool{false, true} {
		for _, length := range []int{-1, 4 << 20} {
			t.Run(fmt.Sprintf("reset %v, length %d", reset, length), func(t *testing.T) {
				c := newClient(t, srv)
				b := c.create("")
				half := func(path, body string, header ...string) {
					t.Helper()
					w := c.wire()
					w.post(path, length, body, header...)
					w.hangUp(reset)
				}
				key := []string{"X-API-Key", srv.APIKey(), "Content-Type", "application/json"}
				sandboxes := len(srv.Sandboxes())
				half("/v2/sandboxes", `{"templateID":"base",`, key...)
				half("/v2"+b.on("/connect"), `{"timeout":3600`, key...)
				half(b.on("/timeout"), `{"timeout":0`, key...)
				half(b.on("/pause"), `{"memory":false`, key...)
				half(b.on("/snapshots"), `{"name":"half"`, key...)

				stream := append(b.headers(), "Content-Type", "application/connect+json", "Connect-Protocol-Version", "1")
				half("/process.Process/Start", whole(0, `{"process":{"cmd":"touch","args":["begun"]}}`)[:30], stream...)
				half("/process.Process/SendSignal", `{"process":{"pid":1},`, append(b.headers(), "Content-Type", "application/json")...)
				half("/files/compose", `{"source_paths":["x"],"destination":"y"`, append(b.headers(), "Content-Type", "application/json")...)

				b.put("kept", "before")
				half("/files?path=new", strings.Repeat("n", 100_000), append(b.headers(), "Content-Type", octets)...)
				form := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"one\"\r\n\r\nfirst\r\n" +
					"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"two\"\r\n\r\nsec"
				half("/files", form, append(b.headers(), "Content-Type", "multipart/form-data; boundary=x")...)
				b.idle()

				require.LessOrEqual(t, len(srv.Sandboxes()), sandboxes)
				require.Equal(t, "running", string(b.detail().State))
				require.Equal(t, 404, b.envd("GET", "/files?path=begun", "").status)
				require.Empty(t, b.list())
				require.NotContains(t, c.call("GET", "/snapshots", "").body, "half")
				require.Equal(t, "before", b.content("kept"), "a file that was not asked for")
				for path, full := range map[string]string{"new": strings.Repeat("n", 100_000), "one": "first", "two": "sec"} {
					require.True(t, strings.HasPrefix(full, b.content(path)), "%s holds what was sent, from its start", path)
				}
				b.put("new", "anew")
				require.Equal(t, "anew", b.content("new"), "and is whole by the next upload")
				require.Equal(t, 204, c.call("DELETE", b.on(""), "").status)
			})
		}
	}
	// Clients that send half and stay do not keep anybody from anything, nor the
	// server from its end.
	for range 50 {
		c.wire().post("/v2/sandboxes", 1000, "{", "X-API-Key", srv.APIKey())
		c.wire().post("/files?path=stuck", 1000, "x", append(neighbour.headers(), "Content-Type", octets)...)
		_, _ = io.WriteString(c.wire(), "POST /files?path=head HTTP/1.1\r\nHost: lo")
	}
	unharmed(c, neighbour)
	require.Len(t, srv.Sandboxes(), 1)
}

// TestWrongSecrets tries tokens and signatures of others, of yesterday and of
// another form. Neither a command nor a file comes of it.
func TestWrongSecrets(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b, other := c.create(""), c.create("")
	b.put("s", "secret")
	now := time.Now().Unix()
	route := []string{headerSandbox, b.SandboxID, headerPort, envdPort}
	for _, token := range []string{"", "x", other.EnvdAccessToken, b.EnvdAccessToken + "x", b.EnvdAccessToken[1:], strings.ToUpper(b.EnvdAccessToken), c.srv.APIKey()} {
		header := slices.Concat(route, []string{"X-Access-Token", token})
		for path, body := range map[string]string{
			"/process.Process/Start":        whole(0, `{"process":{"cmd":"touch","args":["begun"]}}`),
			"/process.Process/List":         "{}",
			"/filesystem.Filesystem/Remove": `{"path":"s"}`,
			"/files/compose":                `{"source_paths":["s"],"destination":"t"}`,
			"/files?path=s":                 "changed",
		} {
			kind := "application/json"
			switch {
			case strings.HasSuffix(path, "Start"):
				kind = "application/connect+json"
			case strings.HasPrefix(path, "/files?"):
				kind = octets
			}
			r := c.call("POST", path, body, append(header[:len(header):len(header)], "Content-Type", kind)...)
			require.Equal(t, 401, r.status, "%s with %q: %s", path, token, r.body)
			require.Contains(t, r.body, `{"code":401,"message":`)
			require.NotContains(t, r.body, b.EnvdAccessToken)
		}
		require.Equal(t, 401, c.call("GET", "/envs", "", header...).status)
		require.Equal(t, 401, c.call("GET", "/files?path=s", "", header...).status)
	}
	for _, key := range []string{"", "x", c.srv.APIKey() + "x", strings.ToUpper(c.srv.APIKey()), b.EnvdAccessToken} {
		r := c.call("DELETE", b.on(""), "", "X-API-Key", key)
		require.Equal(t, 401, r.status, "%s", r.body)
	}
	later, past := fmt.Sprint(now+60), fmt.Sprint(now-1)
	for _, tc := range []struct{ name, op, path, user, token, exp, says string }{
		{"another's token", "read", "s", "", other.EnvdAccessToken, "", ""},
		{"to read, not to write", "write", "s", "", b.EnvdAccessToken, "", ""},
		{"of another path", "read", "/home/user/s", "", b.EnvdAccessToken, "", ""},
		{"of another user", "read", "s", "root", b.EnvdAccessToken, "", ""},
		{"expired", "read", "s", "", b.EnvdAccessToken, past, past},
		{"its end moved", "read", "s", "", b.EnvdAccessToken, past, later},
		{"its end taken away", "read", "s", "", b.EnvdAccessToken, past, ""},
		{"an end that is no number", "read", "s", "", b.EnvdAccessToken, "never", "never"},
		{"an end beyond all numbers", "read", "s", "", b.EnvdAccessToken, "99999999999999999999", "99999999999999999999"},
	} {
		q := url.Values{"path": {"s"}, "signature": {sign(tc.path, tc.op, tc.user, tc.token, tc.exp)}}
		if tc.says != "" {
			q.Set("signature_expiration", tc.says)
		}
		for _, header := range [][]string{nil, route} {
			if header == nil && tc.token != b.EnvdAccessToken {
				continue // it leads to the other one
			}
			r := c.call("GET", "/files?"+q.Encode(), "", header...)
			require.Equal(t, 401, r.status, "%s: %s", tc.name, r.body)
			require.NotContains(t, r.body, "secret")
		}
	}
	require.Equal(t, "secret", b.content("s"))
	require.Equal(t, 404, b.envd("GET", "/files?path=begun", "").status)
	unharmed(c, b)
}

// TestPathsOfFiles writes to paths that mean to lead out, or to what is no file.
// Each is refused or stays in the sandbox's own tree.
func TestPathsOfFiles(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		outside := c.TempDir()
		require.NoError(c, b.run("mkfifo pipe; ln -s loop2 loop1; ln -s loop1 loop2; ln -s "+outside+" out; ln -s ../../../../../../../../../.. top; mkdir d").err)
		for path, status := range map[string][]int{
			"pipe":                                 {400, 500},
			"loop1":                                {400, 404, 500},
			"out/new":                              {200, 404, 500}, // of the sandbox's own tree
			"top" + outside + "/new":               {200, 404, 500},
			"../../../../../.." + outside + "/new": {200},
			"d/../d/./f":                           {200},
			"d":                                    {400},
			"/":                                    {400},
			"d/" + strings.Repeat("n", 300):        {400, 500},
			strings.Repeat("d/", 3000) + "f":       {400, 500},
			"nul\x00byte":                          {400},
			"/dev/null/x":                          {200, 400, 404, 500},
			"/proc/1/mem":                          {200, 403, 404, 500},
			"/proc/1/root" + outside + "/new":      {200, 403, 404, 500},
		} {
			for _, send := range []string{"octets", "form"} {
				body, kind := "x", octets
				if send == "form" {
					body, kind = form(c.T, "any", "x")
				}
				r := b.envd("POST", "/files?path="+url.QueryEscape(path), body, "Content-Type", kind)
				require.Contains(c, status, r.status, "%.100s as %s: %s", path, send, r.body)
				if path == "/proc/1/mem" && c.srv.Isolation() == "strong" { // elsewhere the tree has no kernel's files
					require.NotEqual(c, 200, r.status, r.body)
				}
				if r.status != 200 {
					require.Contains(c, r.body, fmt.Sprintf(`{"code":%d,"message":"`, r.status))
				}
			}
			require.NotEqual(c, 0, b.envd("GET", "/files?path="+url.QueryEscape(path), "").status)
		}
		left, err := os.ReadDir(outside)
		require.NoError(c, err)
		require.Empty(c, left)
		require.NoFileExists(c, filepath.Join(filepath.Dir(outside), "new"))
		require.Equal(c, "x", b.content("d/f"))
		unharmed(c, b)
	})
}

// TestTooLongACommandLine is told of the command, not of what leads in.
func TestTooLongACommandLine(t *testing.T) {
	t.Parallel()
	b := newClient(t, start(t, Config{})).create("")
	r := b.run("echo " + strings.Repeat("x", 200_000))
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(r.err))
	require.ErrorContains(t, r.err, "error starting process '/bin/sh': argument list too long")
}
