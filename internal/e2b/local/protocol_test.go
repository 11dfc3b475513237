package local

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// midway calls ask while a pause of the sandbox stands between its first step
// and its last.
func (b *testBox) midway(ask func()) {
	b.Helper()
	sb, err := b.srv.find(b.SandboxID)
	require.NoError(b, err)
	sb.launch.RLock()
	release := sync.OnceFunc(sb.launch.RUnlock)
	defer release() // also of a test that fails
	paused := make(chan int, 1)
	go func() {
		r, _ := b.try("POST", b.on("/pause"), "")
		paused <- r.status
	}()
	require.Eventually(b, func() bool { return sb.is(pausing) }, patience, time.Millisecond)
	ask()
	release()
	require.Equal(b, 204, <-paused)
}

// TestInTransition: what a sandbox that is pausing answers. It is shown as paused,
// connect waits for it, all else is a conflict that goes by.
func TestInTransition(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	connected := make(chan int, 1)
	b.midway(func() {
		require.Equal(t, e2b.StatePaused, b.detail().State)
		require.Equal(t, 502, b.envd("GET", "/health", "").status)
		for _, tc := range []struct{ method, verb, body string }{
			{"POST", "/pause", ""},
			{"POST", "/timeout", `{"timeout":5}`},
			{"POST", "/refreshes", `{"duration":60}`},
			{"PUT", "/network", `{}`},
		} {
			r := c.call(tc.method, b.on(tc.verb), tc.body)
			require.Equal(t, 409, r.status, "%s: %s", tc.verb, r.body)
			require.Contains(t, r.body, "in 'pausing' state", tc.verb)
		}
		go func() {
			r, _ := c.try("POST", "/v2"+b.on("/connect"), "")
			connected <- r.status
		}()
		require.Eventually(t, func() bool { return c.srv.Faults().Count("connect") == 1 }, patience, time.Millisecond)
	})
	require.Equal(t, 201, <-connected)
	require.Equal(t, e2b.StateRunning, b.detail().State)
}

// TestAutoPauseOfTheDiskAlone: at its end such a sandbox keeps its files, and
// comes back without processes.
func TestAutoPauseOfTheDiskAlone(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create(`{"templateID":"base","autoPause":true,"autoPauseMemory":false}`)
	end := b.detail().EndAt
	b.put("f", "kept")
	b.begin(sh("sleep 100"))
	require.Equal(t, end, b.detail().EndAt, "traffic does not extend it")
	require.Equal(t, 204, c.call("POST", b.on("/timeout"), `{"timeout":0}`).status)
	require.Eventually(t, func() bool { return b.detail().State == e2b.StatePaused }, patience, time.Millisecond)
	r := c.call("POST", b.on("/resume"), `{"timeout":600}`)
	require.Equal(t, 201, r.status, "%s", r.body)
	require.Contains(t, r.body, b.EnvdAccessToken)
	require.Greater(t, time.Until(b.detail().EndAt), 5*time.Minute)
	require.Equal(t, "kept", b.content("f"))
	require.Empty(t, b.list())
}

// TestWhoWakesASandbox: the token for its ports where there is one, for as long as
// its create said, within the quota.
func TestWhoWakesASandbox(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None, MaxRunning: 1}))
	const wakes = `"templateID":"base","timeout":3600,"autoPause":true,"autoResume":{"enabled":true}`
	b := c.create(`{` + wakes + `,"network":{"allowPublicTraffic":false}}`)
	to := func(b *testBox, header ...string) int {
		return c.call("GET", "/", "", append([]string{headerSandbox, b.SandboxID, headerPort, "1"}, header...)...).status
	}
	pause := func(b *testBox) { require.Equal(t, 204, c.call("POST", b.on("/pause"), "").status) }
	pause(b)
	require.Equal(t, 403, to(b))
	require.Equal(t, 403, to(b, "X-Access-Token", b.EnvdAccessToken))
	require.Equal(t, e2b.StatePaused, b.detail().State)
	require.Equal(t, 502, to(b, "e2b-traffic-access-token", *b.TrafficAccessToken), "it runs, and nothing listens")
	require.Equal(t, e2b.StateRunning, b.detail().State)
	require.Greater(t, time.Until(b.detail().EndAt), 50*time.Minute, "for as long as it was created for")
	pause(b)
	open := c.create(`{` + wakes + `}`)
	require.Equal(t, 429, to(b, "e2b-traffic-access-token", *b.TrafficAccessToken))
	pause(open)
	require.Equal(t, 502, to(open))
	require.Equal(t, e2b.StateRunning, open.detail().State, "without a token for its ports everybody wakes it")
}

// TestWhatTheHostOfEnvdAloneMayCall is not there from outside, with the token or
// without.
func TestWhatTheHostOfEnvdAloneMayCall(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	for _, path := range []string{"/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse", "/upgrade"} {
		for _, header := range [][]string{b.headers(), b.headers()[:4]} {
			r := c.call("POST", path, "{}", header...)
			require.Equal(t, 404, r.status, "%s: %s", path, r.body)
		}
	}
}

// TestTheHostsNameComesFirst: headers count where the name of the host says nothing.
func TestTheHostsNameComesFirst(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b, other := c.create(""), c.create("")
	b.put("f", "named")
	req, err := http.NewRequestWithContext(t.Context(), "GET", c.srv.URL()+"/files?path=f", nil)
	require.NoError(t, err)
	req.Host = "49983-" + b.SandboxID + ".e2b.app"
	req.Header.Set(headerSandbox, other.SandboxID)
	req.Header.Set(headerPort, "1")
	req.Header.Set("X-Access-Token", b.EnvdAccessToken)
	r, err := c.do(req)
	require.NoError(t, err)
	require.Equal(t, "named", r.body)
}

// TestPagesOfEveryOriginMayCallEnvd: what a browser asks first.
func TestPagesOfEveryOriginMayCallEnvd(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	host := []string{headerSandbox, b.SandboxID, headerPort, envdPort, "Origin", "https://app.test"}
	r := c.call("OPTIONS", "/process.Process/Start", "", append(host, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,x-access-token")...)
	require.Equal(t, 204, r.status)
	require.Equal(t, "*", r.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization,x-access-token", r.header.Get("Access-Control-Allow-Headers"), `a "*" leaves out authorization`)
	require.Equal(t, "7200", r.header.Get("Access-Control-Max-Age"))
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		require.Contains(t, r.header.Get("Access-Control-Allow-Methods"), method)
	}
	r = c.call("GET", "/health", "", host...)
	require.Equal(t, "*", r.header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, r.header.Values("Vary"), "Origin")
}

// TestBytesOfFiles holds messages about files against what envd was seen to send.
func TestBytesOfFiles(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		rpc := func(method, body string, header ...string) reply {
			return b.envd("POST", "/filesystem.Filesystem/"+method, body, append([]string{"Content-Type", "application/json"}, header...)...)
		}
		require.NoError(c, b.mkdir("d/deep"))
		b.put("empty", "")
		b.run("ln -s d linked")
		var e struct{ Entry map[string]any }
		rpc("Stat", `{"path":"/home/user","unknown":1}`).into(c.T, &e)
		size, at := e.Entry["size"], e.Entry["modifiedTime"]
		require.IsType(c, "", size, "64 bits are a text")
		_, err := time.Parse(time.RFC3339Nano, at.(string))
		require.NoError(c, err)
		require.Equal(c, map[string]any{
			"name": "user", "type": "FILE_TYPE_DIRECTORY", "path": "/home/user", "size": size, "mode": 493.0,
			"permissions": "drwxr-xr-x", "owner": "user", "group": "user", "modifiedTime": at,
		}, e.Entry)
		require.NotContains(c, rpc("Stat", `{"path":"empty"}`).body, `"size"`, "a zero is not on the wire")
		require.Equal(c, "{}", rpc("ListDir", `{"path":"d/deep"}`).body)
		require.Contains(c, rpc("ListDir", `{"path":"linked"}`).body, `"/home/user/linked/deep"`, "as it was asked for")
		require.Equal(c, "{}", rpc("Remove", `{"path":"none"}`).body)

		r := rpc("Stat", `{"path":"none"}`)
		require.Equal(c, 404, r.status)
		require.Contains(c, r.body, `{"code":"not_found","message":"`)
		require.Equal(c, 409, rpc("MakeDir", `{"path":"d"}`).status)
		require.Equal(c, 400, rpc("Stat", `{"path":`).status)
		require.Equal(c, 400, rpc("Stat", `{}`, "Connect-Timeout-Ms", "soon").status)
		r = rpc("Stat", `{"path":"d"}`, "Authorization", "Basic ZXZlOg==")
		require.Equal(c, 401, r.status)
		require.Contains(c, r.body, `{"code":"unauthenticated","message":"invalid username: 'eve'"}`)
	})
}

// TestWatchesOnTheWire: a start, signs of life while nothing happens, and events.
func TestWatchesOnTheWire(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	req := ask(b, &filesystem.WatchDirRequest{Path: ".", IncludeEntry: true})
	req.Header().Set("Keepalive-Ping-Interval", "1")
	st, err := b.files().WatchDir(t.Context(), req)
	require.NoError(t, err)
	defer st.Close()
	require.True(t, st.Receive())
	require.NotNil(t, st.Msg().GetStart())
	for range 2 {
		require.True(t, st.Receive())
		require.NotNil(t, st.Msg().GetKeepalive())
	}
	b.put("f", "x")
	for st.Receive() {
		if ev := st.Msg().GetFilesystem(); ev.GetType() == filesystem.EventType_EVENT_TYPE_WRITE {
			require.Equal(t, "f", ev.GetName())
			require.Equal(t, "/home/user/f", ev.GetEntry().GetPath())
			return
		}
	}
	t.Fatal(st.Err())
}

// TestMetadataIsBounded by what a file system holds.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	put := func(key string, size int) int {
		return b.envd("POST", "/files?path=f", "x", "Content-Type", octets, "X-Metadata-"+key, strings.Repeat("v", size)).status
	}
	require.Equal(t, 200, put(strings.Repeat("k", 246), 10))
	require.Equal(t, 400, put(strings.Repeat("k", 247), 10))
	require.Equal(t, 400, put("k", 4096))
}

// TestWorkingDirectories are the request's, from the user's home on.
func TestWorkingDirectories(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		require.NoError(c, b.mkdir("d/e"))
		for cwd, want := range map[string]string{"": "user", "d": "d", "d/e": "e", "~": "user", "~/d": "d", "/tmp": "tmp", "/home/user/d/../d/e/": "e"} {
			req := sh(`basename "$PWD"`)
			req.Process.Cwd = &cwd
			st, err := b.processes().Start(c.Context(), ask(b, req))
			require.NoError(c, err)
			out := finish(st)
			require.NoError(c, out.err, cwd)
			require.Equal(c, want+"\n", out.stdout.String(), cwd)
		}
		other := "~root/d"
		req := sh("true")
		req.Process.Cwd = &other
		st, err := b.processes().Start(c.Context(), ask(b, req))
		require.NoError(c, err)
		require.Equal(c, connect.CodeInvalidArgument, connect.CodeOf(finish(st).err))
	})
}

// TestTimeGoesOnWithoutTheClient: the limit of a command counts from its start,
// also when nobody listens any more, and its end is told for a while.
func TestTimeGoesOnWithoutTheClient(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		w := c.wire() // connect's own client would stop at the deadline itself
		frame := whole(0, `{"process":{"cmd":"sleep","args":["100"]},"stdin":false}`)
		w.post("/process.Process/Start", len(frame), frame, append(b.headers(),
			"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1", "Connect-Timeout-Ms", "5000")...)
		require.Eventually(c, func() bool { return len(b.list()) == 1 }, patience, 5*time.Millisecond)
		pid := b.list()[0].GetPid()
		w.hangUp(false)
		require.Eventually(c, func() bool { return len(b.list()) == 0 }, patience, 5*time.Millisecond)
		r := b.follow(pid, nil)
		require.NoError(c, r.err)
		require.EqualValues(c, -1, r.end.GetExitCode())
		require.Equal(c, "signal: killed", r.end.GetStatus())
		require.False(c, r.end.GetExited())
	})
}

// TestSizesOfMessages: output comes in messages of at most 32 KiB, a terminal's of
// 16, and input of 16 MiB is taken at once.
func TestSizesOfMessages(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		st, _ := b.begin(sh("head -c 10000000 /dev/zero"))
		total, most := 0, 0
		for st.Receive() {
			n := len(st.Msg().GetEvent().GetData().GetStdout())
			total, most = total+n, max(most, n)
		}
		require.NoError(c, st.Err())
		require.Equal(c, 10_000_000, total)
		require.LessOrEqual(c, most, 32<<10)
		require.Greater(c, most, 4<<10, "nor in crumbs")

		st, pid := b.begin(&process.StartRequest{Process: &process.ProcessConfig{Cmd: "cat"}, Pty: &process.PTY{Size: &process.PTY_Size{Cols: 80, Rows: 24}}})
		typed := func(text string) {
			in := &process.ProcessInput{Input: &process.ProcessInput_Pty{Pty: []byte(text)}}
			_, err := b.processes().SendInput(c.Context(), ask(b, &process.SendInputRequest{Process: byPid(pid), Input: in}))
			require.NoError(c, err)
		}
		typed("hi\n")
		typed("\x04")
		out := finish(st)
		require.NoError(c, out.err)
		require.Contains(c, out.stdout.String(), "hi\r\nhi\r\n", "an end of input ends what reads it")

		counts, pid := b.begin(&process.StartRequest{Process: &process.ProcessConfig{Cmd: "wc", Args: []string{"-c"}}})
		b.say(pid, strings.Repeat("x", 16<<20))
		_, err := b.processes().CloseStdin(c.Context(), ask(b, &process.CloseStdinRequest{Process: byPid(pid)}))
		require.NoError(c, err)
		require.Equal(c, fmt.Sprintln(16<<20), finish(counts).stdout.String())
	})
}

// TestTags find a process as its pid does.
func TestTags(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	var pids []uint32
	tags := []string{"one", "two", "three"}
	for i := range tags {
		req := sh("sleep 100")
		req.Tag = &tags[i]
		_, pid := b.begin(req)
		pids = append(pids, pid)
	}
	by := func(tag string) *process.ProcessSelector {
		return &process.ProcessSelector{Selector: &process.ProcessSelector_Tag{Tag: tag}}
	}
	for i, tag := range tags {
		st, err := b.processes().Connect(t.Context(), ask(b, &process.ConnectRequest{Process: by(tag)}))
		require.NoError(t, err)
		require.True(t, st.Receive())
		require.Equal(t, pids[i], st.Msg().GetEvent().GetStart().GetPid())
		_ = st.Close()
	}
	for _, p := range b.list() {
		require.Contains(t, tags, p.GetTag())
	}
	_, err := b.processes().SendSignal(t.Context(), ask(b, &process.SendSignalRequest{Process: by("none"), Signal: process.Signal_SIGNAL_SIGTERM}))
	require.Equal(t, connect.CodeNotFound, connect.CodeOf(err))
	require.ErrorContains(t, err, "process with tag none not found")
}

// TestBytesOfInputStreams: one message and the end.
func TestBytesOfInputStreams(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	_, pid := b.begin(&process.StartRequest{Process: &process.ProcessConfig{Cmd: "cat"}})
	r := b.envd("POST", "/process.Process/StreamInput", whole(0, fmt.Sprintf(`{"start":{"process":{"pid":%d}}}`, pid)),
		"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1")
	require.Equal(t, whole(0, "{}")+whole(2, "{}"), r.body)
}

// TestSignedUploadWithoutAPath: the parts' own names say where they go.
func TestSignedUploadWithoutAPath(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	body, kind := form(t, "d/named", "signed")
	q := url.Values{"signature": {sign("", "write", "", b.EnvdAccessToken, "")}}
	r := c.call("POST", "/files?"+q.Encode(), body, "Content-Type", kind)
	require.Equal(t, 200, r.status, "%s", r.body)
	require.Equal(t, "signed", b.content("d/named"))
	require.Equal(t, 401, c.call("GET", "/files?path=d/named&"+q.Encode(), "").status, "it is for no other call")
}

// TestEndsAreForgotten after the 30 s that they are told for.
func TestEndsAreForgotten(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	r := b.run("exit 4")
	require.EqualValues(t, 4, b.follow(r.pid, nil).end.GetExitCode())
	require.Eventually(t, func() bool {
		return connect.CodeOf(b.follow(r.pid, nil).err) == connect.CodeNotFound
	}, endKept+patience, 100*time.Millisecond)
}

// TestPagesForBrowsers: who opens a port that is closed reads why.
func TestPagesForBrowsers(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b, shut := c.create(""), c.create(`{"templateID":"base","network":{"allowPublicTraffic":false}}`)
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	for _, tc := range []struct {
		id, message string
		status      int
	}{
		{b.SandboxID, "port is not open", 502}, {"inone", "The sandbox was not found", 502}, {shut.SandboxID, "missing or wrong", 403},
	} {
		r := c.call("GET", "/", "", headerSandbox, tc.id, headerPort, "1", "User-Agent", firefox)
		require.Equal(t, tc.status, r.status)
		require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"))
		require.Contains(t, r.body, tc.message)
		require.Contains(t, r.body, "<p>Sandbox "+tc.id)
		r = c.call("GET", "/", "", headerSandbox, tc.id, headerPort, "1", "User-Agent", "curl/8")
		require.Equal(t, tc.status, r.status)
		require.Contains(t, r.body, `{"sandboxId":"`+tc.id)
	}
}
