package events_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// sender writes n bytes to a connection, a chunk at a time.
func sender(b *testing.B, n, chunk int) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	in, err := l.Accept()
	require.NoError(b, err)
	go func() {
		defer out.Close()
		piece := text(chunk - 1)
		piece = append(piece, '\n')
		for range n / chunk {
			if _, err := out.Write(piece); err != nil {
				return
			}
		}
	}()
	return in
}

// Reading a command's output, alone and into the stream.
func BenchmarkOutput(b *testing.B) {
	const size = 64 << 20
	for _, chunk := range []int{512, 4096, 32 << 10} {
		b.Run(fmt.Sprintf("alone/%d", chunk), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				in := sender(b, size, chunk)
				n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{in}, make([]byte, 32<<10))
				require.NoError(b, err)
				require.EqualValues(b, size, n)
			}
		})
		b.Run(fmt.Sprintf("stored/%d", chunk), func(b *testing.B) {
			s := single(b)
			w := s.join(b)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				in := sender(b, size, chunk)
				o := w.claim(b, job(b), 0).Output(events.Stdout, 0, events.OutputOptions{})
				n, err := io.CopyBuffer(struct{ io.Writer }{o}, struct{ io.Reader }{in}, make([]byte, 32<<10))
				require.NoError(b, err)
				require.EqualValues(b, size, n)
				require.NoError(b, o.Close(b.Context()))
			}
		})
	}
}

// The events of a short job: accepted, claimed, started, ended.
func BenchmarkJob(b *testing.B) {
	s := single(b)
	w := s.join(b)
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		ctx := b.Context()
		for pb.Next() {
			j := events.Job{Session: "s" + randomID(), ID: "j"}
			err := w.log.AcceptAsync(j, events.Accepted{Kind: "task.run", StreamSeq: 1}, func(err error) {
				if err != nil {
					b.Error(err)
				}
			})
			if err != nil {
				b.Error(err)
				return
			}
			c, err := w.log.Claim(ctx, j, events.Claimed{Worker: "w", Attempt: 1}, 0)
			if err != nil {
				b.Error(err)
				return
			}
			if err := c.Publish(ctx, events.KindStarted, events.Started{Attempt: 1}); err != nil {
				b.Error(err)
			}
			if err := c.End(ctx, events.Succeeded, events.Outcome{Class: "ok"}); err != nil {
				b.Error(err)
			}
		}
	})
}
