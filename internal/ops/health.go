package ops

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is one thing a worker needs to be ready.
type Check struct {
	Name  string
	Probe func(context.Context) error
}

// Health answers the probes. An outage of E2B fails neither: jobs wait for its
// end, and a restart would not help.
type Health struct {
	Checks   []Check
	draining atomic.Bool
}

// Drain makes the worker not ready: it takes no more jobs.
func (h *Health) Drain() { h.draining.Store(true) }

// probeLimit bounds all checks of one probe.
const probeLimit = 3 * time.Second

// Handler serves /livez, /readyz with its alias /healthz, and /metrics. The
// probes tell each check with ?verbose.
func Handler(h *Health, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", h.ready)
	mux.HandleFunc("GET /healthz", h.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), probeLimit)
	defer cancel()
	var lines strings.Builder
	ok := true
	tell := func(name string, err error) {
		word := "ok"
		if err != nil {
			ok, word = false, err.Error()
		}
		fmt.Fprintf(&lines, "%s: %s\n", name, word)
	}
	if h.draining.Load() {
		tell("worker", fmt.Errorf("draining"))
	}
	for _, c := range h.Checks {
		tell(c.Name, c.Probe(ctx))
	}
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if _, verbose := r.URL.Query()["verbose"]; verbose || !ok {
		fmt.Fprint(w, lines.String())
		return
	}
	fmt.Fprintln(w, "ok")
}
