package local

import (
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/e2b"
)

// sample is what a sandbox uses now: of memory its own where a control group
// counts it; else, and of the rest, the machine's numbers.
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
	if n, ok := s.memoryUsed(); ok {
		m.MemUsed, m.MemCache = n, 0
		if s.srv.bounds.Memory > 0 {
			m.MemTotal = min(m.MemTotal, s.srv.bounds.Memory)
		}
	}
	s.mu.Lock()
	d := s.disk
	s.mu.Unlock()
	if d == nil {
		d = &disk{root: s.dir}
	}
	m.DiskTotal, m.DiskUsed = d.use()
	return m
}

func (s *sandbox) memoryUsed() (int64, bool) {
	if !s.launch.TryRLock() { // it comes, goes or is being copied
		return 0, false
	}
	defer s.launch.RUnlock()
	if s.jail == nil {
		return 0, false
	}
	return s.jail.group.used()
}

// machineMemory is what the machine has, in bytes.
func machineMemory() int64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return int64(si.Totalram) * int64(si.Unit)
}

// metrics answers with what the sandbox used, from start to end; a running
// one's use of now is the last sample.
func (s *Server) metrics(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	start, err := unixOf(v.Get("start"), 0)
	if err != nil {
		return err
	}
	end, err := unixOf(v.Get("end"), math.MaxInt64)
	if err != nil {
		return err
	}
	if end < start {
		return failf(http.StatusBadRequest, "Invalid interval: it ends before it starts")
	}
	list := sb.used.between(start, end)
	if now := sb.sample(); sb.is(running) && now.TimestampUnix >= start && now.TimestampUnix <= end {
		list = append(list, now)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// unixOf reads a time of a query, or takes what stands for none.
func unixOf(given string, none int64) (int64, error) {
	if given == "" {
		return none, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 0 {
		return 0, failf(http.StatusBadRequest, "Invalid timestamp: %.40s", given)
	}
	return n, nil
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
	rec := box(r.Context()).snapshot()
	writeJSON(w, http.StatusOK, rec.environment())
}
