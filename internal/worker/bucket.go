package worker

import (
	"context"
	"fmt"
	"io"

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

// put stores what r brings as an object, whole or not at all. It may be repeated.
func (b bucket) put(ctx context.Context, meta jetstream.ObjectMeta, r io.Reader) (*jetstream.ObjectInfo, error) {
	at := point.Of("bucket", "put")
	if err := point.Before(ctx, at); err != nil {
		return nil, noAnswer(err)
	}
	info, err := b.objects.Put(ctx, meta, r)
	if err != nil {
		return nil, err
	}
	if err := point.After(ctx, at); err != nil {
		return nil, noAnswer(err)
	}
	return info, nil
}

// noAnswer is what the bucket's own calls return when the server is silent.
func noAnswer(err error) error { return fmt.Errorf("%w: %w", nats.ErrTimeout, err) }
