package worker

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// letGo is the delay of a message that another worker is to take at once.
const letGo = 50 * time.Millisecond

// settle writes what became of an attempt and does with the message what
// follows from it. again means: take the job up once more, in these hands.
func (h *hold) settle(out events.Outcome, err error) (again bool, _ error) {
	if err != nil {
		if cause := context.Cause(h.ctx); h.ctx.Err() != nil && cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		v := classify(err)
		v.reason = h.masking.text(v.reason)
		h.why = v.why
		if errors.Is(err, e2b.ErrHeldBack) {
			v.after = h.w.outage.hold(h.key, v.after)
			h.d.Slow(heldBackCost)
		}
		out.Class, out.Reason, out.Pointer = string(v.class), v.reason, v.pointer
		switch {
		case errors.Is(err, events.ErrLost):
			h.log.Warn("claim lost", "attempt", h.attempt)
			return false, h.yield()
		case errors.Is(err, errStopping):
			return false, h.interrupt()
		}
		return h.fate(out, v.after)
	}
	return h.fate(out, 0)
}

func (h *hold) fate(out events.Outcome, after time.Duration) (bool, error) {
	class := jobs.Class(out.Class)
	decision := jobs.Decide(class, h.attempt, h.d.MaxAttempts(), h.retryAsked(out)).AtLeast(after)
	if class == jobs.ClassLane {
		decision.Delay = after
	}
	if point.Off(point.Waits) && decision.Fate == jobs.Wait {
		decision = jobs.Decide(jobs.ClassInternal, h.attempt, h.d.MaxAttempts(), false)
	}
	if h.cancelled() && !decision.Fate.Terminal() && !h.lives() {
		decision = jobs.Decide(jobs.ClassCancelled, h.attempt, 0, false)
		out.Reason = "cancelled; before that: " + out.Reason
		out.Class = string(jobs.ClassCancelled)
	}
	if decision.Fate.Terminal() {
		return false, h.end(decision, out)
	}
	return h.later(decision, out)
}

// lives reports whether a command of this attempt may still run, so that a
// cancel has to reach it first.
func (h *hold) lives() bool {
	return h.startedBefore() && h.d.Kind == jobs.TaskRun && !h.between
}

func (h *hold) retryAsked(out events.Outcome) bool {
	run, ok := h.d.Payload.(*jobs.Run)
	if !ok || out.ExitCode == nil {
		return false
	}
	for _, code := range run.RetryOnExit {
		if code == *out.ExitCode {
			return true
		}
	}
	return false
}

// end writes the terminal event and clears up after the job.
func (h *hold) end(decision jobs.Decision, out events.Outcome) error {
	ctx, done := h.w.parting(h.ctx)
	defer done()
	if err := h.account(ctx, &out); err != nil {
		return h.giveUp(err)
	}
	h.hush(ctx, out)
	h.shut(ctx)
	h.booked(ctx)
	out.Reason = h.masking.text(out.Reason)
	out.Masked = out.Masked || h.masking.found.Load()
	out.Attempts = h.attempt
	out.DurationMS = time.Since(h.since()).Milliseconds()
	if decision.Fate == jobs.Die {
		if says := jobs.Class(out.Class).Says(); says != "" {
			out.Reason += " (" + says + ")"
		}
		// Letters have no fence: who was replaced must not write one.
		if err := h.claim.Check(ctx); errors.Is(err, events.ErrLost) {
			return h.yield()
		} else if err != nil {
			return h.giveUp(err)
		}
		// First the letter, then the end: twice is once, but none is a loss.
		if err := h.w.queue.Dead(ctx, jobs.DeadLetter{
			Job: h.d.Job, Class: jobs.Class(out.Class), Reason: out.Reason, Pointer: out.Pointer, Attempts: h.attempt,
		}); err != nil {
			return h.giveUp(fmt.Errorf("write the dead letter: %w", err))
		}
	}
	if err := h.claim.End(ctx, events.Kind(decision.Fate), out); err != nil {
		if errors.Is(err, events.ErrLost) || errors.Is(err, events.ErrEnded) {
			return h.yield()
		}
		return h.giveUp(fmt.Errorf("write the terminal event: %w", err))
	}
	h.log.Info("job ended", "as", decision.Fate, "class", out.Class, "attempt", h.attempt, "ms", out.DurationMS, "reason", out.Reason)
	h.w.m.ended(h.d, out)
	h.show(events.Kind(decision.Fate), func(v *store.JobView) {
		v.Class = out.Class
		v.Outcome, _ = json.Marshal(out) // numbers and strings alone
	})
	if h.d.Unique != "" {
		if err := h.w.view.ReleaseUnique(ctx, h.vouched(), h.d.Unique, h.d.Session, h.d.ID); err != nil {
			h.log.Warn("unique key not released", "err", err)
		}
	}
	h.w.cancels.forget(h.key)
	return h.bury(ctx)
}

// yield leaves the job to who holds it now. Not a word about the message: that
// worker has it too, and acks are not fenced. The place in the lane is the job's, and
// stays, unless the job is over and a late beat has put it there.
func (h *hold) yield() error {
	h.d.Abandon()
	if h.entered {
		h.w.called.Go(func() { h.w.clearEnded(h.d.Session, h.d.ID) })
	}
	return nil
}

// giveUp hands the message back when the end could not be written: the job
// comes again and finds itself where it is.
func (h *hold) giveUp(err error) error {
	return errors.Join(err, h.d.GiveBack(5*time.Second))
}

// account fills in what a command has written, where the attempt itself could
// not: the outcome says what subscribers got, however the job ended.
func (h *hold) account(ctx context.Context, out *events.Outcome) error {
	if h.d.Kind != jobs.TaskRun || out.StdoutSHA256 != "" {
		return nil
	}
	past, err := h.w.facts.History(ctx, h.key)
	if err != nil {
		return fmt.Errorf("account for the output: %w", err)
	}
	for _, o := range []struct {
		kind  events.Kind
		bytes int64
		n     *int64
		sum   *string
	}{
		{events.Stdout, past.Stdout.Offset, &out.StdoutBytes, &out.StdoutSHA256},
		{events.Stderr, past.Stderr.Offset, &out.StderrBytes, &out.StderrSHA256},
	} {
		*o.n = o.bytes
		sum, err := h.w.facts.Sum(ctx, h.key, o.kind, o.bytes)
		var gap *events.GapError
		switch {
		case err == nil:
			*o.sum = hex.EncodeToString(sum.Sum(nil))
		case !errors.As(err, &gap): // what the stream has let go of cannot be summed
			return fmt.Errorf("account for the output: %w", err)
		}
	}
	return nil
}

// since is when the attempt's work began, in whoever's hands.
func (h *hold) since() time.Time {
	if h.startedBefore() {
		return h.past.Started.Time
	}
	return h.begun
}

// later puts the job off: in place for a moment, with the server for a while,
// in the schedules for longer.
func (h *hold) later(decision jobs.Decision, out events.Outcome) (again bool, _ error) {
	if h.ask.line.Session != "" && jobs.Class(out.Class) == jobs.ClassQuota && decision.Fate == jobs.Wait {
		var err error
		if decision.Delay, again, err = h.standInLine(&out); err != nil {
			return h.settle(out, err) // Redis, say, cannot be asked: that is a wait too
		}
		if again {
			return true, nil
		}
	}
	ctx, done := h.w.parting(h.ctx)
	defer done()
	where, class := jobs.HoldFor(decision.Delay), jobs.Class(out.Class)
	if class == jobs.ClassLane && where == jobs.GiveBack {
		where = jobs.Reschedule // where it can be called back from
	}
	if err := h.tellLater(ctx, decision, out, where); err != nil {
		if errors.Is(err, events.ErrLost) {
			return false, h.yield()
		}
		return false, h.giveUp(err)
	}
	if where == jobs.Park && h.d.Park() {
		err := h.rest(decision.Delay)
		return err == nil, h.letGoOn(err)
	}
	if class == jobs.ClassLane && where == jobs.Reschedule {
		err := h.depart(ctx, decision.Delay)
		if err == nil {
			return false, h.d.Ack()
		}
		h.log.Warn("job not rescheduled", "err", err)
		where = jobs.GiveBack
	}
	h.stepAside(ctx, class, decision.Delay)
	if where == jobs.Reschedule {
		err := h.w.queue.Reschedule(ctx, h.d.Job, time.Now().Add(decision.Delay))
		if err == nil {
			if h.cancelled() { // whoever asked may have looked before it was there
				h.w.hastener.add(h.key)
			}
			return false, h.d.Ack()
		}
		h.log.Warn("job not rescheduled", "err", err)
	}
	return false, h.d.GiveBack(min(decision.Delay, jobs.MaxHold))
}

// letGoOn lets go of a job whose wait in place has ended with an error.
func (h *hold) letGoOn(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStopping):
		return h.interrupt()
	case errors.Is(err, events.ErrLost):
		return h.yield()
	}
	return h.giveUp(err)
}

func (h *hold) tellLater(ctx context.Context, decision jobs.Decision, out events.Outcome, where jobs.Hold) error {
	if decision.Fate == jobs.Retry {
		h.show(events.KindRetrying, func(v *store.JobView) { v.Class = out.Class })
		h.log.Warn("attempt failed", "class", out.Class, "attempt", h.attempt, "delay", decision.Delay, "reason", out.Reason)
		return h.claim.Publish(ctx, events.KindRetrying, events.Retrying{
			Class: out.Class, Reason: out.Reason, Attempt: h.attempt, Delay: wire.Duration(decision.Delay),
		})
	}
	h.show(events.KindWaiting, func(v *store.JobView) { v.Waiting = h.waits(out) })
	h.log.Info("job waits", "class", out.Class, "delay", decision.Delay, "reason", out.Reason)
	var since time.Time
	if h.waits(out) == events.WaitRemote {
		since = h.unanswered
	}
	return h.claim.Publish(ctx, events.KindWaiting, events.Waiting{
		Why: h.waits(out), Detail: out.Reason, Ahead: h.ahead, Since: since,
		Until: time.Now().UTC().Add(decision.Delay), Rescheduled: where == jobs.Reschedule,
	})
}

// waits is what the job waits for.
func (h *hold) waits(out events.Outcome) string {
	return cmp.Or(h.why, waitWhy(jobs.Class(out.Class)))
}

// rest waits in place, without a slot, and takes a slot again.
func (h *hold) rest(d time.Duration) error {
	ctx, cancel := h.untilCancelled(h.ctx)
	defer cancel()
	if err := sleep(ctx, d); err != nil && !errors.Is(err, errCancelled) {
		return err
	}
	return h.d.Unpark(h.ctx)
}

// interrupt lets go of the job in good order: what runs in its sandbox runs on,
// and the next worker joins it.
func (h *hold) interrupt() error {
	ctx, done := h.w.parting(h.ctx)
	defer done()
	if err := h.claim.Publish(ctx, events.KindInterrupted, events.Interrupted{Worker: h.w.cfg.Name, Reason: errStopping.Error()}); err != nil {
		if errors.Is(err, events.ErrLost) {
			return h.yield()
		}
		h.log.Warn("interrupted event not written", "err", err)
	}
	return h.d.GiveBack(letGo)
}

// stepAside lets go of the turn for a while. The job keeps its place in the lane,
// unless it is not due yet: then it is in nobody's way.
func (h *hold) stepAside(ctx context.Context, class jobs.Class, d time.Duration) {
	if class == jobs.ClassDelay {
		h.leave(ctx)
		return
	}
	h.mu.Lock()
	entered := h.entered
	h.entered, h.entry.Running = false, false
	h.mu.Unlock()
	if !entered {
		return
	}
	next, err := h.w.view.Park(ctx, h.entry, d)
	if err != nil {
		h.log.Warn("lane not left", "err", err)
		return
	}
	h.w.pass(h.d.Session, next)
}

// leave takes the job out of its lane and lets the next one know.
func (h *hold) leave(ctx context.Context) {
	h.mu.Lock()
	entered := h.entered
	h.entered = false
	h.mu.Unlock()
	if !entered {
		return
	}
	var idle time.Duration // a job that used no sandbox leaves its clock alone
	if h.session.Session != "" {
		idle = h.w.sessions.idle(h.session.Record)
	}
	next, err := h.w.view.Leave(ctx, h.entry, idle)
	if err != nil {
		h.log.Warn("lane not left", "err", err)
		return
	}
	h.w.pass(h.d.Session, next)
}

// discardSession destroys the session that a job without one was given.
func (h *hold) discardSession(ctx context.Context) error {
	if !h.d.Ephemeral {
		return nil
	}
	a := h.ask
	err := h.w.sessions.destroyNow(ctx, &a, "its job has ended")
	var f *fault
	if errors.As(err, &f) && f.class == jobs.ClassNotFound {
		return nil
	}
	return err
}
