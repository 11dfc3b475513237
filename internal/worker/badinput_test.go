package worker_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/worker"
)

// say publishes by hand what anybody may who is let.
func (w *world) say(subject, data string, header ...string) {
	w.t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	for i := 0; i+1 < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	require.NoError(w.t, w.nc.PublishMsg(m))
}

// Everything that a stranger can publish on the subjects of a running job, of its
// session and of the queue: the job ends as if nobody had, and so do the others.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.AckWait = 2 * time.Second })
	job := w.shell("s1", `echo start >>starts; echo one; until [ -e go ]; do sleep 0.1; done; echo two`)
	w.until(job, 4)
	at := "event.s1." + job.ID + "."
	for _, data := range []string{"", "\x00\xff\xfe", "{", `{"worker":"evil","attempt":9,"stream":"JOBS","stream_seq":99,"origin":99}`, strings.Repeat("[", 100_000)} {
		for _, kind := range append(events.Kinds(), "unheard") {
			if kind == events.KindCancelRequested {
				continue // anybody's to say
			}
			w.say(at+string(kind), data)
			w.say(at+string(kind), data, "ce-type", "dev.sandjet.job."+string(kind)+".v1", "Sandjet-Offset", "2")
		}
		w.say("event.s1.session.state", data)
		w.say("event.none.session.state", data)
		w.say("schedule.s1."+job.ID, data)
		w.say("again.s1."+job.ID, data)
		w.say("again.x", data)
		w.say("wake.s1."+job.ID, data)
		w.say("wake.x", data)
		w.say("dead.x.y", data)
		w.say("task.run", data)
		w.say("task.run", data, "Nats-Msg-Id", "\x01 bad id", "Sandjet-Origin", "x", "Sandjet-Attempt", "-1")
	}
	w.say("task.run", `{"session":"s1","argv":["`+"\xff\xfe"+`"]}`)
	w.say("task.run", `{"session":"s1","argv":["a\u0000b"]}`)
	w.say("task.run", `{"session":"s1","argv":`+strings.Repeat(`[`, 200_000)+strings.Repeat(`]`, 200_000)+`}`)

	other := w.follow(w.run("s2", "echo", "well"))
	require.Equal(t, events.Succeeded, other.Kind, "%+v", other.Outcome)
	beside := w.follow(w.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Argv: []string{"touch", "go"},
	}))
	require.Equal(t, events.Succeeded, beside.Kind, "%+v", beside.Outcome)
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, "one\ntwo\n", string(e.Stdout))
	require.Equal(t, 1, e.Attempts)
	require.Equal(t, "start\n", string(w.follow(w.run("s1", "cat", "starts")).Stdout))
	require.Equal(t, 1, w.state("s1", session.Active).Generation)
}

// Commands that do what they can to their own spools: each ends in an event, and
// the next command of the session runs.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.SpoolCap = 1 << 20 })
	for name, shell := range map[string]string{
		"removes its directory":   `rm -rf "$SANDJET_RUN"; echo gone`,
		"spools become links":     `cd "$SANDJET_RUN"; rm out err; ln -s /etc/passwd out; ln -s /dev/zero err; echo x`,
		"spools become pipes":     `cd "$SANDJET_RUN"; rm out err; mkfifo out err; echo x`,
		"all become pipes":        `cd "$SANDJET_RUN"; for f in out err pid stop cmd exit.tmp out.dropped err.dropped; do rm -rf $f; mkfifo $f; done; sleep 60`,
		"spools become folders":   `cd "$SANDJET_RUN"; rm out err; mkdir out err; echo x`,
		"spools are cut":          `echo something; cd "$SANDJET_RUN"; : >out; echo else`,
		"spools grow by others":   `cd "$SANDJET_RUN"; yes more | head -c 100000 >>out; echo x`,
		"its end is a folder":     `cd "$SANDJET_RUN"; mkdir exit`,
		"its end is a pipe":       `cd "$SANDJET_RUN"; mkfifo exit`,
		"its end is nonsense":     `cd "$SANDJET_RUN"; echo nonsense >exit; sleep 1`,
		"its end is huge":         `cd "$SANDJET_RUN"; yes code=0 | head -c 3000000 >exit; sleep 1`,
		"its end is a link":       `cd "$SANDJET_RUN"; ln -s /dev/zero exit; sleep 1`,
		"its count is nonsense":   `cd "$SANDJET_RUN"; echo x >out.dropped; mkdir err.dropped; echo x`,
		"prints without end":      `yes`,
		"prints without line end": `cat /dev/zero`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "s-" + strings.ReplaceAll(name, " ", "-")
			begun := time.Now()
			e := w.follow(w.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{Session: id, MaxAttempts: 1}, Shell: shell, Timeout: durationOf(5 * time.Second),
			}))
			t.Logf("%s as %s after %s: %s", e.Kind, e.Class, time.Since(begun).Round(100*time.Millisecond), e.Reason)
			// transport: one that removes its directory is quicker than its follower.
			require.Contains(t, []string{"ok", "command_failed", "command_timeout", "sandbox_lost", "internal", "transport"}, e.Class)
			require.LessOrEqual(t, e.StdoutBytes, int64(1<<20))
			after := w.follow(w.run(id, "echo", "after"))
			require.Equal(t, events.Succeeded, after.Kind, "%+v", after.Outcome)
			require.Equal(t, "after\n", string(after.Stdout))
		})
	}
}

// A run whose directory cannot be made ends its attempts with a class that says so.
func TestSpoolCannotBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{Session: "s1"}, Shell: "(sleep 1; rm -rf /tmp/.sandjet-default; echo x >/tmp/.sandjet-default) >/dev/null 2>&1 </dev/null &",
	})).Kind)
	w.until(w.run("s2", "echo", "other"), 1)
	require.Eventually(t, func() bool {
		e := w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s1", MaxAttempts: 1}, Argv: []string{"true"}}))
		t.Logf("%s %+v", e.Kind, e.Outcome)
		return e.Kind == events.Dead && strings.Contains(e.Reason, "could not be begun")
	}, 60*time.Second, 200*time.Millisecond)
}

// garbage stands before the sandbox server and answers in its place while it is
// told to.
type garbage struct {
	http.Handler
	mode atomic.Pointer[string]
}

func (g *garbage) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	mode := g.mode.Load()
	if mode == nil {
		g.Handler.ServeHTTP(rw, r)
		return
	}
	switch *mode {
	case "HTML":
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, "<html><body>It works!</body></html>")
	case "cut JSON":
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"sandboxID":"i12`)
	case "wrong types":
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"sandboxID":17,"state":[],"endAt":{}}`)
	case "empty":
		rw.WriteHeader(http.StatusCreated)
	case "endless":
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"sandboxID":"`)
		for r.Context().Err() == nil {
			if _, err := rw.Write([]byte(strings.Repeat("x", 64<<10))); err != nil {
				return
			}
		}
	case "redirect":
		http.Redirect(rw, r, r.URL.Path, http.StatusTemporaryRedirect)
	case "frames":
		rw.Header().Set("Content-Type", "application/connect+proto")
		_, _ = rw.Write([]byte("\x00\xff\xff\xff\xffgarbage"))
	case "bad status":
		rw.WriteHeader(299)
		fmt.Fprint(rw, "\x00\x01")
	}
}

// The sandbox server answers anything but what it should: jobs wait or end with a
// class, and once it is well the jobs do too.
func TestGarbageFromTheSandboxServer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"HTML", "cut JSON", "wrong types", "empty", "endless", "redirect", "frames", "bad status"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			target, err := url.Parse(w.e2b.URL())
			require.NoError(t, err)
			proxy := httputil.NewSingleHostReverseProxy(target)
			proxy.FlushInterval = -1
			g := &garbage{Handler: proxy}
			srv := httptest.NewServer(g)
			t.Cleanup(srv.Close)
			w.worker(func(c *worker.Config) { c.E2BAPIURL, c.E2BSandboxURL = srv.URL, srv.URL })
			running := w.shell("s1", `echo start >>starts; echo one; until [ -e go ]; do sleep 0.1; done; echo two`)
			w.until(running, 4)

			g.mode.Store(&mode)
			fresh := w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{Session: "s2", MaxAttempts: 2}, Argv: []string{"true"}})
			require.Eventually(t, func() bool { // it has met it
				h, err := w.facts.History(t.Context(), fresh)
				return err == nil && (h.Waiting.OK() || h.Retrying.OK() || h.Ended())
			}, 80*time.Second, tick)
			h, err := w.facts.History(t.Context(), fresh)
			require.NoError(t, err)
			t.Logf("waiting %+v, retrying %+v, outcome %+v", h.Waiting.Value, h.Retrying.Value, h.Outcome.Value)
			g.mode.Store(nil)

			w.follow(fresh)
			beside := w.follow(w.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{Session: "s1", Exclusive: new(bool)}, Argv: []string{"touch", "go"},
			}))
			require.Equal(t, events.Succeeded, beside.Kind, "%+v", beside.Outcome)
			e := w.follow(running)
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			require.Equal(t, "one\ntwo\n", string(e.Stdout))
			require.Equal(t, 1, e.Attempts)
		})
	}
}

// Every answer that workers have given to the queue is given again, as it was and as
// other answers of jobs that have ended: no job is lost, begun again or doubled.
func TestReplayedAcks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := make(chan *nats.Msg, 10_000) // what is said again is heard again
	_, err := w.nc.ChanSubscribe("$JS.ACK.>", heard)
	require.NoError(t, err)
	for _, name := range []string{"w1", "w2"} {
		w.worker(func(c *worker.Config) { c.Name, c.AckWait = name, 2*time.Second })
	}
	var said []*nats.Msg
	known := map[string]bool{}
	again := func(bodies ...string) {
		for len(heard) > 0 {
			m := <-heard
			if key := m.Subject + " " + string(m.Data); !known[key] {
				known[key], said = true, append(said, m)
			}
		}
		for _, m := range said {
			require.NoError(t, w.nc.Publish(m.Subject, m.Data))
			for _, b := range bodies {
				require.NoError(t, w.nc.Publish(m.Subject, []byte(b)))
			}
		}
		require.NoError(t, w.nc.Flush())
	}
	for _, id := range ids("before", 5) {
		w.follow(w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: id, Session: "s1"}, Shell: "echo " + id + " >>log"}))
	}
	require.Eventually(t, func() bool { return len(heard) >= 5 }, eventually, tick, "no answers heard")
	again("-NAK", "+TERM", "+ACK", "+WPI", "+NXT", "nonsense")

	long := w.shell("s1", lines(50_000, 50))
	w.until(long, 10_000)
	require.Eventually(t, func() bool { return len(heard) > 0 }, eventually, tick, "the long job gives no sign of life")
	again()
	var behind []events.Job
	for _, id := range ids("behind", 5) {
		behind = append(behind, w.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: id, Session: "s1"}, Shell: "echo " + id + " >>log"}))
	}
	again()
	w.onceAndWhole(long, 50_000)
	for _, j := range behind {
		again()
		require.Equal(t, events.Succeeded, w.follow(j).Kind)
	}
	require.Equal(t, append(ids("before", 5), ids("behind", 5)...), strings.Fields(string(w.follow(w.run("s1", "cat", "log")).Stdout)))
	t.Logf("%d answers given again", len(said))
}
