package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

// Sweeping: any worker claims what is due; what is due are a few entries at the
// head of a sorted set, so the cost does not grow with the number of sessions.
const (
	sweepEvery = time.Second
	sweepBatch = 100
	// idleClaim is how long an idle session is claimed at first. It is shorter than any
	// idle timeout: idle deadlines only move later, and the end of a job that comes
	// after the claim must move this one.
	idleClaim = 500 * time.Millisecond
	// dueLease is when a claimed deadline comes back if nothing came of it.
	dueLease = 5 * time.Second
)

// sweep publishes the jobs that deadlines ask for, and sees to it that the view
// has a name and is filled: without one it would count as just wiped for ever, and
// every job would ask the log who runs.
func (w *Worker) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	filled := ""
	for {
		if filled == "" || w.view.Young() {
			filled = w.renewView(ctx)
		}
		w.tide.know()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, s := range []struct {
			kind  store.Deadline
			lease time.Duration
			act   func(context.Context, store.Due) error
		}{{store.Idle, idleClaim, w.idle}, {store.Stale, dueLease, w.stale}} {
			if err := w.claimDue(ctx, s.kind, s.lease, s.act); err != nil && ctx.Err() == nil {
				w.log.Warn("sweep failed", "kind", s.kind, "err", err)
			}
		}
	}
}

func (w *Worker) claimDue(ctx context.Context, kind store.Deadline, lease time.Duration, act func(context.Context, store.Due) error) error {
	for {
		due, err := w.view.ClaimDue(ctx, kind, sweepBatch, lease)
		if err != nil {
			return err
		}
		for _, d := range due {
			if err := act(ctx, d); err != nil {
				return fmt.Errorf("session %s: %w", d.Session, err)
			}
		}
		if len(due) < sweepBatch {
			return nil
		}
	}
}

// idle publishes the pause of a session whose idle time is over. The pause job
// looks again when its turn comes.
func (w *Worker) idle(ctx context.Context, d store.Due) error {
	running, queued, err := w.view.Busy(ctx, d.Session)
	if err != nil {
		return err
	}
	rec, seq, err := w.view.Session(ctx, d.Session)
	if errors.Is(err, store.ErrNotFound) || err == nil && !mayPause(rec.State) {
		// The view may be behind: a deadline is taken away by the log's word alone.
		var k known
		k, err = w.sessions.reread(ctx, d.Session)
		if err == nil && !mayPause(k.State) {
			w.sessions.correct(ctx, k)
			return w.view.Done(ctx, store.Idle, d)
		}
		rec, seq = k.Record, k.seq
	}
	if err != nil {
		return err
	}
	if len(running)+queued > 0 && !point.Off(point.IdleGuard) {
		if len(running) == 0 { // nobody tends what waits there: it may be over
			w.sessions.clearEnded(ctx, store.Entry{Session: d.Session}, w.sessions.idle(rec))
		}
		// Not by a plain SetDeadline: the claim has moved the deadline, and one only
		// ever moves later, so that the end of the job would not count.
		return w.view.Postpone(ctx, store.Idle, d, w.sessions.idle(rec))
	}
	w.m.idleLag.Observe(time.Since(d.DueAt).Seconds())
	if lease := claimLease(w.sessions.idle(rec)); lease < dueLease {
		// Else the claim would hide the end of a job that comes before the pause.
		if err := w.view.Postpone(ctx, store.Idle, d, lease); err != nil {
			return err
		}
	}
	return w.ask(ctx, jobs.SandboxPause, &jobs.Lifecycle{
		Common: jobs.Common{
			ID:      fmt.Sprintf("idle-%d-%d", seq, d.DueAt.UnixMilli()),
			Session: d.Session, Owner: rec.Owner, Labels: map[string]string{IdleLabel: "true"},
			Exclusive: unguarded(),
		},
		Reason: "idle for " + w.sessions.idle(rec).String(),
	}, jobs.PublishOptions{Owner: rec.Owner})
}

// mayPause reports whether an idle deadline means anything in state st.
func mayPause(st session.State) bool { return st == session.Active || st == session.Pausing }

// claimLease is when the claimed idle deadline of a session comes back. What was
// used since the claim is due later than that.
func claimLease(idle time.Duration) time.Duration { return min(dueLease, idle/4) }

// stale publishes the end of a session that is older than it may get.
func (w *Worker) stale(ctx context.Context, d store.Due) error {
	k, err := w.sessions.read(ctx, d.Session)
	if err != nil {
		return err
	}
	if k.State == session.None || k.State == session.Destroyed {
		return w.view.Done(ctx, store.Stale, d)
	}
	return w.ask(ctx, jobs.SandboxDestroy, &jobs.Lifecycle{
		Common: jobs.Common{
			ID:      fmt.Sprintf("stale-%d-%d", k.Generation, d.DueAt.UnixMilli()),
			Session: d.Session, Owner: k.Owner,
		},
		Reason: "older than " + w.sessions.age(k.Record).String(),
	}, jobs.PublishOptions{Owner: k.Owner})
}

// ask publishes a job of the worker's own.
func (w *Worker) ask(ctx context.Context, kind jobs.Kind, p jobs.Payload, o jobs.PublishOptions) error {
	_, err := w.publisher.Publish(ctx, kind, p, o)
	return err
}

// unguarded takes the workers' own pauses out of the lane when they are to be
// made without a look.
func unguarded() *bool {
	if !point.Off(point.IdleGuard) {
		return nil
	}
	return new(bool)
}
