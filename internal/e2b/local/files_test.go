package local

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func zipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, s)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

const octets = "application/octet-stream"

func TestReadAndWrite(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		r := b.envd("POST", "/files?path=d/o.txt", "0123456789", "Content-Type", octets, "X-Metadata-Foo", "bar")
		require.Equal(c, 200, r.status, "%s", r.body)
		require.JSONEq(c, `[{"metadata":{"foo":"bar"},"name":"o.txt","path":"/home/user/d/o.txt","type":"file"}]`, r.body)
		require.Equal(c, "text/plain; charset=utf-8", r.header.Get("Content-Type"))

		r = b.envd("GET", "/files?path=~/d/o.txt", "", "Accept-Encoding", "identity")
		require.Equal(c, "0123456789", r.body)
		require.Equal(c, "bytes", r.header.Get("Accept-Ranges"))
		require.Equal(c, "10", r.header.Get("Content-Length"))
		require.Equal(c, `inline; filename=o.txt`, r.header.Get("Content-Disposition"))
		require.Contains(c, r.header.Values("Vary"), "Accept-Encoding")
		require.NotEmpty(c, r.header.Get("Last-Modified"))
		require.Equal(c, "text/plain; charset=utf-8", r.header.Get("Content-Type"))

		r = b.envd("GET", "/files?path=d/o.txt", "", "Range", "bytes=4-")
		require.Equal(c, 206, r.status)
		require.Equal(c, "456789", r.body)
		require.Equal(c, "bytes 4-9/10", r.header.Get("Content-Range"))
		require.Equal(c, 416, b.envd("GET", "/files?path=d/o.txt", "", "Range", "bytes=10-").status)
		r = b.envd("GET", "/files?path=d/o.txt", "", "Accept-Encoding", "gzip")
		require.Equal(c, "gzip", r.header.Get("Content-Encoding"))
		z, err := gzip.NewReader(strings.NewReader(r.body))
		require.NoError(c, err)
		plain, err := io.ReadAll(z)
		require.NoError(c, err)
		require.Equal(c, "0123456789", string(plain))
		require.Equal(c, 406, b.envd("GET", "/files?path=d/o.txt", "", "Accept-Encoding", "br;q=1, *;q=0").status)
		require.Equal(c, 405, b.envd("HEAD", "/files?path=d/o.txt", "").status)

		require.Equal(c, 200, b.envd("POST", "/files?path=d/o.txt", zipped(c.T, "short"), "Content-Type", octets, "Content-Encoding", "gzip").status)
		require.Equal(c, "short", b.envd("GET", "/files?path=d/o.txt", "").body, "the file is made anew")
		require.Equal(c, 200, b.envd("POST", "/files?path=/tmp/t", "", "Content-Type", octets).status)
		r = b.envd("GET", "/files?path=/tmp/t", "", "Accept-Encoding", "gzip")
		require.Equal(c, "0", r.header.Get("Content-Length"), "SDKs know an empty file by it")
		// What was written is there for commands, and theirs to change.
		out := b.run(`echo more >>d/o.txt && cat d/o.txt && ls "${TMPDIR:-/tmp}"/t >&2 && stat -c %a d d/o.txt`)
		require.Equal(c, "shortmore\n755\n644\n", out.stdout.String(), "%s", out.stderr.String())

		for _, tc := range []struct {
			method, query, body, kind string
			status                    int
			message                   string
		}{
			{"GET", "path=none", "", "", 404, "path '/home/user/none' does not exist"},
			{"GET", "path=d", "", "", 400, "path '/home/user/d' is a directory"},
			{"GET", "path=d/o.txt/x", "", "", 404, "does not exist"},
			{"GET", "path=x&username=eve", "", "", 401, "error looking up user 'eve'"},
			{"GET", "path=~eve/x", "", "", 400, "home dir"},
			{"POST", "path=d", "x", octets, 400, "is a directory"},
			{"POST", "", "x", octets, 400, "path"},
			{"POST", "path=x", "x", "text/plain", 400, "unsupported content type: text/plain"},
			{"POST", "path=x&username=eve", "x", octets, 401, "eve"},
		} {
			r := b.envd(tc.method, "/files?"+tc.query, tc.body, "Content-Type", tc.kind)
			require.Equal(c, tc.status, r.status, "%s %s: %s", tc.method, tc.query, r.body)
			require.Contains(c, r.body, fmt.Sprintf(`{"code":%d,`, tc.status))
			require.Contains(c, r.body, tc.message)
		}
	})
}

func form(t *testing.T, files ...string) (body, kind string) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for i := 0; i < len(files); i += 2 {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", fmt.Sprintf(`form-data; name="file"; filename="%s"`, files[i]))
		p, err := w.CreatePart(h)
		require.NoError(t, err)
		_, err = io.WriteString(p, files[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.WriteField("other", "ignored"))
	require.NoError(t, w.Close())
	return buf.String(), w.FormDataContentType()
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	body, kind := form(t, "/home/user/a/1", "one", "rel/2", "two")
	r := b.envd("POST", "/files", body, "Content-Type", kind)
	require.Equal(t, 200, r.status, "%s", r.body)
	require.JSONEq(t, `[{"name":"1","path":"/home/user/a/1","type":"file"},{"name":"2","path":"/home/user/rel/2","type":"file"}]`, r.body)
	require.Equal(t, "two", b.envd("GET", "/files?path=rel/2", "").body)
	body, kind = form(t, "ignored", "by path")
	require.Equal(t, 200, b.envd("POST", "/files?path=p", body, "Content-Type", kind).status)
	require.Equal(t, "by path", b.envd("GET", "/files?path=p", "").body)
	body, kind = form(t, "x", "1", "x", "2")
	require.Equal(t, 400, b.envd("POST", "/files", body, "Content-Type", kind).status, "the same target twice")
	require.NotEqual(t, 200, b.envd("POST", "/files", body[:strings.Index(body, "\r\n\r\n")+5], "Content-Type", kind).status, "a body cut short")

	r = b.envd("POST", "/files/compose", `{"source_paths":["a/1","rel/2"],"destination":"both"}`)
	require.Equal(t, 200, r.status, "%s", r.body)
	require.Equal(t, "onetwo", b.envd("GET", "/files?path=both", "").body)
	require.Equal(t, 404, b.envd("GET", "/files?path=a/1", "").status)
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	require.Equal(t, "v1_f6Q/z6IDz6xIHMDZxPJwBC5kODUGWwqzDpMG1Jex5Uw", sign("o.txt", "read", "", "tok123", ""))
	require.Equal(t, "v1_iwE6p415g1Gz5Y7GMFbE65vy3sUAi3WosKoD/UfqE5g", sign("o.txt", "read", "user", "tok123", "4102444800"))

	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	require.Equal(t, 200, b.envd("POST", "/files?path=s", "x", "Content-Type", octets).status)
	past, future := fmt.Sprint(time.Now().Unix()-1), fmt.Sprint(time.Now().Unix()+60)
	route := []string{headerSandbox, b.SandboxID, headerPort, envdPort}
	for _, tc := range []struct {
		name, sig, exp string
		header         []string
		status         int
		message        string
	}{
		{"signed", sign("s", "read", "", b.EnvdAccessToken, ""), "", nil, 200, "x"},
		{"signed and routed", sign("s", "read", "", b.EnvdAccessToken, ""), "", route, 200, "x"},
		{"until later", sign("s", "read", "", b.EnvdAccessToken, future), future, nil, 200, "x"},
		{"expired", sign("s", "read", "", b.EnvdAccessToken, past), past, nil, 401, "signature is already expired"},
		{"to write", sign("s", "write", "", b.EnvdAccessToken, ""), "", route, 401, "invalid signature"},
		{"another file", sign("t", "read", "", b.EnvdAccessToken, ""), "", nil, 401, "invalid signature"},
		{"none", "", "", route, 401, "missing signature"},
		{"wrong token", "", "", append(route, "X-Access-Token", "x"), 401, "does not match"},
	} {
		q := url.Values{"path": {"s"}}
		if tc.sig != "" {
			q.Set("signature", tc.sig)
		}
		if tc.exp != "" {
			q.Set("signature_expiration", tc.exp)
		}
		r := c.call("GET", "/files?"+q.Encode(), "", tc.header...)
		require.Equal(t, tc.status, r.status, "%s: %s", tc.name, r.body)
		require.Contains(t, r.body, tc.message, tc.name)
	}
}

// endless is a body that never ends by itself.
type endless struct{ left int64 }

func (e *endless) Read(b []byte) (int, error) {
	n := min(int64(len(b)), e.left)
	if e.left -= n; n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

func TestLargeFilesAreStreamed(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	const size = 64 << 20
	req, err := http.NewRequestWithContext(t.Context(), "POST", c.srv.URL()+"/files?path=big", &endless{left: size})
	require.NoError(t, err)
	h := append(b.headers(), "Content-Type", octets)
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	r, err := c.do(req)
	require.NoError(t, err)
	require.Equal(t, 200, r.status, "%s", r.body)
	require.Equal(t, fmt.Sprint(size, "\n"), b.run("stat -c %s big").stdout.String())
	require.Len(t, b.envd("GET", "/files?path=big", "", "Range", fmt.Sprintf("bytes=%d-", size-5)).body, 5)
}
