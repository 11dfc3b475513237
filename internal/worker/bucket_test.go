package worker

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/stack"
)

// testBucket is an empty bucket.
func testBucket(t *testing.T) bucket {
	t.Helper()
	srv, err := stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "B"})
	require.NoError(t, err)
	b, err := openBucket(t.Context(), js, "B")
	require.NoError(t, err)
	return b
}

// Two downloads into one object: the one that comes first finds the other's in the place
// of its own, and has nothing against it.
func TestReplacedObject(t *testing.T) {
	t.Parallel()
	b := testBucket(t)
	older, err := b.objects.PutString(t.Context(), "name", "older")
	require.NoError(t, err)
	require.NoError(t, b.verify(t.Context(), older))
	newer, err := b.objects.PutString(t.Context(), "name", "newer")
	require.NoError(t, err)
	require.NoError(t, b.verify(t.Context(), older))
	require.NoError(t, b.verify(t.Context(), newer))
	_, err = b.reread(t.Context(), older)
	require.ErrorIs(t, err, errReplaced)
}

// A worker reads so many objects at a time and no more: each has its bytes in memory.
func TestReadsAreBounded(t *testing.T) {
	t.Parallel()
	b := testBucket(t)
	_, err := b.objects.PutString(t.Context(), "name", "text")
	require.NoError(t, err)
	var open []*object
	for range maxReads {
		obj, err := b.get(t.Context(), "name")
		require.NoError(t, err)
		if open = append(open, obj); len(open) < maxReads {
			_, err = b.get(t.Context(), "nothing") // takes a place only while it looks
			require.ErrorIs(t, err, jetstream.ErrObjectNotFound)
		}
	}
	require.NoError(t, open[0].Close())
	_ = open[0].Close() // once is enough
	last, err := b.get(t.Context(), "name")
	require.NoError(t, err)
	full, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.get(full, "name")
	require.ErrorIs(t, err, context.Canceled)
	for _, obj := range append(open[1:], last) {
		require.NoError(t, obj.Close())
	}
	require.Empty(t, b.reads)
}
