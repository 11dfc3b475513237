package local

import (
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/e2b"
)

// sample is what a sandbox uses now: the machine's numbers, since a sandbox
// here has no memory or disk of its own.
func (s *sandbox) sample() e2b.Metric {
	now := time.Now()
	m := e2b.Metric{Timestamp: now, TimestampUnix: now.Unix(), CPUCount: runtime.NumCPU()}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		unit := int64(si.Unit)
		m.MemTotal = int64(si.Totalram) * unit
		m.MemUsed = m.MemTotal - int64(si.Freeram+si.Bufferram)*unit
		m.MemCache = int64(si.Bufferram) * unit
		// Loads are fixed-point numbers with 16 bits behind the point.
		m.CPUUsedPct = min(100, float64(si.Loads[0])/(1<<16)*100/float64(m.CPUCount))
	}
	var fs unix.Statfs_t
	if unix.Statfs(s.dir, &fs) == nil {
		m.DiskTotal = int64(fs.Blocks) * fs.Bsize
		m.DiskUsed = m.DiskTotal - int64(fs.Bfree)*fs.Bsize
	}
	return m
}

// metrics answers with one sample, of now; no history is kept.
func (s *Server) metrics(sb *sandbox, w http.ResponseWriter, _ *http.Request) error {
	list := []e2b.Metric{}
	if sb.is(running) {
		list = append(list, sb.sample())
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// manyMetrics is the same for up to 100 sandboxes at once.
func (s *Server) manyMetrics(w http.ResponseWriter, r *http.Request) error {
	ids := strings.Split(strings.Join(r.URL.Query()["sandbox_ids"], ","), ",")
	if len(ids) > maxPage {
		return failf(http.StatusBadRequest, "Too many sandboxes requested, the maximum is %d", maxPage)
	}
	found := make(map[string]e2b.Metric)
	for _, id := range ids {
		if sb, err := s.find(id); err == nil && sb.is(running) {
			found[sb.id()] = sb.sample()
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"sandboxes": found})
	return nil
}

// logs answers that there are none: this server keeps no logs of envd's.
func (s *Server) logs(_ *sandbox, w http.ResponseWriter, r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		writeJSON(w, http.StatusOK, map[string]any{"logs": []any{}})
		return nil
	}
	writeJSON(w, http.StatusOK, map[string]any{"logs": []any{}, "logEntries": []any{}})
	return nil
}

// envdMetrics is what envd itself says of its machine.
func envdMetrics(w http.ResponseWriter, r *http.Request) {
	m := box(r.Context()).sample()
	writeJSON(w, http.StatusOK, map[string]any{
		"ts": m.TimestampUnix, "cpu_count": m.CPUCount, "cpu_used_pct": m.CPUUsedPct,
		"mem_total": m.MemTotal, "mem_used": m.MemUsed, "mem_cache": m.MemCache,
		"mem_total_mib": m.MemTotal >> 20, "mem_used_mib": m.MemUsed >> 20,
		"disk_used": m.DiskUsed, "disk_total": m.DiskTotal,
	})
}

// envdEnv is the environment that every command of the sandbox starts from.
func envdEnv(w http.ResponseWriter, r *http.Request) {
	env := box(r.Context()).snapshot().Env
	if env == nil {
		env = map[string]string{}
	}
	writeJSON(w, http.StatusOK, env)
}
