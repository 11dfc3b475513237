package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/store"
)

// renewer sends the beats of many jobs to Redis together.
type renewer struct {
	view  *store.Store
	lease time.Duration
	log   *slog.Logger

	mu      sync.Mutex
	pending []store.Entry
	wake    chan struct{}
}

func newRenewer(view *store.Store, lease time.Duration, log *slog.Logger) *renewer {
	return &renewer{view: view, lease: lease, log: log, wake: make(chan struct{}, 1)}
}

func (r *renewer) add(e store.Entry) {
	r.mu.Lock()
	r.pending = append(r.pending, e)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// renewAll sends the beats of all jobs here, after a wipe: those that run are to be
// seen before another one begins.
func (w *Worker) renewAll() {
	for _, e := range w.holds.entries() {
		w.renew.add(e)
	}
}

func (r *renewer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		r.mu.Lock()
		batch := r.pending
		r.pending = nil
		r.mu.Unlock()
		if err := r.view.Renew(ctx, batch, r.lease); err != nil && ctx.Err() == nil {
			r.log.Warn("beats not written to redis", "jobs", len(batch), "err", err)
		}
	}
}
