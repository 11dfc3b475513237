package worker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// lookAgain is how often a job in a lane looks for itself, should a call have
// been lost.
const lookAgain = 5 * time.Second

// turn enters the job in its session's lane and waits for its turn: near the head
// in place for a while, else off the queue.
func (h *hold) turn() error {
	// A command that runs already is to be stopped, wherever its job stands.
	if err := h.inOrder(); err != nil && !(errors.Is(err, errCancelled) && h.lives()) {
		return err
	}
	wake, forget := h.w.wakes.listen(h.d.Session, h.d.ID)
	defer forget()
	var deadline time.Time
	for {
		adm, err := h.enter()
		if h.ask.strange, err = h.stranger(adm, err); err != nil {
			return err
		}
		if h.ask.strange {
			h.standAside()
			if deadline.IsZero() {
				return nil
			}
			return h.d.Unpark(h.ctx)
		}
		if (adm.Turn || point.Off(point.Lane)) && !adm.Pausing {
			if !deadline.IsZero() {
				if err := h.d.Unpark(h.ctx); err != nil {
					return err
				}
			}
			return h.mayGo(adm)
		}
		if adm.Ahead > store.Near {
			return h.goAway(adm)
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(h.w.cfg.LaneHold)
			if err := h.tellLane(adm); err != nil {
				return err
			}
			if !h.d.Park() {
				return h.goAway(adm)
			}
		}
		if h.d.Expired(time.Now()) && !h.startedBefore() {
			return h.expired()
		}
		if !time.Now().Before(deadline) {
			return h.goAway(adm)
		}
		err = h.listen(wake, adm, deadline)
		if errors.Is(err, errCancelled) && h.lives() {
			// Its command runs, in whoever's turn, and is to be stopped.
			return h.d.Unpark(h.ctx)
		}
		if err != nil {
			return err
		}
	}
}

// stranger reports whether the session is somebody else's. What waits or runs there is
// not for the job to see: it does not wait, and is refused where it would be if there
// were no such session.
func (h *hold) stranger(adm store.Admission, err error) (bool, error) {
	switch {
	case errors.Is(err, store.ErrStranger):
		return true, nil
	case err != nil || adm.Known || adm.Turn && !adm.Pausing:
		return false, err
	}
	// The view does not say whose it is.
	k, err := h.w.sessions.read(h.ctx, h.d.Session)
	return err == nil && h.ask.mine(k) != nil, err
}

// standAside takes the job out of a lane that is not for it: nobody is to wait behind it.
func (h *hold) standAside() {
	h.placed(h.ctx)
	h.mu.Lock()
	h.entered = h.entered || h.entry.Exclusive
	h.mu.Unlock()
	h.leave(h.ctx)
}

// inOrder waits until every job that was delivered before this one has its place in
// its lane. Most of the time they all have.
func (h *hold) inOrder() error {
	if a, ok := h.d.Note.(*arrival); ok && h.entry.Exclusive {
		return h.w.tide.await(h.ctx, a, h.wish)
	}
	return nil
}

// enter asks Redis for the turn. What stands in the way without a worker behind
// it is looked up in the log, and taken away if it has ended.
func (h *hold) enter() (adm store.Admission, err error) {
	lanes := ""
	if h.entry.Exclusive {
		if lanes, err = h.w.tide.known(h.ctx); err != nil {
			return adm, err
		}
	}
	adm, err = h.w.view.Enter(h.ctx, h.entry, h.w.busyLease())
	if errors.Is(err, store.ErrOutrun) {
		return adm, fmt.Errorf("%w: %w", events.ErrLost, err)
	}
	if err != nil {
		return adm, fmt.Errorf("enter the lane: %w", err)
	}
	h.mu.Lock()
	h.entered = true
	h.mu.Unlock()
	if adm.Turn && h.entry.Exclusive && adm.Lanes != lanes {
		// Redis was wiped in this very moment: who is in the lane is not known.
		return h.giveTurnBack()
	}
	if adm.Turn && adm.Young && h.entry.Exclusive {
		h.afterWhoRuns(&adm)
	}
	if adm.Turn && adm.Pausing && h.w.sessions.letGo(h.ctx, h.d.Session, adm.PausedBy) {
		// Its mark was not taken away when it was done: Redis did not answer.
		if err := h.w.view.EndPause(h.ctx, store.Entry{Session: h.d.Session, Job: adm.PausedBy}); err != nil {
			return adm, fmt.Errorf("enter the lane: %w", err)
		}
		adm.Pausing, adm.PausedBy = false, ""
	}
	switch {
	case adm.Turn || adm.HeadBusy || adm.Head == "":
		return adm, nil
	case adm.HeadAway:
		h.w.called.Go(func() { h.w.callBack(h.d.Session, adm.Head) })
		return adm, nil
	}
	if gone, err := h.w.outOfTheWay(h.ctx, h.d.Session, adm.Head); err != nil || !gone {
		return adm, nil
	}
	return h.enter()
}

// giveTurnBack leaves the turn to whom it belongs and enters again.
func (h *hold) giveTurnBack() (adm store.Admission, err error) {
	next, err := h.w.view.Park(h.ctx, h.entry, 0)
	if err != nil {
		return adm, fmt.Errorf("give the turn back: %w", err)
	}
	h.w.pass(h.d.Session, next)
	return h.enter()
}

// afterWhoRuns takes the turn from adm if the log says that another job of the
// session runs, or cannot say: Redis has just been wiped, or begun, and may not
// know of it yet.
func (h *hold) afterWhoRuns(adm *store.Admission) {
	running, err := h.w.facts.Running(h.ctx, h.d.Session)
	if err != nil {
		h.log.Warn("running jobs not looked up", "err", err)
		adm.Turn, adm.Ahead, adm.HeadBusy = false, 1, true
		return
	}
	if others := slices.DeleteFunc(running, func(id string) bool { return id == h.d.ID }); len(others) > 0 {
		adm.Turn, adm.Ahead, adm.Head, adm.HeadBusy = false, len(others), others[0], true
	}
}

// mayGo notes that the job has the turn, and what the view knows of its session.
func (h *hold) mayGo(adm store.Admission) error {
	h.mu.Lock()
	h.entry.Running = true
	h.mu.Unlock()
	if adm.Known {
		h.ask.view = &known{adm.Rec, adm.Seq}
	}
	return nil
}

// listen waits for a call, or for the time to look again.
func (h *hold) listen(wake <-chan struct{}, adm store.Admission, deadline time.Time) error {
	look := min(lookAgain, time.Until(deadline))
	if at := h.d.ExpiresAt(); !at.IsZero() {
		look = min(look, time.Until(at))
	}
	if adm.Pausing || adm.Young {
		look = min(look, 250*time.Millisecond)
	}
	t := time.NewTimer(max(look, 0))
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	case <-h.wish:
		return errCancelled
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
	return nil
}

func (h *hold) tellLane(adm store.Admission) error {
	why, detail := events.WaitLane, fmt.Sprintf("after %d of the session, now %s", adm.Ahead, adm.Head)
	if adm.Turn {
		why, detail = events.WaitTransition, "the session is being paused by "+adm.PausedBy
	}
	h.show(events.KindWaiting, func(v *store.JobView) { v.Waiting = why })
	return h.claim.Publish(h.ctx, events.KindWaiting, events.Waiting{Why: why, Detail: detail, Ahead: adm.Ahead})
}

// wakes calls jobs that wait in a lane, in this process and in others. A call
// may get lost; who waits looks again by itself.
type wakes struct {
	nc  *nats.Conn
	ns  wire.Namespace
	sub *nats.Subscription

	mu sync.Mutex
	ch map[events.Job]chan struct{}
}

// wakeSubject is the subject of a call, before the namespace. It is for workers
// alone and no stream keeps it.
const wakeSubject = "wake"

func newWakes(nc *nats.Conn, ns wire.Namespace) (*wakes, error) {
	w := &wakes{nc: nc, ns: ns, ch: map[events.Job]chan struct{}{}}
	sub, err := nc.Subscribe(ns.Subject(wakeSubject, "*", "*"), w.heard)
	if err != nil {
		return nil, fmt.Errorf("listen for lane calls: %w", err)
	}
	w.sub = sub
	return w, nil
}

func (w *wakes) close() { _ = w.sub.Unsubscribe() }

func (w *wakes) heard(m *nats.Msg) {
	rest, ok := w.ns.Trim(m.Subject)
	if !ok {
		return
	}
	var key events.Job
	if t := splitSubject(rest); len(t) == 3 {
		key = events.Job{Session: t[1], ID: t[2]}
	}
	w.ring(key)
}

func (w *wakes) ring(key events.Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch, ok := w.ch[key]
	if ok {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	return ok
}

// call wakes a job wherever it waits.
func (w *wakes) call(session, job string) {
	if w.ring(events.Job{Session: session, ID: job}) {
		return
	}
	_ = w.nc.Publish(w.ns.Subject(wakeSubject, session, job), nil)
}

// listen returns the job's bell.
func (w *wakes) listen(session, job string) (bell <-chan struct{}, forget func()) {
	key := events.Job{Session: session, ID: job}
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	w.ch[key] = ch
	w.mu.Unlock()
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ch[key] == ch {
			delete(w.ch, key)
		}
	}
}
