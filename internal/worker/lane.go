package worker

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// lookAgain is how often a job in a lane looks for itself, should a call have
// been lost.
const lookAgain = 5 * time.Second

// turn enters the job in its session's lane and waits for its turn: in place
// for a while, then off the queue.
func (h *hold) turn() error {
	wake, forget := h.w.wakes.listen(h.d.Session, h.d.ID)
	defer forget()
	var deadline time.Time
	for {
		adm, err := h.enter()
		if err != nil {
			return err
		}
		if (adm.Turn || point.Off(point.Lane)) && !adm.Pausing {
			if !deadline.IsZero() {
				if err := h.d.Unpark(h.ctx); err != nil {
					return err
				}
			}
			return h.mayGo(adm)
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(jobs.MaxHold)
			if err := h.tellLane(adm); err != nil {
				return err
			}
			if !h.d.Park() {
				deadline = time.Now()
			}
		}
		if !time.Now().Before(deadline) {
			return waitFor(jobs.ClassLane, jobs.MaxHold+time.Second, "%d jobs ahead", adm.Ahead)
		}
		if err := h.listen(wake, adm); err != nil {
			return err
		}
	}
}

// enter asks Redis for the turn. What stands in the way without a worker behind
// it is looked up in the log, and taken away if it has ended.
func (h *hold) enter() (store.Admission, error) {
	adm, err := h.w.view.Enter(h.ctx, h.entry, h.w.busyLease())
	if err != nil {
		return adm, fmt.Errorf("enter the lane: %w", err)
	}
	h.mu.Lock()
	h.entered = true
	h.mu.Unlock()
	if adm.Turn && adm.Young && h.entry.Exclusive {
		// Redis has just been wiped, or begun: it may not know yet who runs.
		running, err := h.w.facts.Running(h.ctx, h.d.Session)
		if err != nil {
			h.log.Warn("running jobs not looked up", "err", err)
			return adm, nil
		}
		if others := slices.DeleteFunc(running, func(id string) bool { return id == h.d.ID }); len(others) > 0 {
			adm.Turn, adm.Ahead, adm.Head, adm.HeadBusy = false, len(others), others[0], true
		}
	}
	if adm.Turn && h.entry.Exclusive {
		if first := h.w.holds.before(h); first != nil {
			return h.goAfter(first, adm)
		}
	}
	if adm.Turn || adm.HeadBusy || adm.Head == "" {
		return adm, nil
	}
	past, err := h.w.facts.History(h.ctx, events.Job{Session: h.d.Session, ID: adm.Head})
	if err != nil || !past.Ended() {
		return adm, nil
	}
	h.log.Info("ended job taken out of the lane", "head", adm.Head)
	if _, err := h.w.view.Leave(h.ctx, store.Entry{Session: h.d.Session, Job: adm.Head}, 0); err != nil {
		return adm, fmt.Errorf("clear the lane: %w", err)
	}
	return h.enter()
}

// goAfter gives the turn back to a job that was published before this one and
// came to the lane after it.
func (h *hold) goAfter(first *hold, adm store.Admission) (store.Admission, error) {
	next, err := h.w.view.Park(h.ctx, h.entry, 0)
	if err != nil {
		return adm, fmt.Errorf("give the turn back: %w", err)
	}
	if next != "" && next != h.d.ID {
		h.w.wakes.call(h.d.Session, next)
	}
	adm.Turn, adm.Ahead, adm.Head, adm.HeadBusy = false, 1, first.d.ID, true
	return adm, nil
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
func (h *hold) listen(wake <-chan struct{}, adm store.Admission) error {
	look := lookAgain
	if adm.Pausing || adm.Young {
		look = 250 * time.Millisecond
	}
	t := time.NewTimer(look)
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
