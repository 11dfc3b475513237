package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

// Waiting for a slot: in place for a moment, then off the queue. Whoever gives a
// slot back calls the next in line.
const (
	linePatience = 10 * time.Second
	// lineKeep is how long a place in line is kept without a word beyond the time
	// at which the job looks again.
	lineKeep = time.Minute
	// lineWaitMax is how long a job far behind in line is away at most.
	lineWaitMax = 10 * time.Minute
)

// lineWait is when a job looks again by itself: one far behind is called long
// before that.
func lineWait(ahead int) time.Duration {
	return min(jobs.MaxHold+time.Second+time.Duration(ahead)*2*time.Second, lineWaitMax)
}

// takeSlot takes one of the fleet's running sandboxes for the asker's session, or
// puts it into the line.
func (s *sessions) takeSlot(ctx context.Context, k known, a *asker) error {
	if err := s.brakes.heldBack(e2b.ClassStart); err != nil {
		return err
	}
	a.line = store.SlotAsk{Session: a.session, Owner: a.owner, Job: a.job, Origin: a.origin}
	if k.State != session.None && k.State != session.Destroyed {
		a.line.Owner = k.Owner
	}
	got, err := s.place(ctx, a, lineKeep)
	if err != nil {
		return err
	}
	if got.OK {
		return nil
	}
	return waitFor(jobs.ClassQuota, 0, "%s", lineWord(got))
}

// place asks for the slot, and keeps the place in line for a while.
func (s *sessions) place(ctx context.Context, a *asker, keep time.Duration) (store.SlotAnswer, error) {
	got, err := s.view.TakeSlot(ctx, a.line, keep)
	if err != nil {
		return got, fmt.Errorf("take a sandbox slot: %w", err)
	}
	if got.OK {
		a.line = store.SlotAsk{}
	} else {
		s.crowded()
	}
	s.call(got.Calls)
	return got, nil
}

// lineWord says for people what a session waits for.
func lineWord(a store.SlotAnswer) string {
	if a.OwnerFull {
		return fmt.Sprintf("its owner has all the running sandboxes that one may have; %d sessions before it", a.Ahead)
	}
	return fmt.Sprintf("%d of %d sandboxes run; %d sessions before it", a.Used, a.Allowed, a.Ahead)
}

// turnedAway is for a session that had a slot and that E2B does not let run: its
// quota is lower than we think, or shared with others.
func (s *sessions) turnedAway(ctx context.Context, k known, a *asker) {
	s.m.turnedAway.Inc()
	a.line = store.SlotAsk{Session: a.session, Owner: k.Owner, Job: a.job, Origin: a.origin}
	calls, err := s.view.RefuseSlot(ctx, a.line, lineKeep)
	if err != nil {
		s.log.Warn("quota not noted", "session_id", k.Session, "err", err)
	}
	s.call(calls)
}

// released gives a slot back and calls who gets it.
func (s *sessions) released(ctx context.Context, id string) {
	calls, err := s.view.ReleaseSlot(ctx, id)
	if err != nil {
		s.log.Warn("slot not released", "session_id", id, "err", err)
	}
	s.call(calls)
}

// crowded has room looked for.
func (s *sessions) crowded() {
	select {
	case s.tight <- struct{}{}:
	default:
	}
}

// callUp wakes the jobs of sessions that were in line and have a slot now:
// wherever they wait.
func (w *Worker) callUp(calls []store.SlotCall) {
	for _, c := range calls {
		for _, job := range c.Jobs {
			w.wakes.call(c.Session, job)
			w.hastener.add(events.Job{Session: c.Session, ID: job})
		}
	}
}

// standInLine waits in place for a slot, while the worker has room for it. again
// means: take the job up once more, it has a slot or is unwanted. Otherwise the
// job leaves the queue for wait.
func (h *hold) standInLine(out *events.Outcome) (wait time.Duration, again bool, err error) {
	bell, forget := h.w.wakes.listen(h.key.Session, h.key.ID)
	defer forget()
	var got store.SlotAnswer
	ask := func(keep time.Duration) (bool, error) {
		if got, err = h.w.sessions.place(h.ctx, &h.ask, keep); err != nil || got.OK {
			return got.OK, err
		}
		h.ahead, out.Reason = got.Ahead, lineWord(got)
		return false, nil
	}
	if ok, err := ask(lineKeep); ok || err != nil {
		return 0, ok, err
	}
	if h.d.Park() {
		if err := h.tellLater(h.ctx, jobs.Decision{Fate: jobs.Wait, Delay: linePatience}, *out, jobs.Park); err != nil {
			return 0, false, err
		}
		for end := time.Now().Add(linePatience); time.Now().Before(end); {
			unwanted, err := h.hark(bell, min(lookAgain, time.Until(end)))
			if err != nil {
				return 0, false, err
			}
			ok := unwanted
			if !unwanted {
				ok, err = ask(lineKeep)
			}
			if err != nil {
				return 0, false, err
			}
			if ok {
				return 0, true, h.d.Unpark(h.ctx)
			}
		}
	}
	wait = lineWait(got.Ahead)
	if at := h.d.ExpiresAt(); !at.IsZero() {
		wait = min(wait, max(time.Until(at), jobs.MaxPark)+time.Second)
	}
	ok, err := ask(wait + lineKeep)
	if ok && err == nil {
		err = h.d.Unpark(h.ctx)
	}
	return wait, ok, err
}

// hark waits for a call, or for the time to look again.
func (h *hold) hark(bell <-chan struct{}, d time.Duration) (unwanted bool, _ error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-bell:
	case <-t.C:
	case <-h.wish:
		return true, nil
	case <-h.ctx.Done():
		return false, context.Cause(h.ctx)
	}
	return false, nil
}

// quitLine takes a job that has ended out of the line, in which it may have been
// since before this delivery.
func (h *hold) quitLine(ctx context.Context) {
	waited := h.past.Waiting.OK() && h.past.Waiting.Value.Why == events.WaitQuota
	if h.ask.line.Session == "" && !waited {
		return
	}
	calls, err := h.w.view.QuitLine(ctx, h.key.Session, h.key.ID)
	if err != nil {
		h.log.Warn("line not left", "err", err)
	}
	h.w.callUp(calls)
}
