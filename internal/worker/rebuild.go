package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

const (
	rebuildLease = "rebuild" // who fills the view
	listLease    = "list"    // who lists the jobs
	// rebuildFor is how long a worker that fills the view may give no sign of life.
	rebuildFor = 5 * time.Second
	// rebuildBatch is how many sessions are written before the lease is renewed.
	rebuildBatch = 2000
)

// renewView looks whether the view has to be filled, since Redis has been wiped or
// has never been used, and does so if no other worker is at it. filled is the
// generation that this worker knows to be filled, "" at first and while it is not.
func (w *Worker) renewView(ctx context.Context) (filled string) {
	g, err := w.view.Generation(ctx)
	if err == nil && !g.Filled {
		g.Filled, err = w.fillView(ctx, g.ID)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("view not rebuilt, trying again", "err", err)
	}
	if g.Filled && !g.Listed {
		select {
		case w.unlisted <- struct{}{}:
		default:
		}
	}
	if !g.Filled {
		return ""
	}
	return g.ID
}

// fillView fills the view of a generation. It reports false if another worker does,
// or if the view was wiped again meanwhile. Should that worker die over it, its
// lease ends and the next one begins from the start: what is written already costs
// nothing but the looking.
func (w *Worker) fillView(ctx context.Context, generation string) (bool, error) {
	if _, mine, err := w.view.Lease(ctx, rebuildLease, w.cfg.Name, rebuildFor); err != nil || !mine {
		return false, err
	}
	defer func() {
		if err := w.view.ReleaseLease(context.WithoutCancel(ctx), rebuildLease, w.cfg.Name); err != nil {
			w.log.Warn("lease of the rebuild not released", "err", err)
		}
	}()
	begun := time.Now()
	n, err := w.rebuild(ctx)
	if err != nil {
		return false, err
	}
	filled, err := w.view.MarkFilled(ctx, generation)
	if filled {
		w.log.Info("view rebuilt", "sessions", n, "ms", time.Since(begun).Milliseconds())
	}
	return filled, err
}

// rebuild writes the last state of every session from the stream into the view,
// with its clocks and its slot. What runs and waits comes back by the jobs' own
// beats. An idle time begins anew: nobody knows how much of it was over.
func (w *Worker) rebuild(ctx context.Context) (n int, err error) {
	if point.Off(point.Rebuild) {
		return 0, nil
	}
	g, ctx := errgroup.WithContext(ctx)
	batches := make(chan []store.Stated, 1)
	g.Go(func() error {
		defer close(batches)
		return w.readSessions(ctx, batches)
	})
	g.Go(func() error {
		for batch := range batches {
			if err := w.view.FillSessions(ctx, batch, w.sessions.clocksOf); err != nil {
				return err
			}
			n += len(batch)
			if _, _, err := w.view.Lease(ctx, rebuildLease, w.cfg.Name, rebuildFor); err != nil {
				return err
			}
		}
		return nil
	})
	err = g.Wait()
	return n, err
}

// listJobs fills the list of jobs of a view that was filled, which nothing waits for.
func (w *Worker) listJobs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.unlisted:
		}
		for {
			listed, err := w.listAgain(ctx)
			if err != nil && ctx.Err() == nil {
				w.log.Warn("jobs not listed, trying again", "err", err)
			}
			if listed || sleep(ctx, time.Second) != nil {
				break
			}
		}
	}
}

// listAgain lists the jobs if they are not and no other worker is at it, and reports
// whether they are.
func (w *Worker) listAgain(ctx context.Context) (bool, error) {
	g, err := w.view.Generation(ctx)
	if err != nil || !g.Filled || g.Listed {
		return g.Listed, err
	}
	lease := func() (bool, error) {
		_, mine, err := w.view.Lease(ctx, listLease, w.cfg.Name, rebuildFor)
		return mine, err
	}
	if mine, err := lease(); err != nil || !mine {
		return false, err
	}
	defer func() {
		if err := w.view.ReleaseLease(context.WithoutCancel(ctx), listLease, w.cfg.Name); err != nil {
			w.log.Warn("lease of the list not released", "err", err)
		}
	}()
	begun, n := time.Now(), 0
	puts, putCtx := errgroup.WithContext(ctx)
	puts.SetLimit(64)
	for h, err := range w.facts.Jobs(putCtx, begun.Add(-w.cfg.ViewForget), w.cfg.ViewJobs) {
		if err != nil {
			return false, errors.Join(err, puts.Wait())
		}
		puts.Go(func() error { return w.view.PutJob(putCtx, w.viewOf(h)) })
		if n++; n%rebuildBatch == 0 {
			if mine, err := lease(); err != nil || !mine {
				return false, errors.Join(err, puts.Wait())
			}
		}
	}
	if err := puts.Wait(); err != nil {
		return false, err
	}
	listed, err := w.view.MarkListed(ctx, g.ID)
	if listed {
		w.log.Info("jobs listed", "jobs", n, "ms", time.Since(begun).Milliseconds())
	}
	return listed, err
}

// viewOf is what the list shows of a job by its history. Whoever holds the job knows
// better: its word stands, whichever comes first.
func (w *Worker) viewOf(h events.History) store.JobView {
	j := ops.JobOf(h)
	return store.JobView{
		Session: j.Session, Job: j.Job, Seq: max(h.Claimed.Seq, 1) - 1, Origin: h.Accepted.Value.StreamSeq,
		Kind: j.Kind, State: j.State, Owner: j.Owner, Proven: ops.Proven(w.cfg.Namespace, h) != "",
		Labels: j.Labels, Worker: j.Worker, Attempt: j.Attempt, Waiting: j.Waiting,
		AcceptedAt: h.Accepted.Value.PublishedAt, UpdatedAt: j.UpdatedAt, Class: j.Class, Outcome: j.Outcome,
	}
}

// readSessions sends the last state of every session that has not ended, in
// batches.
func (w *Worker) readSessions(ctx context.Context, to chan<- []store.Stated) error {
	var batch []store.Stated
	send := func() error {
		select {
		case to <- batch:
			batch = nil
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	seen := map[string]bool{}
	for f, err := range w.facts.Sessions(ctx) {
		if err != nil {
			return fmt.Errorf("read the sessions: %w", err)
		}
		// One that was destroyed a moment ago may have come in an older state.
		if f.Value.State == session.Destroyed && !seen[f.Value.Session] {
			continue
		}
		seen[f.Value.Session] = true
		if batch = append(batch, store.Stated{Record: f.Value, Seq: f.Seq}); len(batch) == rebuildBatch {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// clocksOf is what the view holds of a session beside its record.
func (s *sessions) clocksOf(r session.Record) (c store.Clocks) {
	if r.State == session.Destroyed {
		return c
	}
	if c.Stale = time.Until(r.StaleAt); c.Stale == 0 {
		c.Stale = -1
	}
	if r.State == session.Active {
		c.Idle = s.idle(r)
		c.Watch = 1 + rand.N(s.cfg.WatchEvery) // not all of them at once
	}
	c.Slot = runs(r)
	return c
}
