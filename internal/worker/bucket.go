package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/point"
)

// bucket is the object bucket, its changes and reads between points.
type bucket struct{ objects jetstream.ObjectStore }

// get opens an object for reading.
func (b bucket) get(ctx context.Context, name string) (jetstream.ObjectResult, error) {
	at := point.Of("bucket", "get")
	if err := point.Before(ctx, at); err != nil {
		return nil, noAnswer(err)
	}
	obj, err := b.objects.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := point.After(ctx, at); err != nil {
		_ = obj.Close()
		return nil, noAnswer(err)
	}
	return obj, nil
}

// put stores what r brings, size bytes, as an object, whole or not at all. It may be
// repeated. errBucketFull says that there is no room for it.
func (b bucket) put(ctx context.Context, meta jetstream.ObjectMeta, size int64, r io.Reader) (*jetstream.ObjectInfo, error) {
	if err := b.roomFor(ctx, size); err != nil {
		return nil, err
	}
	at := point.Of("bucket", "put")
	if err := point.Before(ctx, at); err != nil {
		return nil, noAnswer(err)
	}
	info, err := b.objects.Put(ctx, meta, r)
	if err != nil {
		return nil, noRoom(err)
	}
	if err := point.After(ctx, at); err != nil {
		return nil, noAnswer(err)
	}
	return info, nil
}

// roomFor refuses what does not fit before any of it is sent. The client sends all
// chunks and the entry before it hears of the first refusal, and the entry is small:
// it would find room, and take the place of the object that is there.
func (b bucket) roomFor(ctx context.Context, size int64) error {
	status, err := b.objects.Status(ctx)
	if err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	s, ok := status.(*jetstream.ObjectBucketStatus)
	if !ok {
		return nil
	}
	limit, have := s.StreamInfo().Config.MaxBytes, int64(s.Size())
	// Each chunk of 128 KiB has a record's overhead, and there is the entry.
	if need := size + size/512 + 8<<10; limit > 0 && have+need > limit {
		return fmt.Errorf("%w: %d bytes do not fit beside the %d of at most %d", errBucketFull, size, have, limit)
	}
	return nil
}

// errBucketFull: the object bucket has reached its byte cap. It drops nothing, so
// the next try fails the same way until somebody makes room.
var errBucketFull = errors.New("the object bucket is full (WORKER_ARTIFACTS_CAP)")

// storeFailed is the server's code for a message that it could not store, for
// whatever reason.
const storeFailed = 10077

// noRoom makes the server's refusal of what is beyond the cap errBucketFull. The
// code is that of every failure to store, also those that heal, such as a server
// that stops: only the text tells them apart.
func noRoom(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == storeFailed && strings.Contains(api.Description, "maximum bytes") {
		return fmt.Errorf("%w: %w", errBucketFull, err)
	}
	return err
}

// noAnswer is what the bucket's own calls return when the server is silent.
func noAnswer(err error) error { return fmt.Errorf("%w: %w", nats.ErrTimeout, err) }
