package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/policy"
	"github.com/sandjet/sandjet/internal/spool"
	"github.com/sandjet/sandjet/internal/store"
)

// Causes of a job's context ending.
var (
	// errStopping: the worker shuts down and lets go of the job in good order.
	errStopping = errors.New("worker is stopping")
	// errCancelled: somebody asked that the job end.
	errCancelled = errors.New("job was cancelled")
)

// fault is an error whose class is known where it happens.
type fault struct {
	class   jobs.Class
	reason  string // for people
	pointer string // JSON pointer into the body
	after   time.Duration
	why     string // the word of a waiting event; empty is by the class
	err     error
}

func (f *fault) Error() string {
	if f.err != nil {
		return f.reason + ": " + f.err.Error()
	}
	return f.reason
}

func (f *fault) Unwrap() error { return f.err }

func faultf(class jobs.Class, format string, args ...any) *fault {
	return &fault{class: class, reason: fmt.Sprintf(format, args...)}
}

// waitFor is a fault that is over after a while.
func waitFor(class jobs.Class, after time.Duration, format string, args ...any) *fault {
	return &fault{class: class, after: after, reason: fmt.Sprintf(format, args...)}
}

// verdict is what a foreign error means for a job.
type verdict struct {
	class   jobs.Class
	reason  string
	pointer string
	after   time.Duration // how long the other side asks to wait
	why     string        // what it waits for, where the class does not tell
}

// foreign is the one table that turns errors of other packages into classes.
// The first match counts, so the narrow ones stand first.
var foreign = []struct {
	err   error
	class jobs.Class
}{
	{events.ErrLost, jobs.ClassInterrupted},
	{errStopping, jobs.ClassInterrupted},
	{errCancelled, jobs.ClassCancelled},
	{spool.ErrDamaged, jobs.ClassCommandFailed},

	{e2b.ErrQuota, jobs.ClassQuota},
	{e2b.ErrRateLimited, jobs.ClassRate},
	{e2b.ErrConflict, jobs.ClassTransitioning},
	{e2b.ErrUnauthorized, jobs.ClassAuth},
	{e2b.ErrForbidden, jobs.ClassForbidden},
	{e2b.ErrInvalid, jobs.ClassInvalid},
	{e2b.ErrNoSpace, jobs.ClassInternal},
	{e2b.ErrNotFound, jobs.ClassNotFound},
	{e2b.ErrSandboxGone, jobs.ClassSandboxLost},
	{e2b.ErrStalled, jobs.ClassTransport},
	{e2b.ErrCut, jobs.ClassTransport},
	{e2b.ErrBadAnswer, jobs.ClassTransport},
	{e2b.ErrUnavailable, jobs.ClassUnavailable},
	{e2b.ErrHeldBack, jobs.ClassUnavailable},

	{spool.ErrVanished, jobs.ClassSandboxLost},
	{spool.ErrNotBegun, jobs.ClassTransport},
	{spool.ErrMismatch, jobs.ClassInternal},

	{store.ErrUnavailable, jobs.ClassUnavailable},
	{jetstream.ErrObjectNotFound, jobs.ClassNotFound},
	{errBucketFull, jobs.ClassFull},
	{nats.ErrConnectionClosed, jobs.ClassInterrupted},
	{natsx.ErrNoAck, jobs.ClassUnavailable},
	{natsx.ErrUnavailable, jobs.ClassUnavailable},
	{nats.ErrTimeout, jobs.ClassUnavailable},
	{nats.ErrNoResponders, jobs.ClassUnavailable},
	{jetstream.ErrNoStreamResponse, jobs.ClassUnavailable}, // to a publish of the bucket's own
	{context.DeadlineExceeded, jobs.ClassUnavailable},
}

// classify says what err means for a job. Every error has a class; what
// nobody foresaw is a fault of ours.
func classify(err error) verdict {
	v := verdict{class: jobs.ClassInternal, reason: err.Error()}
	var api *e2b.Error
	if errors.As(err, &api) {
		v.after = api.RetryAfter
	}
	var f *fault
	if errors.As(err, &f) {
		v.class, v.pointer, v.why = f.class, f.pointer, f.why
		v.after = max(v.after, f.after)
		return v
	}
	var refused *policy.Refusal
	if errors.As(err, &refused) {
		v.class, v.pointer = jobs.ClassPolicy, refused.Pointer
		return v
	}
	var g *git.Error
	if errors.As(err, &g) && g.Kind != nil {
		v.class, v.after = jobs.Class(g.Class()), max(v.after, g.RetryAfter)
		if v.class == jobs.ClassUnavailable {
			v.why = events.WaitRemote
		}
		return v
	}
	for _, row := range foreign {
		if errors.Is(err, row.err) {
			v.class = row.class
			return v
		}
	}
	var js *jetstream.APIError
	if errors.As(err, &js) && js.Code == http.StatusServiceUnavailable {
		v.class = jobs.ClassUnavailable // a cluster without a leader
	}
	return v
}

// waitWhy is the word of a waiting event for a class.
func waitWhy(class jobs.Class) string {
	switch class {
	case jobs.ClassLane:
		return events.WaitLane
	case jobs.ClassDelay:
		return events.WaitDelay
	case jobs.ClassVersion:
		return events.WaitVersion
	case jobs.ClassQuota:
		return events.WaitQuota
	case jobs.ClassRate:
		return events.WaitRate
	case jobs.ClassUnavailable:
		return events.WaitBreaker
	}
	return events.WaitTransition
}
