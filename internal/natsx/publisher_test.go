package natsx_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
)

// somewhere names what these tests publish.
var somewhere = point.Of("test", "publish")

func TestPublish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	p := b.publisher(t)

	ack, err := p.Publish(t.Context(), somewhere, msg("s.a", "1"))
	require.NoError(t, err)
	require.Equal(t, natsx.Ack{Stream: "S", Seq: 1}, ack)

	ack, err = p.Publish(t.Context(), somewhere, msg("s.a", "1"))
	require.NoError(t, err)
	require.Equal(t, natsx.Ack{Stream: "S", Seq: 1, Duplicate: true}, ack)

	stale := msg("s.a", "2")
	stale.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "7")
	_, err = p.Publish(t.Context(), somewhere, stale)
	require.ErrorIs(t, err, natsx.ErrStale)
	require.NotErrorIs(t, err, natsx.ErrBusy)
	var api *natsx.APIError
	require.ErrorAs(t, err, &api)
	require.False(t, api.Resent)
}

func TestPublishAsyncAnswersEveryMessageOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	p := b.publisher(t, natsx.MaxInFlight(64))

	const n = 5000
	var mu sync.Mutex
	seqs := map[uint64]int{}
	for i := range n {
		require.NoError(t, p.PublishAsync(somewhere, msg("s.a", fmt.Sprint(i)), func(a natsx.Ack, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				seqs[a.Seq]++
			}
		}))
	}
	require.NoError(t, p.Flush(short(t, patience)))
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, seqs, n)
	for seq, times := range seqs {
		require.Equal(t, 1, times, "answers of %d", seq)
	}
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, info.State.Msgs)
}

// What was flushed has been answered, not only acked.
func TestFlushWaitsForTheAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	p := b.publisher(t)
	answering, gate := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.PublishAsync(somewhere, msg("s.a", "1"), func(natsx.Ack, error) { close(answering); <-gate }))
	opened := sync.OnceFunc(func() { close(gate) })
	defer opened()
	next(t, answering, "the answer")
	require.ErrorIs(t, p.Flush(short(t, 50*time.Millisecond)), context.DeadlineExceeded)
	opened()
	require.NoError(t, p.Flush(short(t, patience)))
}

// Nobody answers: the context or the limit ends the wait, and the error says that
// the outcome is unknown.
func TestPublishWithoutStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.publisher(t, natsx.AsyncLimit(300*time.Millisecond))
	_, err := p.Publish(short(t, 100*time.Millisecond), somewhere, msg("s.a", "1"))
	require.ErrorIs(t, err, natsx.ErrNoAck)

	done := make(chan error, 1)
	require.NoError(t, p.PublishAsync(somewhere, msg("s.a", "1"), func(_ natsx.Ack, err error) { done <- err }))
	require.ErrorIs(t, next(t, done, "the answer"), natsx.ErrNoAck)
	require.NoError(t, p.Flush(t.Context()))
}

// The stream comes while the publish waits.
func TestPublishWaitsForStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.publisher(t)
	done := make(chan error, 1)
	require.NoError(t, p.PublishAsync(somewhere, msg("s.a", ""), func(_ natsx.Ack, err error) { done <- err }))
	b.stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.NoError(t, next(t, done, "the answer"))
}

// The first answers are lost on the way; the message is sent again and stored once.
func TestPublishSurvivesLostAck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.publisher(t, natsx.AckWait(150*time.Millisecond))
	// Without a stream but with a listener there is neither an ack nor a "no
	// responders": the message is in the dark.
	sub, err := b.nc.Subscribe("s.a", func(*nats.Msg) {})
	require.NoError(t, err)
	done := make(chan natsx.Ack, 1)
	require.NoError(t, p.PublishAsync(somewhere, msg("s.a", "1"), func(a natsx.Ack, _ error) { done <- a }))
	b.stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.EqualValues(t, 1, next(t, done, "the answer").Seq)
	require.NoError(t, sub.Unsubscribe())
}

func TestCloseAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.publisher(t)
	done := make(chan error, 1)
	require.NoError(t, p.PublishAsync(somewhere, msg("nobody", "1"), func(_ natsx.Ack, err error) { done <- err }))
	require.NoError(t, p.Close())
	err := next(t, done, "the answer")
	require.ErrorIs(t, err, natsx.ErrClosed)
	require.ErrorIs(t, err, natsx.ErrNoAck)
	require.ErrorIs(t, p.PublishAsync(somewhere, msg("nobody", "1"), nil), natsx.ErrClosed)
	_, err = p.Publish(t.Context(), somewhere, msg("nobody", "1"))
	require.ErrorIs(t, err, natsx.ErrClosed)
}
