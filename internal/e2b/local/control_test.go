package local

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

func TestErrorBodies(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None, Templates: []string{"base"}}))
	live, asleep := c.create(""), c.create("")
	require.Equal(t, 204, c.call("POST", asleep.on("/pause"), "").status)
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		message                  string
	}{
		{"unknown sandbox", "GET", "/sandboxes/inone", "", 404, `sandbox "inone" not found`},
		{"bad id", "GET", "/sandboxes/I-NONE", "", 400, "Invalid sandbox ID"},
		{"kill unknown", "DELETE", "/sandboxes/inone", "", 404, "not found"},
		{"connect unknown", "POST", "/v2/sandboxes/inone/connect", "{}", 404, "not found"},
		{"no template", "POST", "/v2/sandboxes", `{}`, 400, "templateID"},
		{"unknown template", "POST", "/v2/sandboxes", `{"templateID":"x"}`, 404, "template 'x' not found"},
		{"broken JSON", "POST", "/sandboxes", `{"templateID"`, 400, "Error when parsing request"},
		{"timeout zero", "POST", "/v2/sandboxes", `{"templateID":"base","timeout":0}`, 400, "Timeout must be greater than 0"},
		{"timeout above plan", "POST", "/v2/sandboxes", `{"templateID":"base","timeout":90000}`, 400, "Timeout cannot be greater than 24 hours"},
		{"timeout huge", "POST", "/v2/sandboxes", `{"templateID":"base","timeout":9223372036854775807}`, 400, "Timeout cannot be greater than 24 hours"},
		{"disk only without autoPause", "POST", "/v2/sandboxes", `{"templateID":"base","autoPauseMemory":false}`, 400, "autoPause"},
		{"disk only and woken by traffic", "POST", "/v2/sandboxes", `{"templateID":"base","autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}}`, 400, "autoResume"},
		{"volumes", "POST", "/v2/sandboxes", `{"templateID":"base","volumeMounts":[{"name":"v","path":"/v"}]}`, 400, "volume mounts"},
		{"a number for a text", "POST", "/v2/sandboxes", `{"templateID":1}`, 400, "Error when parsing request"},
		{"a body beyond bounds", "POST", "/v2/sandboxes", `{"templateID":"` + strings.Repeat("x", maxBody) + `"}`, 413, "too large"},
		{"private without secure", "POST", "/sandboxes", `{"templateID":"base","network":{"allowPublicTraffic":false}}`, 400, "secure"},
		{"connect v1 without timeout", "POST", live.on("/connect"), "{}", 400, "timeout is required"},
		{"connect with zero", "POST", live.on("/connect"), `{"timeout":0}`, 400, "Timeout must be greater than 0"},
		{"resume a running one", "POST", live.on("/resume"), `{}`, 409, "already running"},
		{"pause a paused one", "POST", asleep.on("/pause"), "", 409, "already paused"},
		{"timeout of a paused one", "POST", asleep.on("/timeout"), `{"timeout":5}`, 404, "not found"},
		{"refresh of a paused one", "POST", asleep.on("/refreshes"), `{}`, 404, "not found"},
		{"network of a paused one", "PUT", asleep.on("/network"), `{}`, 404, "not found"},
		{"bad page token", "GET", "/v2/sandboxes?nextToken=abc", "", 400, "Invalid next token"},
		{"bad limit", "GET", "/v2/sandboxes?limit=101", "", 400, "limit"},
		{"no limit", "GET", "/v2/sandboxes?limit=0", "", 400, "limit"},
		{"bad order", "GET", "/v2/sandboxes?order=up", "", 400, "order"},
		{"bad time", "GET", "/v2/sandboxes?startedAfter=now", "", 400, "startedAfter"},
		{"bad metadata of the old list", "GET", "/sandboxes?metadata=a", "", 400, "invalid key value pair"},
		{"metrics of 101", "GET", "/sandboxes/metrics?sandbox_ids=" + strings.Repeat("inone,", 100) + "inone", "", 400, "the maximum is 100"},
		{"1001 lines of a log", "GET", "/v2" + live.on("/logs?limit=1001"), "", 400, "Invalid limit"},
		{"a log to the side", "GET", live.on("/logs?direction=left"), "", 400, "Invalid direction"},
		{"logs of nothing", "GET", "/v2/sandboxes/inone/logs", "", 404, "not found"},
		{"snapshot of nothing", "POST", "/sandboxes/inone/snapshots", "", 404, "not found"},
		{"fork of nothing", "POST", "/sandboxes/inone/fork", "", 404, "not found"},
		{"a fork for no time", "POST", live.on("/fork"), `{"timeout":0}`, 400, "Timeout must be greater than 0"},
		{"timeout of nothing", "POST", "/sandboxes/inone/timeout", `{"timeout":1}`, 404, "not found"},
		{"timeout without a time", "POST", live.on("/timeout"), `{}`, 400, "timeout is required"},
		{"resume of nothing", "POST", "/sandboxes/inone/resume", "", 404, "not found"},
		{"pause of nothing", "POST", "/sandboxes/inone/pause", "", 404, "not found"},
		{"bad state", "GET", "/v2/sandboxes?state=asleep", "", 400, "state"},
		{"bad metadata", "GET", "/v2/sandboxes?metadata=a", "", 400, "invalid key value pair"},
		{"template with a tag", "GET", "/v2/sandboxes?template=a%3Ab", "", 400, "tag"},
		{"snapshot of a paused one", "POST", asleep.on("/snapshots"), "{}", 409, "cannot be snapshotted while in 'paused' state"},
		{"snapshot with a bad name", "POST", live.on("/snapshots"), `{"name":"../x"}`, 400, "Invalid name"},
		{"fork of a paused one", "POST", asleep.on("/fork"), "{}", 409, "cannot be forked while in 'paused' state"},
		{"no fork", "POST", live.on("/fork"), `{"count":0}`, 400, "Count must be at least 1"},
		{"101 forks", "POST", live.on("/fork"), `{"count":101}`, 400, "Count cannot be greater than 100"},
		{"unknown snapshot", "DELETE", "/templates/x", "", 404, "template 'x' not found"},
		{"metrics that end first", "GET", live.on("/metrics?start=5&end=4"), "", 400, "ends before it starts"},
		{"bad level of logs", "GET", "/v2" + live.on("/logs?level=loud"), "", 400, "Invalid level"},
		{"unknown path", "GET", "/nope", "", 404, "no matching operation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.call(tc.method, tc.path, tc.body)
			var e struct {
				Code    int
				Message string
			}
			r.into(t, &e)
			require.Equal(t, tc.status, r.status, "%s", r.body)
			require.Equal(t, tc.status, e.Code, "the code in the body is what SDKs read")
			require.Contains(t, e.Message, tc.message)
			require.Empty(t, r.header.Get("Retry-After"))
		})
	}
	for _, key := range []string{"", "e2b_wrong"} {
		r := c.call("GET", live.on(""), "", "X-API-Key", key)
		require.Equal(t, 401, r.status)
		require.Contains(t, r.body, `"code":401`)
	}
}

func (b *testBox) detail() (d e2b.SandboxDetail) {
	b.Helper()
	r := b.call("GET", b.on(""), "")
	require.Equal(b, 200, r.status, "%s", r.body)
	r.into(b.T, &d)
	return d
}

func TestCreateVersions(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	r := c.call("POST", "/sandboxes", `{"templateID":"base"}`)
	require.Equal(t, 201, r.status)
	var old e2b.Sandbox
	r.into(t, &old)
	require.Empty(t, old.EnvdAccessToken, "v1 is open unless told")
	b := &testBox{client: c, Sandbox: old}
	require.InDelta(t, 15, time.Until(b.detail().EndAt).Seconds(), 14)

	b = c.create(`{"templateID":"base","autoPause":true,"autoResume":{"enabled":true},"metadata":{"a":"b"},"unknown":1,"network":{"allowOut":["x"],"new":1}}`)
	require.NotEmpty(t, b.EnvdAccessToken)
	d := b.detail()
	require.InDelta(t, 300, time.Until(d.EndAt).Seconds(), patience.Seconds())
	require.Equal(t, b.EnvdAccessToken, d.EnvdAccessToken)
	require.Equal(t, e2b.Lifecycle{OnTimeout: "pause", AutoResume: true}, *d.Lifecycle)
	require.Equal(t, map[string]string{"a": "b"}, d.Metadata)
	require.Contains(t, c.call("GET", b.on(""), "").body, `"new":1`, "the network comes back as it was sent")
	require.Equal(t, 200, c.call("GET", "/sandboxes/"+b.SandboxID+"-6532622b", "").status, "the old form of an id")
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None, MaxLength: time.Hour}))
	b := c.create(`{"templateID":"base","timeout":100}`)
	left := func() float64 { return time.Until(b.detail().EndAt).Seconds() }

	require.Equal(t, 200, c.call("POST", "/v2"+b.on("/connect"), `{"timeout":50}`).status)
	require.InDelta(t, 100, left(), patience.Seconds(), "connect never shortens")
	require.Equal(t, 200, c.call("POST", "/v2"+b.on("/connect"), "").status, "v2 needs no body")
	require.InDelta(t, 300, left(), patience.Seconds())
	require.Equal(t, 204, c.call("POST", b.on("/refreshes"), `{"duration":600}`).status)
	require.InDelta(t, 600, left(), patience.Seconds())
	require.Equal(t, 204, c.call("POST", b.on("/refreshes"), "").status)
	require.InDelta(t, 600, left(), patience.Seconds(), "a refresh only extends")
	require.Equal(t, 204, c.call("POST", b.on("/timeout"), `{"timeout":60}`).status)
	require.InDelta(t, 60, left(), patience.Seconds(), "timeout may shorten")
	require.Equal(t, 204, c.call("POST", b.on("/timeout"), `{"timeout":7200}`).status)
	require.InDelta(t, 3600, left(), patience.Seconds(), "and is clipped to the longest run")

	require.Equal(t, 204, c.call("POST", b.on("/timeout"), `{"timeout":0}`).status)
	require.Eventually(t, func() bool { return c.call("GET", b.on(""), "").status == 404 }, patience, 10*time.Millisecond)

	p := c.create(`{"templateID":"base","timeout":100,"autoPause":true}`)
	require.Equal(t, 204, c.call("POST", p.on("/timeout"), `{"timeout":-1}`).status)
	require.Eventually(t, func() bool { return p.detail().State == e2b.StatePaused }, patience, 10*time.Millisecond)
	require.WithinDuration(t, time.Now(), p.detail().EndAt, patience, "a paused one ended when it was paused")
	started := p.detail().StartedAt
	require.Equal(t, 201, c.call("POST", p.on("/connect"), `{"timeout":10}`).status)
	d := p.detail()
	require.Equal(t, e2b.StateRunning, d.State)
	require.True(t, d.StartedAt.After(started), "a resume starts the clock anew")
	require.True(t, d.Lifecycle.OnTimeout == "pause", "the setting stays")
}

func TestQuotaAndRate(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None, MaxRunning: 2}))
	a, b := c.create(""), c.create("")
	quota := func(r reply) {
		t.Helper()
		require.Equal(t, 429, r.status)
		require.Contains(t, r.body, "maximum number of concurrent E2B sandboxes (2)")
		require.Empty(t, r.header.Get("Retry-After"), "only the other 429 has one")
	}
	quota(c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`))
	require.Equal(t, 204, c.call("POST", a.on("/pause"), "").status)
	d := c.create("") // a paused one does not count
	quota(c.call("POST", "/v2"+a.on("/connect"), ""))
	require.Equal(t, e2b.StatePaused, a.detail().State)
	require.Equal(t, 204, c.call("DELETE", d.on(""), "").status)
	require.Equal(t, 201, c.call("POST", "/v2"+a.on("/connect"), "").status)
	require.Equal(t, 204, c.call("DELETE", b.on(""), "").status)
	c.create("")

	c = newClient(t, start(t, Config{Isolation: None, CreateRate: 0.001, CreateBurst: 1}))
	c.create("")
	r := c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`)
	require.Equal(t, 429, r.status)
	require.Contains(t, r.body, "Rate limit exceeded")
	n, err := strconv.Atoi(r.header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 1)
	require.Equal(t, []string{"1", "0", r.header.Get("Retry-After")},
		[]string{r.header.Get("RateLimit-Limit"), r.header.Get("RateLimit-Remaining"), r.header.Get("RateLimit-Reset")})
}

func TestList(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	var ids []string
	for i := range 5 {
		ids = append(ids, c.create(fmt.Sprintf(`{"templateID":"t%d","metadata":{"n":"%d","k":"v&=+ %%"}}`, i%2, i)).SandboxID)
	}
	require.Equal(t, 204, c.call("POST", "/sandboxes/"+ids[4]+"/pause", "").status)
	list := func(query string) (found []string, h http.Header) {
		t.Helper()
		r := c.call("GET", "/v2/sandboxes"+query, "")
		require.Equal(t, 200, r.status, "%s", r.body)
		var page []e2b.ListedSandbox
		r.into(t, &page)
		for _, sb := range page {
			found = append(found, sb.SandboxID)
		}
		return found, r.header
	}
	all, h := list("")
	require.Equal(t, []string{ids[4], ids[3], ids[2], ids[1], ids[0]}, all)
	require.Equal(t, "4", h.Get("X-Total-Running"))
	require.Empty(t, h.Get("X-Next-Token"))

	var paged []string
	for next, pages := "", 0; ; pages++ {
		require.Less(t, pages, 10)
		page, h := list("?limit=2&order=asc&nextToken=" + next)
		paged = append(paged, page...)
		if next = h.Get("X-Next-Token"); next == "" {
			break
		}
	}
	require.Equal(t, ids, paged)

	found, h := list("?state=paused")
	require.Equal(t, ids[4:], found)
	require.Empty(t, h.Values("X-Total-Running"))
	found, _ = list("?state=running,paused&template=t1&order=asc")
	require.Equal(t, []string{ids[1], ids[3]}, found)
	// What the SDK sends: each part encoded twice, then the whole as a query.
	found, _ = list("?metadata=n%3D2%26k%3Dv%252526%25253D%25252B%252520%252525")
	require.Equal(t, []string{ids[2]}, found)
	found, _ = list("?metadata=n%3D7")
	require.Empty(t, found)
	require.Equal(t, "[]", strings.TrimSpace(c.call("GET", "/v2/sandboxes?metadata=n%3D7", "").body), "an empty page is no null")

	r := c.call("GET", "/sandboxes", "")
	var old []e2b.ListedSandbox
	r.into(t, &old)
	require.Len(t, old, 4, "the old list has running ones only")
}

func TestHealthMetricsLogs(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create(`{"templateID":"base","envVars":{"A":"1"}}`)
	require.Equal(t, 200, c.call("GET", "/health", "", "X-API-Key", "").status)
	var m []e2b.Metric
	c.call("GET", b.on("/metrics"), "").into(t, &m)
	require.Len(t, m, 1)
	require.Positive(t, m[0].MemTotal)
	require.Positive(t, m[0].DiskTotal)
	r := c.call("GET", "/sandboxes/metrics?sandbox_ids=inone,"+b.SandboxID, "")
	require.Contains(t, r.body, `"`+b.SandboxID+`":{`)
	require.Equal(t, 404, c.call("GET", "/sandboxes/inone/metrics", "").status)

	require.Equal(t, 204, b.envd("GET", "/health", "").status)
	require.JSONEq(t, `{"A":"1"}`, b.envd("GET", "/envs", "").body)
	require.Contains(t, b.envd("GET", "/metrics", "").body, `"mem_total"`)
	require.Equal(t, 404, b.envd("POST", "/init", "{}").status)
}
