package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
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
		adm, err := h.w.view.Enter(h.ctx, h.entry, h.w.busyLease())
		if err != nil {
			return fmt.Errorf("enter the lane: %w", err)
		}
		h.mu.Lock()
		h.entered = true
		h.mu.Unlock()
		if adm.Turn && !adm.Pausing {
			if !deadline.IsZero() {
				if err := h.d.Unpark(h.ctx); err != nil {
					return err
				}
			}
			if adm.Known {
				h.ask.view = &known{adm.Rec, adm.Seq}
			}
			return nil
		}
		if deadline.IsZero() {
			if adm.Pausing && adm.Turn && h.d.Kind == jobs.SandboxPause {
				return nil
			}
			deadline = time.Now().Add(jobs.MaxHold)
			if err := h.tellLane(adm.Ahead, adm.Pausing); err != nil {
				return err
			}
			if !h.d.Park() {
				return waitFor(jobs.ClassLane, jobs.MaxHold+time.Second, "%d jobs ahead", adm.Ahead)
			}
		}
		if time.Now().After(deadline) {
			return waitFor(jobs.ClassLane, jobs.MaxHold+time.Second, "%d jobs ahead", adm.Ahead)
		}
		if err := h.pauseFor(wake, adm.Pausing); err != nil {
			return err
		}
	}
}

// pauseFor waits for a call, or for the time to look again.
func (h *hold) pauseFor(wake <-chan struct{}, pausing bool) error {
	look := lookAgain
	if pausing {
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

func (h *hold) tellLane(ahead int, pausing bool) error {
	why, detail := events.WaitLane, fmt.Sprintf("%d jobs of the session before it", ahead)
	if pausing {
		why, detail = events.WaitTransition, "the session is being paused"
	}
	return h.claim.Publish(h.ctx, events.KindWaiting, events.Waiting{Why: why, Detail: detail, Ahead: ahead})
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
