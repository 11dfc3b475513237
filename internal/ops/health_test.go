package ops_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/ops"
)

// probe asks the handler over HTTP.
func probe(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

func serveHealth(t *testing.T, h *ops.Health, reg prometheus.Gatherer) string {
	t.Helper()
	srv := httptest.NewServer(ops.Handler(h, reg))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestProbes(t *testing.T) {
	t.Parallel()
	var nats, redis error
	h := &ops.Health{Checks: []ops.Check{
		{Name: "nats", Probe: func(context.Context) error { return nats }},
		{Name: "redis", Probe: func(context.Context) error { return redis }},
	}}
	url := serveHealth(t, h, prometheus.NewRegistry())
	expect := func(path string, status int, body string) {
		t.Helper()
		gotStatus, gotBody := probe(t, url+path)
		require.Equal(t, status, gotStatus, path)
		require.Equal(t, body, gotBody, path)
	}
	expect("/livez", 200, "ok\n")
	expect("/livez?verbose", 200, "ok\n")
	for _, path := range []string{"/readyz", "/healthz"} {
		expect(path, 200, "ok\n")
		expect(path+"?verbose", 200, "nats: ok\nredis: ok\n")
	}
	redis = errors.New("away")
	expect("/readyz", 503, "nats: ok\nredis: away\n")
	expect("/livez", 200, "ok\n")
	redis, nats = nil, errors.New("RECONNECTING")
	expect("/healthz?verbose", 503, "nats: RECONNECTING\nredis: ok\n")
	nats = nil
	expect("/readyz", 200, "ok\n")
	h.Drain()
	expect("/readyz", 503, "worker: draining\nnats: ok\nredis: ok\n")
	expect("/livez", 200, "ok\n")
	status, _ := probe(t, url+"/")
	require.Equal(t, 404, status)
}

// A check that hangs fails by itself; the others are told all the same.
func TestProbeThatHangs(t *testing.T) {
	t.Parallel()
	url := serveHealth(t, &ops.Health{Checks: []ops.Check{
		{Name: "redis", Probe: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		{Name: "nats", Probe: func(context.Context) error { return nil }},
	}}, prometheus.NewRegistry())
	status, body := probe(t, url+"/readyz")
	require.Equal(t, 503, status)
	require.Equal(t, "redis: context deadline exceeded\nnats: ok\n", body)
}

func TestMetricsScrape(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	jobs := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sandjet_jobs_total", Help: "Jobs."}, []string{"kind"})
	reg.MustRegister(jobs)
	jobs.WithLabelValues("task.run").Add(3)
	_, body := probe(t, serveHealth(t, &ops.Health{}, reg)+"/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	require.InDelta(t, 3, families["sandjet_jobs_total"].GetMetric()[0].GetCounter().GetValue(), 0)
}
