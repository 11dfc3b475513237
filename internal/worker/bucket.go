package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
)

// bucket is the object bucket, its changes and reads between points.
type bucket struct {
	objects jetstream.ObjectStore
	stream  jetstream.Stream // that holds them
	name    string
	reads   chan struct{} // a token for each object that is read
}

// maxReads is how many objects a worker reads at a time: of each the client may hold
// 500 chunks of 128 KiB that the server has sent ahead.
const maxReads = 8

// openBucket finds the bucket of that name.
func openBucket(ctx context.Context, js jetstream.JetStream, name string) (b bucket, err error) {
	b.name, b.reads = name, make(chan struct{}, maxReads)
	if b.objects, err = js.ObjectStore(ctx, name); err != nil {
		return b, err
	}
	b.stream, err = js.Stream(ctx, "OBJ_"+name)
	return b, err
}

// bucketPatience is how long a bucket may give nothing of an object.
const bucketPatience = 15 * time.Second

// errBucketSilent is an object of which nothing came for a while: the consumer that
// brings it is gone with a server, say.
var errBucketSilent = fmt.Errorf("%w: nothing came from the object bucket for %s", natsx.ErrUnavailable, bucketPatience)

// patient is a context whose deadline is always as far away: the bucket asks for it
// at each read. Without a deadline it would give the whole object five seconds.
type patient struct{ context.Context }

func (patient) Deadline() (time.Time, bool) { return time.Now().Add(bucketPatience), true }

// object is an object that is read. What gives nothing for long ends with
// errBucketSilent.
type object struct {
	jetstream.ObjectResult
	done func()
}

// Read reads on.
func (o *object) Read(p []byte) (n int, err error) {
	n, err = o.ObjectResult.Read(p)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		err = errBucketSilent
	}
	return n, err
}

// Close ends the reading.
func (o *object) Close() error {
	defer o.done()
	return o.ObjectResult.Close()
}

// get opens an object for reading, when no more than maxReads are.
func (b bucket) get(ctx context.Context, name string) (*object, error) {
	select {
	case b.reads <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	obj, err := b.open(ctx, name)
	if err != nil {
		<-b.reads
	}
	return obj, err
}

func (b bucket) open(ctx context.Context, name string) (*object, error) {
	at := point.Of("bucket", "get")
	if err := point.Before(ctx, at); err != nil {
		return nil, noAnswer(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(bucketPatience, func() { cancel(errBucketSilent) })
	res, err := b.objects.Get(patient{ctx}, name)
	if !limit.Stop() && err == nil {
		_ = res.Close()
		err = errBucketSilent
	}
	if err != nil {
		err = contextCause(ctx, err)
		cancel(nil)
		return nil, err
	}
	if err := point.After(ctx, at); err != nil {
		_ = res.Close()
		cancel(nil)
		return nil, noAnswer(err)
	}
	return &object{res, sync.OnceFunc(func() { cancel(nil); <-b.reads })}, nil
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
	return info, b.verify(ctx, info)
}

// errTorn is an object whose pieces are not stored as they were sent.
var errTorn = fmt.Errorf("%w: the object bucket has not stored the object as it was sent", natsx.ErrUnavailable)

// errReplaced is an object in whose place another one has come since.
var errReplaced = errors.New("the object was replaced")

// verify reads an object again. The client sends many chunks at a time, and one that
// finds no leader once more: behind those that came after it.
func (b bucket) verify(ctx context.Context, put *jetstream.ObjectInfo) error {
	obj, err := b.reread(ctx, put)
	if errors.Is(err, errReplaced) {
		return nil // whoever did it looks at his own
	}
	if err != nil {
		return fmt.Errorf("read it again: %w", err)
	}
	defer obj.Close()
	_, err = io.Copy(io.Discard, obj)
	if errors.Is(err, jetstream.ErrDigestMismatch) {
		return errTorn
	}
	if err != nil {
		return fmt.Errorf("read it again: %w", err)
	}
	return nil
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

// sweep removes the chunks of objects that were never finished, or whose place
// others have taken: who stores an object and is killed over it leaves them there.
// Chunks count as left when the newest of them is older than grace.
func (b bucket) sweep(ctx context.Context, grace time.Duration) (n int, err error) {
	prefix := "$O." + b.name + ".C."
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return 0, fmt.Errorf("list chunks: %w", err)
	}
	// The chunks first: what has its entry by then is no longer looked for.
	whole, err := b.objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return 0, fmt.Errorf("list objects: %w", err)
	}
	for _, o := range whole {
		delete(info.State.Subjects, prefix+o.NUID)
	}
	for subject := range info.State.Subjects {
		m, err := b.stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("look at chunks: %w", err)
		}
		if time.Since(m.Time) < grace {
			continue
		}
		if err := b.purge(ctx, subject); err != nil {
			return n, fmt.Errorf("remove chunks: %w", err)
		}
		n++
	}
	return n, nil
}

func (b bucket) purge(ctx context.Context, subject string) error {
	at := point.Of("bucket", "purge")
	if err := point.Before(ctx, at); err != nil {
		return noAnswer(err)
	}
	if err := b.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		return err
	}
	if err := point.After(ctx, at); err != nil {
		return noAnswer(err)
	}
	return nil
}

// reread opens the object that was just put. Any replica may answer, and one that is
// behind has the object before it, or none; errReplaced says that there is a later one.
func (b bucket) reread(ctx context.Context, put *jetstream.ObjectInfo) (*object, error) {
	for deadline := time.Now().Add(bucketPatience); ; {
		obj, err := b.get(ctx, put.Name)
		if err == nil {
			var now *jetstream.ObjectInfo
			if now, err = obj.Info(); err == nil && now.NUID == put.NUID {
				return obj, nil
			}
			_ = obj.Close()
			if err == nil && now.ModTime.After(put.ModTime) {
				return nil, errReplaced
			}
		}
		switch {
		case err != nil && !errors.Is(err, jetstream.ErrObjectNotFound):
			return nil, err
		case time.Now().After(deadline):
			return nil, errTorn
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
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
