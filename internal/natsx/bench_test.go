package natsx_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/natsx"
)

// The rows compare ways to store the same messages; only their ratios mean
// anything.
func BenchmarkPublish(b *testing.B) {
	payload := make([]byte, 256)
	fresh := func(i int) *nats.Msg {
		m := nats.NewMsg("s.a")
		m.Header.Set(nats.MsgIdHdr, fmt.Sprint(i))
		m.Data = payload
		return m
	}
	run := func(name string, f func(b *testing.B, s *bundle)) {
		b.Run(name, func(b *testing.B) {
			s := setup(b)
			s.stream(b, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
			b.ReportAllocs()
			b.ResetTimer()
			f(b, s)
		})
	}
	run("js.Publish", func(b *testing.B, s *bundle) {
		for i := range b.N {
			_, err := s.js.PublishMsg(b.Context(), fresh(i))
			require.NoError(b, err)
		}
	})
	run("Publish", func(b *testing.B, s *bundle) {
		p := s.publisher(b)
		for i := range b.N {
			_, err := p.Publish(b.Context(), somewhere, fresh(i))
			require.NoError(b, err)
		}
	})
	run("js.PublishAsync", func(b *testing.B, s *bundle) {
		for i := range b.N {
			_, err := s.js.PublishMsgAsync(fresh(i), jetstream.WithStallWait(1e9))
			require.NoError(b, err)
		}
		<-s.js.PublishAsyncComplete()
	})
	run("PublishAsync", func(b *testing.B, s *bundle) {
		p := s.publisher(b)
		for i := range b.N {
			require.NoError(b, p.PublishAsync(somewhere, fresh(i), func(_ natsx.Ack, err error) {
				if err != nil {
					b.Error(err)
				}
			}))
		}
		require.NoError(b, p.Flush(b.Context()))
	})
	run("Publish/256", func(b *testing.B, s *bundle) {
		p := s.publisher(b)
		var n atomic.Int64
		b.SetParallelism(128)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := p.Publish(b.Context(), somewhere, fresh(int(n.Add(1)))); err != nil {
					b.Error(err)
				}
			}
		})
	})
	run("js.Publish/256", func(b *testing.B, s *bundle) {
		var n atomic.Int64
		b.SetParallelism(128)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.js.PublishMsg(b.Context(), fresh(int(n.Add(1)))); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
