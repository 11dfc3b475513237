package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

// fails expects one line on standard error that says why, long before a start is given
// up.
func (p *process) fails(want string) {
	p.t.Helper()
	require.Equal(p.t, 1, p.exit(), p.stderr.String())
	got := p.stderr.String()
	require.Equal(p.t, 1, strings.Count(got, "\n"), got)
	require.True(p.t, strings.HasPrefix(got, "worker: "), got)
	require.Contains(p.t, got, want)
	require.NotContains(p.t, got, "secret")
}

// What is missing outside is named, in one line, and the worker is gone.
func TestStartChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nobody := heldAddr(t)

	t.Run("no NATS", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("NATS_URL", "nats://u:secret@"+nobody)).fails("worker: NATS_URL: connect to nats://***@" + nobody + ": ")
	})
	t.Run("NATS that says nothing", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("NATS_URL", speak(t, func(net.Conn) {}))).fails("worker: NATS_URL: connect to nats://127.0.0.1:")
	})
	t.Run("no such NATS context", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("NATS_URL", "", "NATS_CONTEXT", "nowhere")).fails("worker: NATS_CONTEXT: connect to nats (context nowhere): ")
	})
	t.Run("NATS with a password", func(t *testing.T) {
		t.Parallel()
		s := bareNATS(t, &server.Options{Username: "u", Password: "right"})
		start(t, w.env("NATS_URL", strings.Replace(s, "nats://", "nats://u:secret@", 1))).fails("Authorization Violation")
	})
	t.Run("NATS without JetStream", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("NATS_URL", bareNATS(t, &server.Options{}))).fails(
			"worker: NATS_URL: JetStream is off for this account: start nats-server with -js")
	})
	t.Run("NATS that is too old", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("NATS_URL", speak(t, oldServer))).fails(
			"worker: NATS_URL: the server is 2.11.9: want 2.12.0 or newer, which can schedule messages")
	})
	t.Run("no Redis", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("REDIS_URL", "redis://:secret@"+nobody)).fails("worker: REDIS_URL: reach redis: redis unavailable: ")
	})
	t.Run("Redis that says nothing", func(t *testing.T) {
		t.Parallel()
		silent := speak(t, func(net.Conn) {})
		start(t, w.env("REDIS_URL", strings.Replace(silent, "nats", "redis", 1))).fails("worker: REDIS_URL: reach redis: ")
	})
	t.Run("Redis with another password", func(t *testing.T) {
		t.Parallel()
		if w.redis.Kind != stack.RedisServer {
			t.Skip("redis-server is not on PATH")
		}
		r, err := stack.StartRedis(stack.RedisOptions{Args: []string{
			"--user", "u", "on", ">right", "~*", "+@all",
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Stop() })
		start(t, w.env("REDIS_URL", "redis://u:secret@"+r.Addr)).fails("worker: REDIS_URL: reach redis: WRONGPASS")
	})
	t.Run("an E2B key that is refused", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("E2B_API_KEY", "e2b_secret")).fails("worker: E2B_API_KEY: E2B refuses the key: ")
	})
	t.Run("no E2B at all", func(t *testing.T) {
		t.Parallel()
		start(t, w.env("E2B_API_URL", speak(t, answers("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "http"))).fails("worker: E2B_API_URL: ")
	})
	t.Run("a port that is taken", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		start(t, w.env("WORKER_HTTP_ADDR", l.Addr().String())).fails("worker: WORKER_HTTP_ADDR: listen tcp " + l.Addr().String())
	})
}

// Streams that are in the way.
func TestStartStreams(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		stream jetstream.StreamConfig
		want   string
	}{
		{
			"somebody else's",
			jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"else.>"}},
			"stream JOBS exists and is not Sandjet's",
		},
		{
			"somebody else's of our subjects",
			jetstream.StreamConfig{Name: "TASKS", Subjects: []string{"task.>"}},
			"stream TASKS already takes subject ",
		},
		{
			"ours, of settings that no server changes",
			jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"event.>"}, Storage: jetstream.MemoryStorage, Metadata: map[string]string{natsx.Owned: "1"}},
			"stream EVENTS: storage is Memory, want File",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, err := w.js.CreateStream(t.Context(), test.stream)
			require.NoError(t, err)
			start(t, w.env()).fails(test.want)
		})
	}
}

// A cluster that answers nothing any more, as one without a majority does, keeps no
// start waiting for minutes.
func TestStartWithoutMajority(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start(t, w.env("NATS_URL", forgetful(t, w.nats.Addr().String(), true), "WORKER_START_TIMEOUT", "20s", "LOG_LEVEL", "error")).fails(
		"worker: NATS_URL: not up within 20s (WORKER_START_TIMEOUT): the setup of the streams is not answered: have they a leader")
}

// A cluster that has forgotten what it was asked is asked again.
func TestStartAsksAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker("NATS_URL", forgetful(t, w.nats.Addr().String(), false), "WORKER_START_TIMEOUT", "1m").says("streams not set up, trying again")
}

// An outage of E2B ends by itself: the worker starts and its jobs wait.
func TestStartWithoutE2B(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, url := range map[string]string{
		"down": "http://" + heldAddr(t), "hanging": speak(t, func(net.Conn) {}, "http"),
	} {
		p := w.worker("E2B_API_URL", url, "WORKER_NAME", name)
		require.Contains(t, p.stderr.String(), "e2b does not answer")
	}
	w.e2b.Faults().Add(local.Fault{Op: "list", Count: -1, Action: local.Status{Code: 503}})
	w.worker()
}

// bareNATS starts a server of its own options.
func bareNATS(t *testing.T, o *server.Options) (url string) {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", -1, true, true
	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(patience))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return "nats://" + s.Addr().String()
}

// speak listens and lets talk have each connection.
func speak(t *testing.T, talk func(net.Conn), scheme ...string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				talk(c)
				<-t.Context().Done()
			}()
		}
	}()
	return append(scheme, "nats")[0] + "://" + l.Addr().String()
}

// forgetful stands before a NATS server and loses the first request to create a
// stream: with its connection, or, silent, with all that is said from then on.
func forgetful(t *testing.T, server string, silent bool) (url string) {
	var forgot atomic.Bool
	return speak(t, func(c net.Conn) {
		s, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer func() { _, _ = c.Close(), s.Close() }()
		go func() { _, _ = io.Copy(c, s) }()
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			first := bytes.Contains(buf[:n], []byte("$JS.API.STREAM.CREATE")) && !forgot.Swap(true)
			switch {
			case silent && forgot.Load():
			case first:
				return
			default:
				if _, err := s.Write(buf[:n]); err != nil {
					return
				}
			}
		}
	})
}

// oldServer greets as an old NATS server, and answers pings.
func oldServer(c net.Conn) {
	fmt.Fprintf(c, "INFO {\"server_id\":\"OLD\",\"version\":\"2.11.9\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if lines.Text() == "PING" {
			fmt.Fprint(c, "PONG\r\n")
		}
	}
}

// answers says the same to every HTTP request.
func answers(what string) func(net.Conn) {
	return func(c net.Conn) {
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if lines.Text() == "" {
				fmt.Fprint(c, what)
			}
		}
	}
}
