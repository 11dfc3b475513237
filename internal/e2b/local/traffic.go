package local

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// maxRecorded is how much of a body stands in the record.
const maxRecorded = 16 << 10

// recorder writes what the server hears and says as lines of JSON, to be sent
// with a bug report: without keys, tokens, signatures and values of environment
// variables, and without what is in files or what commands print.
type recorder struct {
	mu  sync.Mutex
	out io.Writer
	key string
}

// exchange is one line of the record.
type exchange struct {
	At       time.Time         `json:"at"`
	Op       string            `json:"op"`
	Method   string            `json:"method"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers,omitempty"`
	Request  json.RawMessage   `json:"request,omitempty"`
	Received int64             `json:"received"` // bytes of the request's body
	Status   int               `json:"status"`   // 0: cut without an answer
	Answer   json.RawMessage   `json:"answer,omitempty"`
	Sent     int64             `json:"sent"` // bytes of the answer's body
	Millis   int64             `json:"ms"`
}

// recordedHeaders are those that say how a call was made and hold no secret.
var recordedHeaders = []string{
	"Accept-Encoding", "Connect-Protocol-Version", "Connect-Timeout-Ms", "Content-Encoding", "Content-Type", headerPort, headerSandbox,
	"Keepalive-Ping-Interval", "Range", "User-Agent",
}

func (rec *recorder) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		in := &firstBytes{}
		body := r.Body
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(body, in), body}
		out := &recordingWriter{ResponseWriter: w}
		ex := exchange{At: began.UTC(), Op: operation(r), Method: r.Method, URL: cleanURL(r.URL), Headers: make(map[string]string)}
		for _, h := range recordedHeaders {
			if v := r.Header.Get(h); v != "" {
				ex.Headers[h] = v
			}
		}
		requestType, private := r.Header.Get("Content-Type"), isPrivate(r)
		defer func() { // also of a call whose handler gave up by panic
			ex.Received, ex.Status, ex.Sent = in.n, out.status, out.first.n
			if !private {
				ex.Request = in.json(requestType)
			}
			if !private || out.status >= http.StatusBadRequest {
				ex.Answer = out.first.json(out.Header().Get("Content-Type"))
			}
			ex.Millis = time.Since(began).Milliseconds()
			rec.write(ex)
		}()
		next.ServeHTTP(out, r)
	})
}

// isPrivate says whether a call carries what is in files, or is for a server
// of the sandbox's own, so that its bodies are nobody else's.
func isPrivate(r *http.Request) bool {
	port := r.Header.Get(headerPort)
	return r.URL.Path == "/files" || (port != "" && port != envdPort) || hostForm.MatchString(r.Host)
}

// write adds a line. A full disk is no reason to fail the call.
func (rec *recorder) write(ex exchange) {
	b, err := json.Marshal(ex)
	if err != nil {
		return
	}
	line := tokenForm.ReplaceAllString(string(b), removed)
	line = strings.ReplaceAll(line, rec.key, removed)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	_, _ = io.WriteString(rec.out, line+"\n")
}

const removed = "[removed]"

// tokenForm is what the server's own keys and tokens look like, wherever they
// turn up.
var tokenForm = regexp.MustCompile(`(?:ea_|e2b_)[0-9a-f]{16,}`)

// secretNames are the members of JSON objects whose values are never recorded.
var secretNames = map[string]bool{
	"envdAccessToken": true, "trafficAccessToken": true, "accessToken": true, "password": true, "token": true,
	"envVars": true, "envs": true, "headers": true, "input": true, "mcp": true,
}

func cleanURL(u *url.URL) string {
	q := u.Query()
	if !q.Has("signature") {
		return u.RequestURI()
	}
	q.Set("signature", removed)
	return u.EscapedPath() + "?" + q.Encode()
}

// clean takes the secrets out of a JSON value.
func clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			if secretNames[k] {
				v[k] = removed
				continue
			}
			v[k] = clean(member)
		}
	case []any:
		for i := range v {
			v[i] = clean(v[i])
		}
	}
	return v
}

// firstBytes counts a body and keeps its beginning.
type firstBytes struct {
	b bytes.Buffer
	n int64
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.n += int64(len(p))
	if room := maxRecorded - f.b.Len(); room > 0 {
		f.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// json is the body as the record shows it: whole JSON, the first message of a
// stream that a client sends, else nothing.
func (f *firstBytes) json(contentType string) json.RawMessage {
	b := f.b.Bytes()
	switch {
	case strings.HasPrefix(contentType, "application/connect+json") && len(b) > 5:
		b = b[5:]
	case contentType != "" && !strings.HasPrefix(contentType, "application/json"): // who says nothing sends JSON, if anything
		return nil
	}
	var v any
	if json.NewDecoder(bytes.NewReader(b)).Decode(&v) != nil {
		return nil
	}
	if b, err := json.Marshal(clean(v)); err == nil {
		return b
	}
	return nil
}

// recordingWriter looks at an answer on its way.
type recordingWriter struct {
	http.ResponseWriter
	status int
	first  firstBytes
}

func (w *recordingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recordingWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

func (w *recordingWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recordingWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/connect+") { // a stream carries what commands print
		_, _ = w.first.Write(b[:n])
	} else {
		w.first.n += int64(n)
	}
	return n, err
}

// delayed lets every call wait, as the way to a cloud does.
func delayed(d time.Duration, next http.Handler) http.Handler {
	if d <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait(r.Context(), d) {
			next.ServeHTTP(w, r)
		}
	})
}
