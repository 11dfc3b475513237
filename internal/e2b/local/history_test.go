package local

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

func TestMetricsOfAnInterval(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	sb, err := c.srv.find(b.SandboxID)
	require.NoError(t, err)
	for _, at := range []int64{100, 105, 110} { // what the ticker would have added
		m := sb.sample()
		m.TimestampUnix, m.Timestamp = at, time.Unix(at, 0)
		sb.used.add(m)
	}
	got := func(query string) (at []int64) {
		r := c.call("GET", b.on("/metrics"+query), "")
		require.Equal(t, 200, r.status, "%s", r.body)
		var list []e2b.Metric
		r.into(t, &list)
		for _, m := range list {
			at = append(at, m.TimestampUnix)
			require.Positive(t, m.MemTotal)
		}
		return at
	}
	require.Equal(t, []int64{105, 110}, got("?start=101&end=110"))
	require.Empty(t, got("?start=111&end=200"))
	all := got("")
	require.Equal(t, []int64{100, 105, 110}, all[:3])
	require.Greater(t, len(all), 3, "and what it uses now")
	require.InDelta(t, time.Now().Unix(), all[len(all)-1], 30)
	require.EqualValues(t, 110, got("?start=110")[0])
	require.Equal(t, 204, c.call("POST", b.on("/pause"), "").status)
	paused := got("")
	require.Equal(t, []int64{100, 105, 110}, paused[:3], "a paused one has a past")
	require.Len(t, sb.used.between(0, 1<<62), len(paused), "and uses nothing now")
}

// TestHistoryIsKept waits for the sampling itself.
func TestHistoryIsKept(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	sb, err := c.srv.find(b.SandboxID)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(sb.used.between(0, 1<<62)) > 0 }, 2*patience, 50*time.Millisecond)
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var h history
	for i := range int64(3 * maxSamples) {
		h.add(e2b.Metric{TimestampUnix: i})
	}
	list := h.between(0, 1<<62)
	require.LessOrEqual(t, len(list), maxSamples)
	require.EqualValues(t, 3*maxSamples-1, list[len(list)-1].TimestampUnix, "the newest stay")
}

func TestLogs(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	require.NoError(t, b.run("echo secret-argument; exit 3").err)
	require.Equal(t, 204, c.call("POST", b.on("/pause"), "").status)
	require.Equal(t, 201, c.call("POST", "/v2"+b.on("/connect"), "").status)
	read := func(query string) (messages []string) {
		r := c.call("GET", "/v2"+b.on("/logs"+query), "")
		require.Equal(t, 200, r.status, "%s", r.body)
		require.NotContains(t, r.body, "secret-argument", "arguments hold secrets")
		var l struct{ Logs []logEntry }
		r.into(t, &l)
		for _, e := range l.Logs {
			messages = append(messages, strings.TrimSpace(e.Message+" "+e.Fields["status"]))
		}
		return messages
	}
	want := []string{"sandbox started", "process started", "process ended exit status 3", "sandbox paused", "sandbox resumed"}
	require.Eventually(t, func() bool { return len(read("")) == len(want) }, patience, patience/1000)
	require.Equal(t, want, read(""))
	require.Equal(t, []string{"sandbox resumed", "sandbox paused"}, read("?direction=backward&limit=2"))
	require.Equal(t, []string{"sandbox paused"}, read("?search=paused"))
	require.Empty(t, read("?level=warn"))
	require.Empty(t, read(fmt.Sprintf("?cursor=%d", time.Now().Add(time.Hour).UnixMilli())))
	require.Len(t, read(fmt.Sprintf("?direction=backward&cursor=%d", time.Now().Add(time.Hour).UnixMilli())), len(want))
	old := c.call("GET", b.on("/logs?limit=1"), "")
	require.Contains(t, old.body, `"logEntries":[{"timestamp"`)
	require.Contains(t, old.body, `"line":"{\"timestamp\"`)
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	var l logbook
	for i := range 3 * maxLogs {
		l.add("info", fmt.Sprint(i), "cmd", strings.Repeat("x", 10_000))
	}
	list := l.find(logQuery{to: time.Now().Add(time.Hour), limit: 1 << 30})
	require.LessOrEqual(t, len(list), maxLogs)
	require.Equal(t, fmt.Sprint(3*maxLogs-1), list[len(list)-1].Message)
	require.Len(t, list[0].Fields["cmd"], 256)
}
