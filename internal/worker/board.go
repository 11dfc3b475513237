package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/store"
)

// board keeps the view that api.job.list reads. No job waits for it; of several
// states of a job only the newest is written.
type board struct {
	view *store.Store
	log  *slog.Logger

	mu      sync.Mutex
	pending map[events.Job]store.JobView
	wake    chan struct{}
}

func newBoard(view *store.Store, log *slog.Logger) *board {
	return &board{view: view, log: log, pending: map[events.Job]store.JobView{}, wake: make(chan struct{}, 1)}
}

func (b *board) put(v store.JobView) {
	b.mu.Lock()
	b.pending[events.Job{Session: v.Session, ID: v.Job}] = v
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *board) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			// What is pending are the ends of the last jobs.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			b.flush(last)
			return
		case <-b.wake:
			b.flush(ctx)
		}
	}
}

// flush writes what is pending; the store sends it together.
func (b *board) flush(ctx context.Context) {
	b.mu.Lock()
	batch := b.pending
	b.pending = map[events.Job]store.JobView{}
	b.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(64)
	for _, v := range batch {
		g.Go(func() error { return b.view.PutJob(ctx, v) })
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		b.log.Warn("job view not written", "jobs", len(batch), "err", err)
	}
}

// show puts the job's state on the board.
func (h *hold) show(state events.Kind, change func(*store.JobView)) {
	d := h.d
	v := store.JobView{
		Session: d.Session, Job: d.ID, Origin: d.Origin, Kind: string(d.Kind), State: string(state),
		Owner: d.Owner, Labels: d.Labels, Worker: h.w.cfg.Name, Attempt: h.attempt,
		AcceptedAt: d.PublishedAt, UpdatedAt: time.Now().UTC(),
	}
	if h.claim != nil {
		v.Seq = h.claim.Token()
	}
	if change != nil {
		change(&v)
	}
	h.w.board.put(v)
}
