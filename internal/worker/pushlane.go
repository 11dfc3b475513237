package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/store"
)

// Jobs that push to one branch take turns at it, on all workers: those who catch up
// with a branch side by side overtake each other until their tries are used up. The
// lane is one in Redis like a session's, under a name that no session can have. It is
// for fairness and speed alone: a push moves a branch forward or not at all, also
// where a wipe of Redis lets two go at once.

// pushLane is the lane of a branch.
func pushLane(r git.Remote, branch string) string {
	sum := sha256.Sum256([]byte(r.Host + "/" + r.Path + "\n" + branch))
	return "@push-" + hex.EncodeToString(sum[:16])
}

// pushTurn waits until no other job pushes to the branch: in place for a while, else
// off the queue. leave gives the turn to the next one.
func (r *repoRun) pushTurn(ctx context.Context) (leave func(), err error) {
	if r.block.Branch == "" {
		return func() {}, nil // the job's own: nobody else pushes there
	}
	e := store.Entry{
		Session: pushLane(r.remote, r.state.Branch), Job: r.d.Session + "/" + r.d.ID,
		Origin: r.d.Origin, Exclusive: true, Holder: r.entry.Holder,
	}
	bell, forget := r.w.wakes.listen(e.Session, e.Job)
	defer forget()
	deadline, waited := time.Now().Add(r.w.cfg.LaneHold), false
	for {
		adm, err := r.w.view.Enter(ctx, e, r.w.busyLease())
		switch {
		case errors.Is(err, store.ErrOutrun):
			return nil, fmt.Errorf("%w: %w", events.ErrLost, err)
		case err != nil && ctx.Err() != nil:
			r.quitPushing(e)
			return nil, context.Cause(ctx)
		case err != nil:
			r.log.Warn("no turn to push: pushed without", "err", err)
			return func() { r.quitPushing(e) }, r.d.Unpark(ctx)
		case adm.Turn:
			e.Running = true
			r.inPushLane(&e)
			if waited {
				r.say(events.Progress{Message: "its turn to push to " + r.state.Branch})
			}
			if err := r.d.Unpark(ctx); err != nil {
				r.quitPushing(e)
				return nil, err
			}
			return func() { r.quitPushing(e) }, nil
		}
		if !adm.HeadBusy && adm.Head != e.Job { // its worker is gone
			r.leaveLane(store.Entry{Session: e.Session, Job: adm.Head})
			continue
		}
		if !waited {
			waited = true
			r.say(events.Progress{Message: fmt.Sprintf("waits for its turn to push to %s: %d before it, now %s", r.state.Branch, adm.Ahead, adm.Head)})
			r.inPushLane(&e)
			r.d.Park() // or waits with its slot
		}
		if !time.Now().Before(deadline) {
			r.quitPushing(e)
			return nil, &fault{class: jobs.ClassRate, why: events.WaitLane, after: jobs.MaxHold + time.Second, reason: fmt.Sprintf("%d pushes to %s before it", adm.Ahead, r.state.Branch)}
		}
		if err := r.awaitTurn(ctx, bell, deadline); err != nil {
			r.quitPushing(e)
			return nil, err
		}
	}
}

// awaitTurn waits for a call, or for the time to look again.
func (r *repoRun) awaitTurn(ctx context.Context, bell <-chan struct{}, deadline time.Time) error {
	t := time.NewTimer(min(lookAgain, max(time.Until(deadline), 0)))
	defer t.Stop()
	select {
	case <-bell:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// inPushLane tells the beat which place to keep; nil is none.
func (r *repoRun) inPushLane(e *store.Entry) {
	r.hold.mu.Lock()
	defer r.hold.mu.Unlock()
	r.pushing = nil
	if e != nil {
		kept := *e
		r.pushing = &kept
	}
}

// quitPushing leaves the lane.
func (r *repoRun) quitPushing(e store.Entry) {
	r.inPushLane(nil)
	r.leaveLane(e)
}

// leaveLane takes an entry out of a lane and calls the one behind it.
func (r *repoRun) leaveLane(e store.Entry) {
	ctx, done := r.w.parting(r.ctx)
	defer done()
	next, err := r.w.view.Leave(ctx, e, 0)
	if err != nil {
		r.log.Warn("lane of pushes not left", "err", err)
		return
	}
	if next.Busy {
		r.w.wakes.call(e.Session, next.Job)
	}
}
