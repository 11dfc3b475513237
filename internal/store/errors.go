package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrUnavailable says that Redis did not answer: it is down, frozen,
	// loading, without a master or out of memory. Whether the call took effect is
	// unknown; it may be repeated.
	ErrUnavailable = errors.New("redis unavailable")

	// ErrNotFound says that the view does not hold what was asked for. The
	// streams may.
	ErrNotFound = errors.New("not in the view")

	// ErrOutrun says that a later claim of the job has entered: the caller has lost it.
	ErrOutrun = errors.New("a later claim of the job is in the lane")

	// ErrStranger says that the session is for jobs whose owner is proven, and that the
	// caller's is not, or is another. The session is as it was.
	ErrStranger = errors.New("the session is somebody else's")

	// ErrClosed says that the Store was closed.
	ErrClosed = errors.New("store closed")

	// ErrCursor says that a page cursor is not one of ours, or no longer valid.
	ErrCursor = errors.New("cursor not valid")
)

// wrap names the act and marks errors that come from the connection or from a
// server that cannot serve now. Errors of the caller's context stay as they are.
func wrap(act string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
		return fmt.Errorf("%s: %w", act, err)
	case unavailable(err):
		return fmt.Errorf("%s: %w: %w", act, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", act, err)
}

// unavailable reports whether err is about reaching Redis and not about what
// was asked.
func unavailable(err error) bool {
	var ne net.Error
	switch {
	case errors.As(err, &ne),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, redis.ErrPoolTimeout):
		return !errors.Is(err, context.Canceled)
	}
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) ||
		redis.IsTryAgainError(err) || redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) ||
		redis.IsNoReplicasError(err) || redis.IsOOMError(err)
}

// broken reports whether err means that the connection was cut, as after a
// restart of Redis: worth one more try at once. A timeout is not: a frozen Redis
// would be waited for twice.
func broken(err error) bool {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return false
	}
	var oe *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &oe)
}
