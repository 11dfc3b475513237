package worker_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/worker"
)

// recorder stands between workers and E2B and keeps what workers ask.
type recorder struct {
	url string

	mu    sync.Mutex
	asked []asked
}

// asked is one request.
type asked struct {
	method, path string
	text         string // path with query, headers and body
}

func (w *world) recorder() *recorder {
	w.t.Helper()
	to, err := url.Parse(w.e2b.URL())
	require.NoError(w.t, err)
	r := &recorder{}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		head, _ := httputil.DumpRequest(req, false)
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		r.asked = append(r.asked, asked{req.Method, req.URL.Path, req.URL.String() + "\n" + string(head) + string(body)})
		r.mu.Unlock()
		proxy.ServeHTTP(rw, req)
	}))
	w.t.Cleanup(srv.CloseClientConnections)
	w.t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// through has a worker ask E2B by way of the recorder.
func (r *recorder) through(c *worker.Config) { c.E2BAPIURL, c.E2BSandboxURL = r.url, r.url }

// all returns everything that was asked.
func (r *recorder) all() (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		texts = append(texts, a.text)
	}
	return texts
}

// of returns what was asked with a method, of a path that ends so.
func (r *recorder) of(method, suffix string) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		if a.method == method && strings.HasSuffix(a.path, suffix) {
			found = append(found, a.text)
		}
	}
	return found
}

func TestRecorderSeesWhatIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.recorder()
	w.worker(r.through)
	e := w.follow(w.run("s1", "echo", "hello-recorder"))
	require.Equal(t, "hello-recorder\n", string(e.Stdout))
	require.Len(t, r.of("POST", "/sandboxes"), 1)
	require.Contains(t, strings.Join(r.of("POST", "/process.Process/Start"), ""), "hello-recorder")
}
