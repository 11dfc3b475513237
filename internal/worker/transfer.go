package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// transferLimit is longer than any transfer takes.
const transferLimit = 24 * time.Hour

// transfer moves a file, and once more from the beginning if it breaks off: it
// may be repeated, so a broken connection or a pause in between spends no
// attempt. A cancel ends it at once.
func (h *hold) transfer(ctx context.Context, once func(context.Context, known, *box) (events.Outcome, error)) (events.Outcome, error) {
	ctx, cancel := h.untilCancelled(ctx)
	defer cancel()
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval, pace.MaxElapsedTime = 200*time.Millisecond, 10*time.Second, 0
	generation := 0
	for begun := time.Now(); ; {
		k, b, err := h.w.sessions.ready(ctx, &h.ask)
		if err != nil {
			return events.Outcome{}, contextCause(ctx, err)
		}
		if generation != 0 && generation != k.Generation {
			return events.Outcome{}, faultf(jobs.ClassSandboxLost, "the sandbox of generation %d is gone", generation)
		}
		h.attach(k, b)
		if generation == 0 && !h.startedBefore() {
			if err := h.started(events.Started{SandboxID: k.SandboxID, Generation: k.Generation}); err != nil {
				return events.Outcome{}, err
			}
		}
		generation = k.Generation
		began := time.Now()
		out, err := once(ctx, k, b)
		h.w.books.enter(h.by(audit.E2B, string(h.d.Kind), k.SandboxID+":"+h.d.Payload.(*jobs.File).Path), nil, began, err)
		if err == nil || ctx.Err() != nil || !mendable(err) || time.Since(begun) > rejoinFor {
			return out, err
		}
		h.log.Warn("transfer broke off", "sandbox_id", k.SandboxID, "err", err)
		if errors.Is(err, e2b.ErrSandboxGone) {
			h.w.sessions.boxes.drop(k.Session) // the control plane knows what became of it
		}
		if err := sleep(ctx, pace.NextBackOff()); err != nil {
			return out, err
		}
	}
}

// resumed is a file of a sandbox that is read on where a broken connection left
// off.
type resumed struct {
	ctx   context.Context // of the transfer; Read has no other way to it
	box   *e2b.Box
	path  string
	rc    io.ReadCloser
	at    int64 // read so far
	since int64 // what at was when the connection was made
	total int64
}

func openResumed(ctx context.Context, b *e2b.Box, path string) (*resumed, error) {
	rc, total, err := b.Open(ctx, path, 0)
	if err != nil {
		return nil, err
	}
	return &resumed{ctx: ctx, box: b, path: path, rc: rc, total: total}, nil
}

// Read reads on. A connection that brought nothing is not replaced.
func (r *resumed) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.rc.Read(p)
	r.at += int64(n)
	if err == nil || errors.Is(err, io.EOF) || r.at == r.since || r.ctx.Err() != nil {
		return n, err
	}
	_ = r.rc.Close()
	rc, total, again := r.box.Open(r.ctx, r.path, r.at)
	if again != nil {
		r.rc = io.NopCloser(&failing{err})
		return n, err
	}
	if r.rc, r.since = rc, r.at; total != r.total {
		return n, fmt.Errorf("%s has changed while it was read: %w", r.path, err)
	}
	return n, nil
}

func (r *resumed) Close() error { return r.rc.Close() }

// failing is a reader that has come to a bad end.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
