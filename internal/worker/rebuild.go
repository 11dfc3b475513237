package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

// renewView looks whether Redis has been wiped since the view was of the
// generation seen, "" at first, and fills it again if so. Every worker that sees
// a wipe does: filling twice is filling once, and one of them may die.
func (w *Worker) renewView(ctx context.Context, seen string) (generation string) {
	id, created, err := w.view.Generation(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("generation of the view not read", "err", err)
		}
		return seen
	}
	if !created && (seen == "" || seen == id) {
		return id
	}
	begun := time.Now()
	n, err := w.rebuild(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("view not rebuilt, trying again", "sessions", n, "err", err)
		}
		return "again" // no generation is called so
	}
	w.log.Info("view rebuilt", "sessions", n, "ms", time.Since(begun).Milliseconds())
	return id
}

// rebuild writes the last state of every session from the stream into the view,
// with its clocks and its slot. What runs and waits comes back by the jobs' own
// beats. An idle time begins anew: nobody knows how much of it was over.
func (w *Worker) rebuild(ctx context.Context) (n int, err error) {
	if point.Off(point.Rebuild) {
		return 0, nil
	}
	for f, err := range w.facts.Sessions(ctx) {
		if err != nil {
			return n, fmt.Errorf("read the sessions: %w", err)
		}
		r := f.Value
		if r.State == session.Destroyed {
			continue
		}
		if err := w.view.PutSession(ctx, r, f.Seq); err != nil {
			return n, err
		}
		if err := w.view.SetDeadline(ctx, store.Stale, r.Session, time.Until(r.StaleAt)); err != nil {
			return n, err
		}
		if r.State == session.Active {
			if err := w.view.SetDeadline(ctx, store.Idle, r.Session, w.sessions.idle(r)); err != nil {
				return n, err
			}
			if err := w.view.SetDeadline(ctx, store.Watch, r.Session, w.cfg.WatchEvery); err != nil {
				return n, err
			}
		}
		if r.State.Running() && w.cfg.SandboxLimit > 0 {
			if _, _, err := w.view.AcquireSlot(ctx, r.Session, w.cfg.SandboxLimit, slotLease); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, nil
}
