package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

// The first signal lets go of the job, whose command goes on; another worker
// joins it.
func TestStopInOrder(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.worker("WORKER_NAME", "first", "WORKER_DRAIN_TIMEOUT", "10m")
			job := w.run("s1", "sh", "-c", "echo begun; sleep 1000")
			w.follow(job, kindIs(events.Stdout))
			p.signal(sig)
			require.Zero(t, p.exit(), p.stderr.String())
			require.Contains(t, p.stderr.String(), "worker stops")

			w.worker("WORKER_NAME", "second")
			seen := w.follow(job, kindIs(events.KindReattached))
			require.True(t, hasKind(seen, events.KindInterrupted))
			w.cancel(job)
			all := w.follow(job, func(e events.Event) bool { return e.Kind.Terminal() })
			require.Equal(t, 1, countKind(all, events.KindStarted), "the command was started once")
			require.Equal(t, events.Cancelled, all[len(all)-1].Kind)
		})
	}
}

func (w *world) cancel(job events.Job) {
	w.t.Helper()
	require.NoError(w.t, w.facts.Cancel(w.t.Context(), job, events.CancelRequested{}))
}

func hasKind(all []events.Event, k events.Kind) bool { return countKind(all, k) > 0 }

func countKind(all []events.Event, k events.Kind) (n int) {
	for _, e := range all {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// A worker that cannot let go, since NATS is away, ends at the second signal.
func TestStopAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.worker("WORKER_DRAIN_TIMEOUT", "1h")
	w.follow(w.run("s1", "sh", "-c", "echo begun; sleep 1000"), kindIs(events.Stdout))
	w.nats.Shutdown()
	p.says("nats connection lost")
	p.signal(syscall.SIGTERM)
	p.says("worker stops")
	p.signal(syscall.SIGTERM)
	require.Equal(t, 1, p.exit())
}

// A signal while it starts is an orderly stop too.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.e2b.Faults().Add(local.Fault{Op: "list", Count: -1, Action: local.Hang{}})
	p := start(t, w.env("LOG_LEVEL", "debug"))
	require.Eventually(t, func() bool { return w.e2b.Faults().Count("list") > 0 }, patience, 10*time.Millisecond)
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.exit())
	require.Contains(t, p.stderr.String(), "worker stopped before it took jobs")
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ends := func(change ...string) string {
		t.Helper()
		p := w.worker(change...)
		p.signal(syscall.SIGTERM)
		require.Zero(t, p.exit())
		require.Empty(t, p.stdout.String())
		return strings.TrimSpace(p.stderr.String())
	}
	for _, change := range [][]string{{}, {"LOG_FORMAT", "json", "WORKER_NAME", "w1"}} {
		out := ends(change...)
		for line := range strings.Lines(out) {
			var record struct{ Time, Level, Msg, Worker string }
			require.NoError(t, json.Unmarshal([]byte(line), &record), line)
			require.NotEmpty(t, record.Time+record.Level+record.Msg)
			require.NotEmpty(t, record.Worker)
			require.NotEqual(t, "DEBUG", record.Level)
		}
		require.Contains(t, out, `"msg":"worker takes jobs"`)
	}
	text := ends("LOG_FORMAT", "text")
	require.Regexp(t, regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3} INF worker takes jobs worker=`), text)
	require.NotContains(t, text, "\x1b", "no colour where there is no terminal")

	p := start(t, w.env("LOG_LEVEL", "error", "WORKER_HTTP_ADDR", "127.0.0.1:0"))
	s := w.run("s1", "true")
	w.follow(s, func(e events.Event) bool { return e.Kind.Terminal() })
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.exit())
	require.Empty(t, p.stderr.String())
}

// On a terminal lines are for people, in colour unless that is not wanted.
func TestLogOnATerminal(t *testing.T) {
	t.Parallel()
	line := func(cfg worker.Config, env map[string]string) string {
		t.Helper()
		user, tty, err := pty.Open()
		require.NoError(t, err)
		defer func() { _ = user.Close(); _ = tty.Close() }()
		logger(cfg, tty, func(name string) string { return env[name] }).Error("oh no")
		buf := make([]byte, 1024)
		n, err := user.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	require.Regexp(t, "\x1b\\[.*ERR.*oh no", line(worker.Config{}, nil))
	require.NotContains(t, line(worker.Config{}, map[string]string{"NO_COLOR": "1"}), "\x1b")
	require.Contains(t, line(worker.Config{LogFormat: "json"}, nil), `"msg":"oh no"`)
}

// get asks a worker over HTTP.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	status, text := get(t, url)
	require.Equal(t, 200, status)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	return families
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addr := heldAddr(t)
	p := w.worker("WORKER_HTTP_ADDR", addr, "WORKER_DRAIN_TIMEOUT", "1h")
	url := "http://" + addr
	becomes := func(want int, says string) {
		t.Helper()
		require.Eventually(t, func() bool {
			status, body := get(t, url+"/readyz")
			return status == want && strings.Contains(body, says)
		}, patience, 20*time.Millisecond, "%d %s", want, says)
		status, body := get(t, url+"/livez")
		require.Equal(t, 200, status)
		require.Equal(t, "ok\n", body)
	}
	becomes(200, "ok")
	_, body := get(t, url+"/healthz?verbose")
	require.Equal(t, "nats: ok\nredis: ok\n", body)

	for _, exit := range []string{"3", "0", "3"} {
		w.follow(w.run("s1", "sh", "-c", "exit "+exit), func(e events.Event) bool { return e.Kind.Terminal() })
	}
	var families map[string]*dto.MetricFamily
	ended := func(class string) (n float64) {
		for _, m := range families["sandjet_jobs_total"].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["kind"] == "task.run" && labels["class"] == class {
				n += m.GetCounter().GetValue()
			}
		}
		return n
	}
	require.Eventually(t, func() bool { // an end is counted just after it is told
		families = scrape(t, url+"/metrics")
		return ended("command_failed") == 2 && ended("ok") == 1
	}, patience, 20*time.Millisecond, "jobs are counted by kind and class")
	for _, name := range []string{
		"sandjet_jobs_total", "sandjet_job_seconds", "sandjet_queue_age_seconds", "sandjet_sandbox_create_seconds",
		"sandjet_sandbox_resume_seconds", "sandjet_commands_total", "sandjet_e2b_call_seconds", "sandjet_takeovers_total",
		"sandjet_worker_slots", "sandjet_worker_running", "sandjet_running_sandboxes", "go_goroutines", "process_open_fds",
	} {
		require.Contains(t, families, name)
	}

	require.NoError(t, w.e2b.Close()) // an outage of E2B is none of the worker's
	becomes(200, "ok")
	require.NoError(t, w.redis.Stop())
	becomes(503, "redis: ping redis: redis unavailable")
	w.nats.Shutdown()
	becomes(503, "nats: RECONNECTING")
	p.signal(syscall.SIGTERM)
	p.says("worker stops")
}

// A worker that stops is not ready from the first moment.
func TestNotReadyWhileDraining(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addr := heldAddr(t)
	p := w.worker("WORKER_HTTP_ADDR", addr, "WORKER_DRAIN_TIMEOUT", "1h")
	w.follow(w.run("s1", "sh", "-c", "echo begun; sleep 1000"), kindIs(events.Stdout))
	w.nats.Shutdown() // the job cannot be let go of
	p.says("nats connection lost")
	p.signal(syscall.SIGTERM)
	p.says("worker stops")
	status, body := get(t, "http://"+addr+"/readyz")
	require.Equal(t, 503, status)
	require.Contains(t, body, "worker: draining")
}

// The key is rotated under a worker at work: no restart, no job lost.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(w.e2b.APIKey()+"\n"), 0o600))
	p := w.worker("E2B_API_KEY", "", "E2B_API_KEY_FILE", key)
	w.follow(w.run("s1", "true"), func(e events.Event) bool { return e.Kind.Terminal() })

	old := w.e2b
	addr := strings.TrimPrefix(old.URL(), "http://")
	require.NoError(t, old.Close())
	next, err := local.Start(t.Context(), local.Config{Addr: addr, APIKey: "e2b_next"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = next.Close() })
	require.NoError(t, os.WriteFile(key+".next", []byte("e2b_next"), 0o600))
	require.NoError(t, os.Rename(key+".next", key))

	job := w.run("s2", "echo", "hi")
	all := w.follow(job, func(e events.Event) bool { return e.Kind.Terminal() })
	require.Equal(t, events.Succeeded, all[len(all)-1].Kind, "%s", p.stderr.String())
	rec, _, err := w.facts.Session(t.Context(), "s2")
	require.NoError(t, err)
	require.Equal(t, session.Active, rec.State)
	require.NotContains(t, p.stderr.String(), "e2b_next")
}
