package worker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/store"
)

// testTide is a tide on a Redis of its own, without anybody to repair it.
func testTide(t *testing.T) (*tide, *redis.Client) {
	t.Helper()
	srv, err := stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	r, err := stack.StartRedis(stack.RedisOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Stop() })
	view, err := store.Open(t.Context(), r.URL(), "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = view.Close() })
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	t.Cleanup(func() { _ = client.Close() })
	parted, part := context.WithCancel(context.Background())
	td, err := newTide(&tide{
		view: view, nc: nc, log: slog.New(slog.DiscardHandler), name: "w", patience: time.Hour, lost: func() {}, parted: parted,
	})
	require.NoError(t, err)
	t.Cleanup(func() { part(); td.close() })
	return td, client
}

func arrivalOf(n uint64, job string) *arrival {
	a := &arrival{durable: jobs.DurableNormal, mark: store.Mark{Consumer: n, Stream: 10 + n}, done: make(chan struct{})}
	if job != "" {
		a.place = &store.Place{Session: "s1", Job: job, Origin: 10 + n}
	}
	return a
}

// No delivery is marked whose job has no place: whoever comes after it would begin.
func TestNoMarkWithoutAPlace(t *testing.T) {
	t.Parallel()
	td, c := testTide(t)
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "sandjet:{s1}:lane", "in the way", 0).Err())
	first := arrivalOf(1, "j1")
	td.land(ctx, []*arrival{first})
	require.Error(t, td.await(ctx, first, nil))
	tide, err := td.view.Mark(ctx, jobs.DurableNormal)
	require.NoError(t, err)
	require.Equal(t, store.Tide{}, tide)

	require.NoError(t, c.Del(ctx, "sandjet:{s1}:lane").Err())
	second, beside := arrivalOf(2, "j2"), arrivalOf(3, "")
	td.land(ctx, []*arrival{second, beside})
	require.NoError(t, second.err)
	require.True(t, second.made)
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, td.await(soon, second, nil), context.DeadlineExceeded, "the first has no place")
}

// Whoever closes a gap wakes those who wait behind it, in other workers too; a wish
// to end comes through.
func TestTideWakesWhoWaits(t *testing.T) {
	t.Parallel()
	td, _ := testTide(t)
	ctx := t.Context()
	late := arrivalOf(2, "j2")
	td.land(ctx, []*arrival{late})
	wish := make(chan struct{})
	close(wish)
	require.ErrorIs(t, td.await(ctx, late, wish), errCancelled)

	// Another worker's tide on the same Redis and NATS.
	parted, part := context.WithCancel(context.Background())
	defer part()
	other, err := newTide(&tide{
		view: td.view, nc: td.nc, log: td.log, name: "w2", patience: time.Hour, lost: func() {}, parted: parted,
	})
	require.NoError(t, err)
	defer other.close()
	woken := make(chan error, 1)
	go func() { woken <- td.await(ctx, late, nil) }()
	other.land(ctx, []*arrival{arrivalOf(1, "j1")})
	select {
	case err := <-woken:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("nobody calls")
	}
	require.Empty(t, td.shores[jobs.DurableNormal].waiting)
}
