package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

const (
	// watchBatch is how many sessions one claim takes.
	watchBatch = 1000
	// watchFew is up to how many sandboxes are asked for one by one; more are
	// found in E2B's list.
	watchFew = 5
)

// watch looks after the sandboxes of active sessions, all in one round: within
// WORKER_WATCH_EVERY each is looked at by some worker of the fleet. Rounds do
// not fall together, and each session is in one worker's hands at a time.
func (w *Worker) watch(ctx context.Context) {
	for sleep(ctx, jitter(w.cfg.WatchEvery)) == nil {
		if err := w.patrol(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("sandboxes not looked after", "err", err)
		}
	}
}

// jitter is d give or take a tenth.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1))
}

// patrol looks once at every sandbox that nobody has looked at for a while. A
// session that fails does not keep the others from their turn; it comes again
// when its claim ends.
func (w *Worker) patrol(ctx context.Context) error {
	var due []store.Due
	for {
		// The claim ends before the next round of the worker that has it.
		some, err := w.view.ClaimDue(ctx, store.Watch, watchBatch, w.cfg.WatchEvery*4/5)
		if err != nil {
			return err
		}
		if due = append(due, some...); len(some) < watchBatch {
			break
		}
	}
	var seen census
	if len(due) > watchFew {
		var err error
		if seen, err = w.sessions.census(ctx); err != nil {
			return err // unreadable is not empty
		}
	}
	var errs []error
	var alive []store.SlotOf
	for _, d := range due {
		owner, ok, err := w.lookAt(ctx, d, seen)
		if err != nil {
			errs = append(errs, fmt.Errorf("session %s: %w", d.Session, err))
		}
		if ok {
			alive = append(alive, store.SlotOf{Session: d.Session, Owner: owner})
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(append(errs, w.view.KeepSlots(ctx, alive...))...)
}

// census is what E2B's list shows, all pages, by sandbox.
type census map[string]e2b.ListedSandbox

// census reads E2B's whole list. With an error there is none: what is missing
// from half a list is not gone.
func (s *sessions) census(ctx context.Context) (census, error) {
	all := census{}
	for one, err := range s.e2b.List(ctx, e2b.ListQuery{Order: e2b.OldestFirst}) {
		if err != nil {
			return nil, fmt.Errorf("list sandboxes: %w", err)
		}
		all[one.SandboxID] = one
	}
	return all, nil
}

// lookAt looks at one session's sandbox and writes down what became of it. A
// sandbox that the list does not show as running is asked for by itself: a
// list may miss what changes while it is read. Who runs a command in a sandbox
// that is gone is called.
func (w *Worker) lookAt(ctx context.Context, d store.Due, seen census) (owner string, alive bool, _ error) {
	k, err := w.sessions.read(ctx, d.Session)
	if err != nil {
		return "", false, err
	}
	if k.State != session.Active {
		return "", false, w.view.Done(ctx, store.Watch, d)
	}
	if one, ok := seen[k.SandboxID]; ok && one.State == e2b.StateRunning {
		return k.Owner, true, nil
	}
	next, err := w.sessions.look(ctx, k)
	switch {
	case errors.Is(err, errMoved):
		return "", false, nil // somebody else has seen more
	case err != nil:
		return "", false, err
	case next.State == session.Active:
		return k.Owner, true, nil
	}
	w.log.Warn("sandbox of an active session does not run", "session_id", k.Session, "sandbox_id", k.SandboxID, "state", next.State)
	running, _, err := w.view.Busy(ctx, d.Session)
	for _, job := range running {
		w.wakes.call(d.Session, job)
	}
	return "", false, err
}
