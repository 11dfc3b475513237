package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/store"
)

// A job that waits long for its turn, or stands far behind, waits in the schedules:
// nobody holds it, and it keeps its place. Whoever leaves the lane calls back those
// that come near.

// The time at which a job that waits away comes back uncalled: it grows with its
// distance and is only what is left should a call get lost.
const (
	awayStep = 5 * time.Second // for each job before it
	awayMost = 30 * time.Minute
)

// goAway is the error of a job that is to wait away.
func (h *hold) goAway(adm store.Admission) error {
	wait := min(h.w.cfg.LaneHold+time.Duration(adm.Ahead)*awayStep, awayMost)
	if at := h.d.ExpiresAt(); !at.IsZero() {
		wait = min(wait, max(time.Until(at), 0))
	}
	return waitFor(jobs.ClassLane, wait, "%d jobs ahead", adm.Ahead)
}

// depart puts the job into the schedules, to wait for its turn. First the schedule,
// then the word that it is there: who reads it calls it back.
func (h *hold) depart(ctx context.Context, d time.Duration) error {
	if err := h.w.queue.LeaveLane(ctx, h.d.Job, time.Now().Add(d)); err != nil {
		return err
	}
	h.mu.Lock()
	entered := h.entered
	h.entered, h.entry.Running = false, false
	h.mu.Unlock()
	if !entered {
		return nil
	}
	next, err := h.w.view.Depart(ctx, h.entry, d)
	if err != nil {
		h.log.Warn("lane not told that the job waits away", "err", err)
		return nil
	}
	h.w.pass(h.d.Session, next)
	return nil
}

// pass lets those know whose turn it is, or soon will be.
func (w *Worker) pass(session string, next store.Next) {
	if next.Busy {
		w.wakes.call(session, next.Job)
	} else if next.Job != "" && !slices.Contains(next.Away, next.Job) {
		w.called.Go(func() { w.clearEnded(session, next.Job) })
	}
	for _, job := range next.Away {
		w.called.Go(func() { w.callBack(session, job) })
	}
}

// maxCalls is how many jobs are called back at a time.
const maxCalls = 32

// lastCalls waits, for a moment, until those are called whom the last jobs of a
// stopping worker have left the way to.
func (w *Worker) lastCalls() {
	done := make(chan struct{})
	go func() { w.called.Wait(); close(done) }()
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// callBack makes a job return that waits away.
func (w *Worker) callBack(session, job string) {
	w.calls <- struct{}{}
	defer func() { <-w.calls }()
	ctx, cancel := context.WithTimeout(w.parted, 30*time.Second)
	defer cancel()
	ok, err := w.queue.Hasten(ctx, session, job)
	for try := 1; err != nil && try < 5 && sleep(ctx, jobs.Jitter(time.Duration(try)*200*time.Millisecond)) == nil; try++ {
		ok, err = w.queue.Hasten(ctx, session, job)
	}
	if err != nil {
		w.log.Warn("job not called back to its lane", "session_id", session, "job_id", job, "err", err)
		return
	}
	if !ok {
		w.clearEnded(session, job) // it is on its way, or over
	}
}

// clearEnded takes a job out of its lane if its log says that it has ended.
func (w *Worker) clearEnded(session, job string) {
	ctx, cancel := context.WithTimeout(w.parted, 30*time.Second)
	defer cancel()
	if _, err := w.outOfTheWay(ctx, session, job); err != nil && ctx.Err() == nil {
		w.log.Warn("lane not cleared", "session_id", session, "job_id", job, "err", err)
	}
}

// outOfTheWay is clearEnded with an answer.
func (w *Worker) outOfTheWay(ctx context.Context, session, job string) (gone bool, err error) {
	past, err := w.facts.History(ctx, events.Job{Session: session, ID: job})
	if err != nil || !past.Ended() {
		return false, err
	}
	next, err := w.view.Leave(ctx, store.Entry{Session: session, Job: job}, w.idleAfter(ctx, session, past))
	if err != nil {
		return false, fmt.Errorf("clear the lane: %w", err)
	}
	w.log.Info("ended job taken out of the lane", "session_id", session, "job_id", job)
	w.pass(session, next)
	return true, nil
}

// idleAfter is what is left of a session's idle time since the end of a job that has
// used its sandbox; 0 if there is nothing to wait for.
func (w *Worker) idleAfter(ctx context.Context, id string, past events.History) time.Duration {
	if !past.Started.OK() {
		return 0
	}
	rec, _, err := w.view.Session(ctx, id)
	if err != nil { // the view has lost it, or is behind
		k, readErr := w.sessions.read(ctx, id)
		rec, err = k.Record, readErr
	}
	if err != nil || !mayPause(rec.State) {
		return 0
	}
	return w.sessions.idle(rec) - time.Since(past.Outcome.Time)
}
