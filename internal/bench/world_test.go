package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/stack"
)

// slots is how many jobs a program works on at a time.
const slots = 256

// jobSize is how long a job's body is.
const jobSize = 256

// world is the servers, and a connection to fill queues through.
type world struct {
	*testing.B
	nats, e2b *child
	redis     *stack.Redis
	nc        *nats.Conn
	js        jetstream.JetStream
	pub       *natsx.Publisher
	jobs      int // published so far
}

func newWorld(b *testing.B) *world {
	w := &world{B: b, nats: startChild(b, "nats"), e2b: startChild(b, "e2b")}
	var err error
	w.redis, err = stack.StartRedis(stack.RedisOptions{})
	require.NoError(b, err)
	if os.Getenv("REQUIRE_REAL") == "1" {
		require.Equal(b, stack.RedisServer, w.redis.Kind)
	}
	b.Cleanup(func() { _ = w.redis.Stop() })
	w.nc, err = nats.Connect(w.nats.addr)
	require.NoError(b, err)
	b.Cleanup(w.nc.Close)
	w.js, err = jetstream.New(w.nc)
	require.NoError(b, err)
	w.pub, err = natsx.NewPublisher(w.nc)
	require.NoError(b, err)
	b.Cleanup(func() { _ = w.pub.Close() })
	return w
}

// quiet is the log of a worker in production, written to nowhere.
func quiet() *slog.Logger { return slog.New(slog.NewJSONHandler(nowhere{}, nil)) }

// nowhere takes lines, so that making them is paid for: the log package's own discarding handler makes none.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// sessionCount is large enough that jobs in a row are never of one session: a
// lane is not what is measured.
const sessionCount = 4 * slots

func jobName(i int) string     { return fmt.Sprintf("job-%08d", i) }
func sessionName(i int) string { return fmt.Sprintf("s%04d", i%sessionCount) }

// body makes a job of jobSize bytes for the next session. rest is its own fields,
// with a place for what fills it up.
func (w *world) body(rest string) (id string, body []byte) {
	w.jobs++
	id = jobName(w.jobs)
	s := fmt.Sprintf(`{"id":"%s","session":"%s",%s}`, id, sessionName(w.jobs), rest)
	return id, []byte(strings.Replace(s, "%", strings.Repeat("x", jobSize+1-len(s)), 1))
}

// The bodies of the two kinds of job: a session that is to be awake and is, and
// a command that says a word.
const (
	resumeRest = `"reason":"%"`
	taskRest   = `"argv":["echo","%"]`
)

// fill publishes n messages and waits until they are stored.
func (w *world) fill(subject string, n int, rest string) {
	failed := make(chan error, n)
	for range n {
		_, body := w.body(rest)
		m := &nats.Msg{Subject: subject, Data: body}
		require.NoError(w, w.pub.PublishAsync(point.Of("test", "publish"), m, func(_ natsx.Ack, err error) {
			if err != nil {
				failed <- err
			}
		}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(w, w.pub.Flush(ctx))
	select {
	case err := <-failed:
		require.NoError(w, err)
	default:
	}
}

// cost is what n jobs took.
type cost struct {
	n      int
	wall   time.Duration
	cpu    time.Duration // of this process
	server time.Duration // of NATS
	allocs uint64
}

// measure lets a program work off the n messages of a stream. run starts it and
// returns what ends it.
func (w *world) measure(stream string, n int, run func() (stop func())) cost {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	server, own, start := w.nats.cpu(), cpu(), time.Now()
	stop := run()
	require.Equal(w, "ok", w.nats.ask("drained "+stream))
	c := cost{n: n, wall: time.Since(start), cpu: cpu() - own}
	runtime.ReadMemStats(&after)
	c.server = w.nats.cpu() - server
	c.allocs = after.Mallocs - before.Mallocs
	stop()
	return c
}

func (c cost) rate() float64       { return float64(c.n) / c.wall.Seconds() }
func (c cost) cpuEach() float64    { return c.each(c.cpu) }
func (c cost) serverEach() float64 { return c.each(c.server) }
func (c cost) allocsEach() float64 { return float64(c.allocs) / float64(c.n) }

// each is a time's share of one job, in microseconds.
func (c cost) each(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(c.n) }
