package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// BenchmarkFetchAndAck is the straight way of a job through a consumer with a
// handler that does nothing but ack. Compare it with BenchmarkConsumeAndAck of
// the same run.
func BenchmarkFetchAndAck(b *testing.B) {
	for _, slots := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			s := setup(b, Config{})
			fill(b, s)
			c, err := NewConsumer(s.q, ConsumerConfig{Slots: slots})
			require.NoError(b, err)
			var done atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			require.NoError(b, c.Run(context.Background(), func(_ context.Context, d *Delivery) {
				_ = d.Ack()
				if done.Add(1) == int64(b.N) {
					c.Stop()
				}
			}))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkConsumeAndAck is JetStream alone, with its client's own consumer.
func BenchmarkConsumeAndAck(b *testing.B) {
	s := setup(b, Config{})
	fill(b, s)
	c, err := s.js.Consumer(b.Context(), StreamJobs, DurableNormal)
	require.NoError(b, err)
	done := make(chan struct{})
	n := 0
	b.ReportAllocs()
	b.ResetTimer()
	cc, err := c.Consume(func(m jetstream.Msg) {
		_ = m.Ack()
		if n++; n == b.N {
			close(done)
		}
	})
	require.NoError(b, err)
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	b.StopTimer()
	cc.Stop()
}

func fill(b *testing.B, s *bench) {
	b.Helper()
	for range b.N {
		_, err := s.js.PublishAsync("task.run", []byte(echo), jetstream.WithStallWait(10*time.Second))
		require.NoError(b, err)
	}
	<-s.js.PublishAsyncComplete()
}

func BenchmarkDecode(b *testing.B) {
	m := raw("task.run.agent-7", `{"id":"job-1","session":"s1","argv":["echo","hi"],"env":{"A":"b"},"timeout":"90s"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(m, ""); err != nil {
			b.Fatal(err)
		}
	}
}
