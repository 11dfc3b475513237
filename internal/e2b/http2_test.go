package e2b_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/envd/process"
	"github.com/sandjet/sandjet/internal/e2b/envd/process/processconnect"
)

// TestOverHTTP2: E2B's cloud speaks HTTP/2, where all streams share one
// connection and break in another way.
func TestOverHTTP2(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle(processconnect.NewProcessHandler(envdProcess{start: func(ctx context.Context, r *process.StartRequest, s startStream) error {
		_ = sendStart(s)
		switch r.GetProcess().GetCmd() {
		case "reset":
			panic(http.ErrAbortHandler)
		case "hang":
			<-ctx.Done()
			return nil
		}
		return errors.Join(sendOut(s, "hi"), sendEnd(s, 3, true, "exit status 3"))
	}}))
	mux.HandleFunc("/files", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "f", time.Time{}, strings.NewReader("0123456789"))
	})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Connect-Timeout-Ms") != "" {
			t.Errorf("%s, headers %v", r.Proto, r.Header)
		}
		mux.ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	box := client(t, func(c *e2b.Config) {
		c.APIURL, c.SandboxURL, c.HTTPClient = srv.URL, srv.URL, srv.Client()
	}).Open(ref())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	hung := box.Command("hang")
	hung.KeepAlive = 2 * soon
	require.NoError(t, hung.Start(ctx))
	requireKind(t, box.Command("reset").Run(ctx), e2b.ErrCut, true)
	var exit *e2b.ExitError
	require.ErrorAs(t, box.Command("x").Run(ctx), &exit, "the others go on")
	require.Equal(t, 3, exit.Code)
	requireKind(t, hung.Wait(), e2b.ErrStalled, true)

	rc, total, err := box.Open(ctx, "f", 4)
	require.NoError(t, err)
	require.EqualValues(t, 10, total)
	require.NoError(t, rc.Close())
}
