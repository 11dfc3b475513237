package local

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// maxLogs is how many entries of a sandbox's log are kept, and the most that
// one answer holds.
const maxLogs = 1000

// logEntry is one line of a sandbox's log: what became of it and of its
// commands. Arguments, environments and output never stand in it.
type logEntry struct {
	At      time.Time         `json:"timestamp"`
	Level   string            `json:"level"`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields"`
}

var logLevels = []string{"debug", "info", "warn", "error"}

// logbook keeps a sandbox's last entries. The zero value is ready.
type logbook struct {
	mu      sync.Mutex
	entries []logEntry // oldest first
}

// add notes an event; fields are keys and values in turn.
func (l *logbook) add(level, message string, fields ...string) {
	e := logEntry{At: time.Now().UTC(), Level: level, Message: message, Fields: map[string]string{"service": "envd"}}
	for i := 0; i+1 < len(fields); i += 2 {
		e.Fields[fields[i]] = strings.ToValidUTF8(fields[i+1][:min(len(fields[i+1]), 256)], string(utf8.RuneError))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= maxLogs {
		l.entries = slices.Delete(l.entries, 0, maxLogs/10) // not one by one
	}
	l.entries = append(l.entries, e)
}

// logQuery is which entries are wanted.
type logQuery struct {
	from, to time.Time // with forward from is the first, else to the last
	least    int       // index of the least level
	search   string
	limit    int
	backward bool
}

func (l *logbook) find(q logQuery) []logEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []logEntry{} // an empty one is [], not null
	for _, e := range l.entries {
		if !e.At.Before(q.from) && !e.At.After(q.to) && slices.Index(logLevels, e.Level) >= q.least && strings.Contains(e.Message, q.search) {
			list = append(list, e)
		}
	}
	if q.backward {
		slices.Reverse(list)
	}
	return list[:min(len(list), q.limit)]
}

// parseLogQuery reads the query of either version.
func parseLogQuery(v url.Values) (q logQuery, err error) {
	q = logQuery{to: time.Now().Add(time.Minute), search: v.Get("search"), limit: maxLogs}
	at, err := unixOf(cmp.Or(v.Get("cursor"), v.Get("start")), 0)
	if err != nil {
		return q, err
	}
	switch d := v.Get("direction"); d {
	case "", "forward":
		q.from = time.UnixMilli(at)
	case "backward":
		q.backward = true
		if at > 0 {
			q.to = time.UnixMilli(at)
		}
	default:
		return q, failf(http.StatusBadRequest, "Invalid direction: %.20s", d)
	}
	if n := v.Get("limit"); n != "" {
		if q.limit, err = strconv.Atoi(n); err != nil || q.limit < 0 || q.limit > maxLogs {
			return q, failf(http.StatusBadRequest, "Invalid limit: %.20s", n)
		}
	}
	if level := v.Get("level"); level != "" {
		if q.least = slices.Index(logLevels, level); q.least < 0 {
			return q, failf(http.StatusBadRequest, "Invalid level: %.20s", level)
		}
	}
	return q, nil
}

// logs answers both versions of the call.
func (s *Server) logs(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	q, err := parseLogQuery(r.URL.Query())
	if err != nil {
		return err
	}
	entries := sb.log.find(q)
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		writeJSON(w, http.StatusOK, map[string]any{"logs": entries})
		return nil
	}
	type line struct {
		At   time.Time `json:"timestamp"`
		Line string    `json:"line"`
	}
	lines := make([]line, 0, len(entries))
	for _, e := range entries {
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		lines = append(lines, line{At: e.At, Line: string(b)})
	}
	writeJSON(w, http.StatusOK, map[string]any{"logs": lines, "logEntries": entries})
	return nil
}
