package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// hastener brings jobs back that wait in the schedules: a cancelled one, or one
// whose slot has come. None is left out, however many there are at once: nobody
// else would look at it until its time.
type hastener struct {
	queue *jobs.Queue
	log   *slog.Logger

	mu      sync.Mutex
	pending map[events.Job]bool
	wake    chan struct{}
}

// hastenAtOnce is how many are brought back at a time.
const hastenAtOnce = 16

func newHastener(queue *jobs.Queue, log *slog.Logger) *hastener {
	return &hastener{queue: queue, log: log, pending: map[events.Job]bool{}, wake: make(chan struct{}, 1)}
}

func (h *hastener) add(key events.Job) {
	h.mu.Lock()
	h.pending[key] = true
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hastener) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		h.mu.Lock()
		batch := h.pending
		h.pending = map[events.Job]bool{}
		h.mu.Unlock()
		var group errgroup.Group
		group.SetLimit(hastenAtOnce)
		for key := range batch {
			group.Go(func() error {
				// It may wait there for hours: asked without an answer, ask again.
				ask := func() error {
					_, err := h.queue.Hasten(ctx, key.Session, key.ID)
					return err
				}
				pace := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(30 * time.Second))
				if err := backoff.Retry(ask, backoff.WithContext(pace, ctx)); err != nil && ctx.Err() == nil {
					h.log.Warn("job not hastened", "session_id", key.Session, "job_id", key.ID, "err", err)
				}
				return nil
			})
		}
		_ = group.Wait()
	}
}
