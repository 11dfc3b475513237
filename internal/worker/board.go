package worker

import (
	"context"
	"log/slog"
	"maps"
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
	pending map[events.Job]store.JobView // to be written now
	passing map[events.Job]store.JobView // may be overtaken by the job's end
	timed   bool                         // passing has its time
	wake    chan struct{}
}

// linger is how long a state that is not the last waits for the next one: most
// states of short jobs are never written.
const linger = 100 * time.Millisecond

func newBoard(view *store.Store, log *slog.Logger) *board {
	return &board{
		view: view, log: log, wake: make(chan struct{}, 1),
		pending: map[events.Job]store.JobView{}, passing: map[events.Job]store.JobView{},
	}
}

func (b *board) put(v store.JobView) {
	key := events.Job{Session: v.Session, ID: v.Job}
	b.mu.Lock()
	defer b.mu.Unlock()
	if events.Kind(v.State).Terminal() {
		delete(b.passing, key)
		b.pending[key] = v
		b.ring()
		return
	}
	delete(b.pending, key)
	b.passing[key] = v
	if !b.timed {
		b.timed = true
		time.AfterFunc(linger, b.pass)
	}
}

// pass has the passing states written too.
func (b *board) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timed = false
	maps.Copy(b.pending, b.passing)
	clear(b.passing)
	b.ring()
}

func (b *board) ring() {
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
			b.pass()
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
		Owner: d.Owner, Proven: d.OwnerProven, Labels: d.Labels, Worker: h.w.cfg.Name, Attempt: h.attempt,
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
