package e2b_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sandjet/sandjet/internal/e2b"
)

// soon is a limit that is run into. Until then a request must have been sent, also on
// a busy machine.
const soon = time.Second

const (
	testKey   = "e2b_0123456789abcdef0123456789abcdef01234567"
	testToken = "tok_secret_of_envd"
	testID    = "iabcdefghij0123456789"
)

// TestMain fails if a stream, a transfer or a watchdog outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cloud is a server that answers as E2B's cloud would, for what cannot be had
// from the local sandbox server: its errors and its odd answers.
func cloud(t *testing.T, h http.HandlerFunc, opts ...func(*e2b.Config)) *e2b.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return client(t, append([]func(*e2b.Config){func(c *e2b.Config) {
		c.APIURL, c.SandboxURL = srv.URL, srv.URL
	}}, opts...)...)
}

func client(t *testing.T, opts ...func(*e2b.Config)) *e2b.Client {
	t.Helper()
	cfg := e2b.Config{APIKey: func() (string, error) { return testKey, nil }}
	for _, o := range opts {
		o(&cfg)
	}
	c, err := e2b.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func ref() e2b.Ref { return e2b.Ref{ID: testID, AccessToken: testToken, EnvdVersion: "0.6.13"} }

// answer writes one JSON answer; headers come in pairs.
func answer(w http.ResponseWriter, status int, body string, headers ...string) {
	w.Header().Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func always(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { answer(w, status, body, headers...) }
}

// roundTrip makes a function an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func timeouts(d time.Duration) func(*e2b.Config) {
	return func(c *e2b.Config) {
		c.Timeouts = e2b.Timeouts{Read: d, Create: d, Pause: d, Change: d, Box: d, Idle: d}
	}
}
