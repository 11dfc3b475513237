package local

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

// snapshot takes one and returns its id.
func (b *testBox) snapshot(body string) snapshotInfo {
	b.Helper()
	r := b.call("POST", b.on("/snapshots"), body)
	require.Equal(b, http.StatusCreated, r.status, "%s", r.body)
	var info snapshotInfo
	r.into(b.T, &info)
	return info
}

func (c *client) snapshots(query string) (ids []string, next string) {
	c.Helper()
	r := c.call("GET", "/snapshots"+query, "")
	require.Equal(c, http.StatusOK, r.status, "%s", r.body)
	var list []snapshotInfo
	r.into(c.T, &list)
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids, r.header.Get("X-Next-Token")
}

func TestSnapshotOutlivesItsSandbox(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		require.NoError(c, b.run("echo one > f; ln -s /etc/passwd out; mkdir -m 700 d; echo deep > d/g; echo x > ${TMPDIR:-/tmp}/t").err)
		was, err := b.stat("d")
		require.NoError(c, err)
		st, pid := b.begin(sh(growing("count")))
		snap := b.snapshot("{}")
		for st.Receive() {
		}
		require.Error(c, st.Err(), "connections drop, as with any stop of the machine")
		require.Len(c, b.list(), 1, "what ran goes on")
		require.Equal(c, pid, b.list()[0].GetPid())
		stood := b.size("count")
		require.Eventually(c, func() bool { return b.size("count") > stood }, patience, patience/4000)
		require.NoError(c, b.run("echo two > f").err)
		require.Equal(c, 204, c.call("DELETE", b.on(""), "").status)

		again := c.create(fmt.Sprintf(`{"templateID":%q,"envVars":{"A":"b"}}`, snap.ID))
		require.Equal(c, "one\ndeep\n/etc/passwd\nb\n", again.run("cat f d/g; readlink out; echo $A").stdout.String())
		d, err := again.stat("d")
		require.NoError(c, err)
		require.Equal(c, [2]any{was.GetMode(), was.GetOwner()}, [2]any{d.GetMode(), d.GetOwner()})
		require.Equal(c, "x\n", again.content("/tmp/t"), "all of its files, not its home alone")
		require.Empty(c, again.list(), "files, not memory")
		require.NotEqual(c, b.EnvdAccessToken, again.EnvdAccessToken)

		require.Equal(c, 204, c.call("DELETE", "/templates/"+url.PathEscape(snap.ID), "").status)
		require.Equal(c, 404, c.call("DELETE", "/templates/"+url.PathEscape(snap.ID), "").status)
		gone := c.call("POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID":%q}`, snap.ID))
		require.Equal(c, 404, gone.status, "never an empty sandbox in its place: %s", gone.body)
		left, err := filepath.Glob(filepath.Join(c.srv.dir, snapshotsDir, "*"))
		require.NoError(c, err)
		require.Empty(c, left, "nor do its files stay")
	})
}

func TestNamedSnapshots(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	c := newClient(t, start(t, Config{Isolation: None, DataDir: data}))
	b := c.create("")
	b.put("f", "old")
	require.Equal(t, "local/work:default", b.snapshot(`{"name":"work"}`).ID)
	b.put("f", "new")
	info := b.snapshot(`{"name":"local/work"}`)
	require.Equal(t, []string{"local/work:default"}, info.Names)
	b.put("f", "other")
	require.Equal(t, "local/work:v2", b.snapshot(`{"name":"work:v2"}`).ID)
	ids, _ := c.snapshots("")
	require.Equal(t, []string{"local/work:v2", "local/work:default"}, ids, "a name is taken over, not doubled")
	ids, _ = c.snapshots("?name=work")
	require.Equal(t, []string{"local/work:default"}, ids)
	for name, want := range map[string]string{"work": "new", "work:default": "new", "local/work": "new", "work:v2": "other"} {
		require.Equal(t, want, c.create(fmt.Sprintf(`{"templateID":%q}`, name)).content("f"), "%s", name)
	}
	require.Equal(t, 404, c.call("POST", "/v2/sandboxes", `{"templateID":"local/work:v3"}`).status)
	require.Equal(t, "work", c.create(`{"templateID":"local/work:v2"}`).TemplateID, "an id has no tag")
	for _, name := range []string{"work", "local%2Fwork"} {
		var list []e2b.ListedSandbox
		c.call("GET", "/v2/sandboxes?template="+name, "").into(t, &list)
		require.Len(t, list, 5, "those of every tag: %s", name)
	}

	require.NoError(t, c.srv.Close())
	c = newClient(t, start(t, Config{Isolation: None, DataDir: data}))
	require.Equal(t, "other", c.create(`{"templateID":"work:v2"}`).content("f"), "they outlive the server")
}

func TestSnapshotPages(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	a, b := c.create(""), c.create("")
	var want []string
	for range 3 {
		want = append([]string{a.snapshot("{}").ID}, want...)
		b.snapshot("{}")
	}
	var got []string
	page, next := c.snapshots("?limit=2&sandboxID=" + a.SandboxID)
	require.Len(t, page, 2)
	got = append(got, page...)
	page, next = c.snapshots("?limit=2&sandboxID=" + a.SandboxID + "&nextToken=" + url.QueryEscape(next))
	require.Empty(t, next)
	require.Equal(t, want, append(got, page...))
	require.Equal(t, 400, c.call("GET", "/snapshots?nextToken=x", "").status)
	require.Equal(t, 400, c.call("GET", "/snapshots?limit=0", "").status)
}

func TestFork(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create(`{"templateID":"base","metadata":{"k":"v"},"envVars":{"A":"b"},"autoPause":true}`)
		b.put("f", "kept")
		before := b.detail()
		r := c.call("POST", b.on("/fork"), `{"count":3,"timeout":600}`)
		require.Equal(c, http.StatusCreated, r.status, "%s", r.body)
		var forks []struct {
			Sandbox *e2b.Sandbox
			Error   json.RawMessage
		}
		r.into(c.T, &forks)
		require.Len(c, forks, 3)
		ids := map[string]bool{b.SandboxID: true, "": true}
		for _, f := range forks {
			require.NotNil(c, f.Sandbox, "%s", f.Error)
			require.False(c, ids[f.Sandbox.SandboxID], "ids of their own")
			ids[f.Sandbox.SandboxID] = true
			fork := &testBox{client: c, Sandbox: *f.Sandbox}
			require.NotEqual(c, b.EnvdAccessToken, f.Sandbox.EnvdAccessToken)
			require.Equal(c, "kept b", fork.run("cat f; printf ' '$A").stdout.String())
			d := fork.detail()
			require.Equal(c, map[string]string{"k": "v"}, d.Metadata)
			require.Equal(c, "pause", d.Lifecycle.OnTimeout)
			require.NoError(c, fork.run("echo own > f").err)
		}
		require.Equal(c, "kept", b.content("f"), "nobody shares files")
		require.Equal(c, before.EndAt, b.detail().EndAt, "the origin's time is untouched")
		ids2, _ := c.snapshots("")
		require.Empty(c, ids2, "a fork leaves no snapshot behind")
	})
}

func TestForkBeyondTheQuota(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None, MaxRunning: 3}))
	b := c.create("")
	c.create("")
	require.Equal(t, 400, c.call("POST", b.on("/fork"), `{"count":3}`).status, "more than can ever be")
	r := c.call("POST", b.on("/fork"), `{"count":2}`)
	require.Equal(t, http.StatusCreated, r.status)
	require.Equal(t, 1, strings.Count(r.body, `"sandbox":{`), "%s", r.body)
	require.Equal(t, 1, strings.Count(r.body, `"error":{"code":429`), "the other one says why: %s", r.body)
}
