package local

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// growing lets a file grow for as long as it is let.
func growing(file string) string { return "while :; do echo >>" + file + "; sleep 0.01; done" }

// size is how far a file has grown; 0 while there is none.
func (b *testBox) size(path string) int64 {
	e, err := b.stat(path)
	if err != nil {
		return 0
	}
	return e.GetSize()
}

// content is what a file holds now; nothing while there is none.
func (b *testBox) content(path string) string {
	r, err := b.try("GET", "/files?path="+path, "", b.headers()...)
	if err != nil || r.status != http.StatusOK {
		return ""
	}
	return r.body
}

func TestPauseStopsAndResumeGoesOn(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		// The second one has left its session and shed its mark.
		st, pid := b.begin(sh("setsid env -u E2B_SANDBOX_ID sh -c '" + growing("orphan") + "' >/dev/null 2>&1 & " + growing("count")))
		require.Eventually(c, func() bool { return b.size("count") > 0 && b.size("orphan") > 0 }, patience, 5*time.Millisecond)
		require.Equal(c, 204, c.call("POST", b.on("/pause"), "").status)
		for st.Receive() {
		}
		require.Error(c, st.Err(), "the stream is reset, not ended")
		require.Equal(c, 502, b.envd("GET", "/health", "").status)
		require.Equal(c, e2b.StatePaused, b.detail().State)

		// Nothing moves: the machine's own view of the file stands still.
		file := b.outside("/home/user")
		one, two := readFile(c.T, file+"/count"), readFile(c.T, file+"/orphan")
		time.Sleep(100 * time.Millisecond) // were they running, they would grow
		require.Equal(c, one, readFile(c.T, file+"/count"))
		require.Equal(c, two, readFile(c.T, file+"/orphan"))

		r := c.call("POST", "/v2"+b.on("/connect"), "")
		require.Equal(c, 201, r.status)
		var sb e2b.Sandbox
		r.into(c.T, &sb)
		require.Equal(c, b.EnvdAccessToken, sb.EnvdAccessToken, "the token stays")
		require.Equal(c, 200, c.call("POST", "/v2"+b.on("/connect"), "").status, "it runs already")
		require.Len(c, b.list(), 1)
		require.Equal(c, pid, b.list()[0].GetPid())
		stood, stoodToo := b.size("count"), b.size("orphan")
		require.Eventually(c, func() bool { return b.size("count") > stood && b.size("orphan") > stoodToo }, patience, 5*time.Millisecond)
		require.NoError(c, b.signal(pid, process.Signal_SIGNAL_SIGKILL))
		require.Eventually(c, func() bool { return len(b.list()) == 0 }, patience, 5*time.Millisecond)
	})
}

func TestPausedManyTimes(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		req := sh("while read x; do echo $x; done; exit 6")
		req.Stdin = nil
		st, pid := b.begin(req)
		_ = st.Close()
		for i := range 15 {
			require.Equal(c, 204, c.call("POST", b.on("/pause"), "").status)
			require.Equal(c, 201, c.call("POST", "/v2"+b.on("/connect"), "").status)
			if i%5 == 0 {
				require.Equal(c, fmt.Sprintln(i), b.run(fmt.Sprint("echo ", i)).stdout.String())
			}
		}
		r := b.follow(pid, func() {
			b.say(pid, "still here\n")
			_, err := b.processes().CloseStdin(c.Context(), ask(b, &process.CloseStdinRequest{Process: byPid(pid)}))
			require.NoError(c, err)
		})
		require.Equal(c, "still here\n", r.stdout.String())
		require.EqualValues(c, 6, r.end.GetExitCode(), "the end is heard after all the stops")
	})
}

func TestPauseWithoutMemory(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		b.put("kept", "yes")
		_, pid := b.begin(sh("sleep 100"))
		require.Equal(c, 204, c.call("POST", b.on("/pause"), `{"memory":false}`).status)
		require.Equal(c, 201, c.call("POST", b.on("/resume"), "").status)
		require.Empty(c, b.list())
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(b.signal(pid, process.Signal_SIGNAL_SIGKILL)))
		require.Equal(c, "yes", b.envd("GET", "/files?path=kept", "").body)
	})
}

// TestResumedOnce: of those who resume at the same time one did it; to the others it runs already.
func TestResumedOnce(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		for range 20 {
			require.Equal(c, 204, c.call("POST", b.on("/pause"), "").status)
			got := make(chan int, 4)
			for range cap(got) {
				go func() {
					r, _ := c.try("POST", b.on("/resume"), "")
					got <- r.status
				}()
			}
			statuses := map[int]int{}
			for range cap(got) {
				statuses[<-got]++
			}
			require.Equal(c, map[int]int{201: 1, 409: cap(got) - 1}, statuses)
		}
	})
}

// TestSharedEtcIsNoLink: what a sandbox made of a folder that the machine shares
// neither keeps it from coming up again nor is taken for that folder.
func TestSharedEtcIsNoLink(t *testing.T) {
	if !slices.Contains(levels(t), Strong) {
		t.Skip("needs strong isolation")
	}
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: Strong}))
	b := c.create("")
	b.ok("mkdir trap")
	shared := b.ok("ls /etc/ssl")
	ssl := b.outside("/etc/ssl")
	require.NoError(t, os.Remove(ssl))
	require.NoError(t, os.Symlink("/home/user/trap", ssl))
	require.Equal(t, 204, c.call("POST", b.on("/pause"), `{"memory":false}`).status)
	require.Equal(t, 201, c.call("POST", b.on("/resume"), "").status)
	require.Equal(t, "directory\n", b.ok("stat -c %F /etc/ssl"))
	require.Equal(t, shared, b.ok("ls /etc/ssl"))
	require.Empty(t, b.ok("ls trap"))
}

func TestKillLeavesNothing(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		mark := "100." + fmt.Sprint(time.Now().UnixNano()) // a number of seconds that nobody else sleeps
		st, _ := b.begin(sh("cd; mkdir -p locked/in; chmod 0 locked; setsid sleep " + mark + " & sleep " + mark + " & echo ready; sleep " + mark))
		require.True(c, st.Receive(), "it is ready")
		require.NotEmpty(c, withCommand(mark))
		require.Equal(c, 204, c.call("DELETE", b.on(""), "").status)
		for st.Receive() {
		}
		require.Error(c, st.Err(), "the stream is reset, not ended")
		require.Equal(c, 404, c.call("DELETE", b.on(""), "").status)
		require.Equal(c, 404, c.call("GET", b.on(""), "").status)
		require.Equal(c, 404, c.call("POST", "/v2"+b.on("/connect"), "").status)
		require.Equal(c, 502, b.envd("GET", "/health", "").status)
		require.Empty(c, withCommand(mark), "no process is left")
		require.NoDirExists(c, filepath.Join(c.srv.dir, b.SandboxID))

		p := c.create("")
		st, _ = p.begin(sh("echo ready; sleep " + mark))
		require.True(c, st.Receive())
		require.Equal(c, 204, c.call("POST", p.on("/pause"), "").status)
		require.Equal(c, 204, c.call("DELETE", p.on(""), "").status, "a paused one too")
		require.Empty(c, withCommand(mark))
	})
}

// TestKillFindsWhoShedAll: a process with nothing of its sandbox on it but the
// control group dies too, where there is one.
func TestKillFindsWhoShedAll(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	if len(c.srv.groups.trees) == 0 {
		t.Log("NOT PROVEN HERE: this machine lets us make no control groups")
		return
	}
	b := c.create("")
	mark := "100." + fmt.Sprint(time.Now().UnixNano())
	require.NoError(t, b.run("env -i setsid -f sleep "+mark+" >/dev/null 2>&1 </dev/null").err)
	require.Eventually(t, func() bool { return len(withCommand(mark)) == 1 }, patience, patience/1000)
	require.Equal(t, 204, c.call("DELETE", b.on(""), "").status)
	require.Eventually(t, func() bool { return len(withCommand(mark)) == 0 }, patience, patience/1000)
}

// withCommand finds the machine's processes whose command line holds part.
func withCommand(part string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), part) {
			pids = append(pids, f)
		}
	}
	return pids
}

func TestTheMachineDies(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		st, _ := b.begin(sh("sleep 100"))
		require.True(c, c.srv.KillSandbox(b.SandboxID))
		for st.Receive() {
		}
		require.ErrorContains(c, st.Err(), "connection reset by peer")
		require.False(c, c.srv.KillSandbox(b.SandboxID))

		// The same when the jail itself is killed behind our back.
		b = c.create("")
		sb, err := c.srv.find(b.SandboxID)
		require.NoError(c, err)
		require.NoError(c, sb.jail.init.signal(9))
		require.Eventually(c, func() bool { return c.call("GET", b.on(""), "").status == 404 }, patience, time.Millisecond)
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			cfg := Config{Isolation: level, DataDir: t.TempDir(), APIKey: "k", MaxRunning: 2}
			srv, err := Start(t.Context(), cfg)
			require.NoError(t, err)
			c := newClient(t, srv)
			runs := c.create(`{"templateID":"base","metadata":{"who":"runs"},"envVars":{"E":"kept"}}`)
			sleeps := c.create(`{"templateID":"base","metadata":{"who":"sleeps"}}`)
			runs.put("f", "one")
			sleeps.put("f", "two")
			mark := "100." + fmt.Sprint(time.Now().UnixNano())
			_, pid := runs.begin(sh("sleep " + mark))
			if level == Strong { // what the sandbox's root leaves must not lead the next start astray
				st, err := runs.processes().Start(t.Context(), as(ask(runs, sh("rm /etc/hosts && ln -s "+cfg.DataDir+"/victim /etc/hosts && rmdir /run && ln -s "+cfg.DataDir+" /run && echo done")), "root"))
				require.NoError(t, err)
				r := finish(st)
				require.Equal(t, "done\n", r.stdout.String(), "%s", r.stderr.String())
			}
			_, frozen := sleeps.begin(sh("sleep " + mark))
			require.Equal(t, 204, c.call("POST", sleeps.on("/pause"), "").status)
			before := []e2b.SandboxDetail{runs.detail(), sleeps.detail()}
			require.NoError(t, srv.Close())
			require.NoError(t, srv.Close(), "twice is fine")
			require.Empty(t, withCommand(mark), "processes end with the server")
			require.Eventually(t, func() bool { return len(loops(t, cfg.DataDir)) == 0 }, patience, 5*time.Millisecond, "and so do disks")

			c.srv = start(t, cfg)
			after := []e2b.SandboxDetail{runs.detail(), sleeps.detail()}
			for i := range before {
				require.True(t, before[i].EndAt.Equal(after[i].EndAt))
				require.Equal(t, before[i].State, after[i].State)
				require.Equal(t, before[i].Metadata, after[i].Metadata)
				require.Equal(t, before[i].EnvdAccessToken, after[i].EnvdAccessToken)
			}
			require.Equal(t, "one", runs.envd("GET", "/files?path=f", "").body)
			require.Equal(t, "kept\n", runs.run("echo $E").stdout.String())
			require.Equal(t, connect.CodeNotFound, connect.CodeOf(runs.signal(pid, process.Signal_SIGNAL_SIGKILL)))
			require.NoFileExists(t, cfg.DataDir+"/victim")
			require.Equal(t, 502, sleeps.envd("GET", "/health", "").status)
			require.Equal(t, 201, c.call("POST", "/v2"+sleeps.on("/connect"), "").status)
			require.Equal(t, "two", sleeps.envd("GET", "/files?path=f", "").body)
			require.Empty(t, sleeps.list(), "what the pause kept in memory is gone, as after a reboot")
			require.Equal(t, connect.CodeNotFound, connect.CodeOf(sleeps.signal(frozen, process.Signal_SIGNAL_SIGKILL)))
			require.Equal(t, "up\n", sleeps.run("echo up").stdout.String())
			require.Equal(t, 429, c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`).status, "both count as running")
		})
	}
}

func TestTimeIsUpWhileDown(t *testing.T) {
	t.Parallel()
	cfg := Config{Isolation: None, DataDir: t.TempDir(), APIKey: "k"}
	srv, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	c := newClient(t, srv)
	dies := c.create(`{"templateID":"base","timeout":1}`)
	sleeps := c.create(`{"templateID":"base","timeout":1,"autoPause":true}`)
	end := sleeps.detail().EndAt
	require.NoError(t, srv.Close())
	time.Sleep(time.Until(end)) // what is tested is that time passes
	c.srv = start(t, cfg)
	require.Eventually(t, func() bool { return c.call("GET", dies.on(""), "").status == 404 }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return sleeps.detail().State == e2b.StatePaused }, patience, time.Millisecond)
}

// TestTransitionsRace lets everything happen to few sandboxes at once. It is
// for the race detector, and for a state that nobody leaves again.
func TestTransitionsRace(t *testing.T) {
	eachLevel(t, func(c *client) {
		boxes := []*testBox{c.create(""), c.create("")}
		var all sync.WaitGroup
		for n := range 6 {
			all.Go(func() {
				for i := range 8 {
					b := boxes[(n+i)%2]
					switch n {
					case 0, 1:
						_, _ = c.try("POST", b.on("/pause"), "")
					case 2, 3:
						r, err := c.try("POST", "/v2"+b.on("/connect"), "")
						if err == nil && r.status != http.StatusOK && r.status != http.StatusCreated {
							c.Errorf("connect: %d %s", r.status, r.body)
						}
					case 4:
						st, err := b.processes().Start(c.Context(), ask(b, sh("echo hi")))
						if err == nil {
							finish(st)
						}
					case 5:
						_, _ = b.ls("/home/user", 1)
						_, _ = c.try("GET", "/v2/sandboxes", "")
					}
				}
			})
		}
		all.Wait()
		for _, b := range boxes {
			require.Contains(c, []int{200, 201}, c.call("POST", "/v2"+b.on("/connect"), "").status)
			require.Equal(c, "well\n", b.run("echo well").stdout.String())
			require.Equal(c, 204, c.call("DELETE", b.on(""), "").status)
		}
	})
}

func TestCloseInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			srv, err := Start(t.Context(), Config{Isolation: level})
			require.NoError(t, err)
			c := newClient(t, srv)
			dir := srv.dir
			b := c.create("")
			st, _ := b.begin(sh("yes"))
			_, _ = b.begin(sh("sleep 100"))
			require.NoError(t, srv.Close())
			for st.Receive() {
			}
			require.Error(t, st.Err())
			require.NoDirExists(t, dir, "a temporary directory goes with the server")
		})
	}
}

// TestTrafficWakesWhatIsStillPausing: the pause cuts those who talked to the
// sandbox before it, not the one who comes to wake it.
func TestTrafficWakesWhatIsStillPausing(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create(`{"templateID":"base","autoPause":true,"autoResume":{"enabled":true}}`)
	b.put("f", "kept")
	sb, err := c.srv.find(b.SandboxID)
	require.NoError(t, err)
	sb.launch.RLock() // the pause gets no further than its first step
	release := sync.OnceFunc(sb.launch.RUnlock)
	defer release() // also of a test that fails
	paused := make(chan int, 1)
	go func() {
		r, _ := c.try("POST", b.on("/pause"), "")
		paused <- r.status
	}()
	require.Eventually(t, func() bool { return sb.is(pausing) }, patience, time.Millisecond)
	read := make(chan string, 1)
	go func() { read <- b.content("f") }()
	require.Eventually(t, func() bool { return c.srv.Faults().Count("read") == 1 }, patience, time.Millisecond)
	release()
	require.Equal(t, "kept", <-read)
	require.Equal(t, 204, <-paused)
}

// TestPauseFailsAtTheEnd: it is tried again, but not at once and all the time.
func TestPauseFailsAtTheEnd(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	c := newClient(t, start(t, Config{Isolation: None, Log: slog.New(slog.NewTextHandler(&log, nil))}))
	b := c.create(`{"templateID":"base","autoPause":true,"timeout":1000}`)
	sb := b.within()
	sb.jail.group.freeze = "/nowhere"
	require.Equal(t, 500, c.call("POST", b.on("/pause"), "").status)
	sb.mu.Lock()
	sb.rec.EndAt = time.Now()
	sb.mu.Unlock()
	sb.expire()
	for range 20 {
		b.detail()
	}
	require.True(t, sb.is(running))
	tries := strings.Count(log.String(), "sandbox not paused at its end")
	require.Positive(t, tries)
	require.Less(t, tries, 10)
}
