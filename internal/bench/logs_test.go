package bench

import (
	"io"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/natsx"
)

// logs is a command's output on its way through the E2B client.
type logs struct {
	*world
	box   *e2b.Box
	facts *events.Log
}

func newLogs(w *world) *logs {
	client, err := e2b.New(e2b.Config{
		APIKey: func() (string, error) { return "e2b_bench", nil }, APIURL: w.e2b.addr, SandboxURL: w.e2b.addr,
	})
	require.NoError(w, err)
	w.Cleanup(client.Close)
	pub, err := natsx.NewPublisher(w.nc)
	require.NoError(w, err)
	w.Cleanup(func() { _ = pub.Close() })
	facts, err := events.Open(w.nc, pub, "", "/sandjet/bench")
	require.NoError(w, err)
	w.Cleanup(func() { _ = facts.Close() })
	return &logs{world: w, box: client.Open(e2b.Ref{ID: "ifake0000000000000000", EnvdVersion: "0.4.0"}), facts: facts}
}

// stream is how long so many bytes took, and the CPU of this process.
type stream struct {
	bytes     int
	wall, cpu time.Duration
}

func (s stream) rate() float64   { return float64(s.bytes) / 1e6 / s.wall.Seconds() }
func (s stream) cpuPer() float64 { return s.cpu.Seconds() * 1e3 / (float64(s.bytes) / 1e6) }

// alone reads the output and drops it.
func (l *logs) alone(chunk, size int) stream {
	return l.read(chunk, size, func(read func(io.Writer)) { read(io.Discard) })
}

// stored reads the output into the event stream, until all of it is acked.
func (l *logs) stored(chunk, size int) stream {
	l.jobs++
	j := events.Job{Session: "logs", ID: jobName(l.jobs)}
	claim, err := l.facts.Claim(l.Context(), j, events.Claimed{Worker: "bench", Attempt: 1}, 0)
	require.NoError(l, err)
	defer claim.Release()
	return l.read(chunk, size, func(read func(io.Writer)) {
		o := claim.Output(events.Stdout, 0, events.OutputOptions{})
		read(o)
		require.NoError(l, o.Close(l.Context()))
		require.EqualValues(l, size, o.Offset())
	})
}

func (l *logs) read(chunk, size int, into func(read func(io.Writer))) stream {
	own, start := cpu(), time.Now()
	into(func(w io.Writer) {
		cmd := l.box.Command(chatty, strconv.Itoa(chunk), strconv.Itoa(size/chunk))
		cmd.Stdout = w
		require.NoError(l, cmd.Run(l.Context()))
	})
	return stream{bytes: size, wall: time.Since(start), cpu: cpu() - own}
}
