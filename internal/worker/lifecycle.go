package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/spool"
	"github.com/sandjet/sandjet/internal/store"
)

// resume wakes a paused sandbox. Connecting is idempotent, so whoever takes an
// abandoned resume over just connects again.
func (s *sessions) resume(ctx context.Context, k known, a *asker) (known, error) {
	begun := time.Now()
	if err := s.takeSlot(ctx, k, a); err != nil {
		return k, err
	}
	if err := s.takeRate(ctx, routeResume); err != nil {
		return k, err
	}
	if err := a.still(ctx); err != nil {
		return k, err
	}
	k, err := s.put(ctx, k, session.Resuming, func(r *session.Record) {
		r.Worker, r.Job, r.Deadline = s.cfg.Name, a.job, s.resumeBy()
		r.Reason = ""
	})
	if err != nil {
		return k, err
	}
	k, sb, err := s.wake(ctx, k)
	switch {
	case err == nil:
	case errors.Is(err, e2b.ErrNotFound):
		return s.lose(ctx, k, "E2B does not know the paused sandbox any more")
	case errors.Is(err, e2b.ErrQuota), errors.Is(err, e2b.ErrRateLimited):
		if errors.Is(err, e2b.ErrQuota) {
			s.turnedAway(ctx, k, a)
		} else {
			s.slowDown(ctx, routeResume, classify(err).after)
		}
		// Nothing was changed: it sleeps on.
		if back, putErr := s.put(ctx, k, session.Paused, func(r *session.Record) { r.Reason = classify(err).reason }); putErr == nil {
			s.quiet(ctx, k.Session)
			k = back
		}
		return k, err
	default:
		return k, err
	}
	how := "resumed"
	if k.Reason != "" {
		how = "resumed from its disk alone: it did not wake from its memory"
	}
	if k, err = s.welcome(ctx, k, s.e2b.Open(sb.Ref()), how); err != nil || k.State != session.Active {
		return k, err
	}
	s.newBox(k, sb.Ref(), time.Now().Add(s.life(k.Record)))
	s.m.resumed(time.Since(begun))
	return k, nil
}

// pause puts the session to sleep. With onlyIdle it does so only if nothing
// runs, waits or was touched since, and reports false otherwise.
func (s *sessions) pause(ctx context.Context, a *asker, entry store.Entry, onlyIdle bool, reason string) (bool, error) {
	// Also a mark that was set by a worker before this one, which died: whatever the
	// session has come to meanwhile, jobs wait for it.
	defer func() {
		if err := s.view.EndPause(context.WithoutCancel(ctx), entry); err != nil {
			s.log.Warn("pause mark not removed", "session_id", a.session, "err", err)
		}
	}()
	k, err := s.read(ctx, a.session)
	for err == nil {
		if err := a.mine(k); err != nil {
			if onlyIdle {
				err = nil // as of a session that is not there
			}
			return false, err
		}
		switch k.State {
		case session.Paused:
			if onlyIdle {
				s.correct(ctx, k)
			}
			return true, nil
		case session.Active:
			if onlyIdle && s.touched(ctx, k, a.room) {
				return false, nil
			}
			return s.putToSleep(ctx, k, a, entry, onlyIdle, reason)
		case session.Pausing:
			if s.takeOver(ctx, k, a) {
				k, err = s.look(ctx, k) // whether it came to the pause
			} else {
				k, err = s.await(ctx, k)
			}
		case session.Provisioning, session.Resuming, session.Destroying:
			if onlyIdle {
				return false, nil
			}
			if s.takeOver(ctx, k, a) {
				k, err = s.step(ctx, k, a)
			} else {
				k, err = s.await(ctx, k)
			}
		default:
			if onlyIdle {
				s.correct(ctx, k)
				return false, nil
			}
			if k.State == session.None {
				return false, notThere(a.session)
			}
			return false, faultf(jobs.ClassNotFound, "session %s has no sandbox to pause: it is %s", a.session, k.State)
		}
		if errors.Is(err, errMoved) {
			k, err = s.reread(ctx, a.session)
		}
	}
	return false, err
}

// clearEnded takes jobs that have ended out of the session in Redis, where a worker
// that died, could not reach Redis, or was frozen and put them back, has left them, or
// is about to take them out.
// Their session is idle since their end. It reports whether there was one.
func (s *sessions) clearEnded(ctx context.Context, pauser store.Entry, idle time.Duration) (cleared bool) {
	ids, err := s.view.Registered(ctx, pauser.Session)
	if err != nil {
		s.log.Warn("jobs of a session not looked up", "session_id", pauser.Session, "err", err)
		return false
	}
	for _, id := range ids[:min(len(ids), mostEnded)] {
		if id == pauser.Job {
			continue
		}
		past, err := s.facts.History(ctx, events.Job{Session: pauser.Session, ID: id})
		if err != nil || !past.Ended() {
			continue
		}
		if _, err := s.view.Leave(ctx, store.Entry{Session: pauser.Session, Job: id}, idle-time.Since(past.Outcome.Time)); err != nil {
			s.log.Warn("ended job not taken out of the session", "session_id", pauser.Session, "job_id", id, "err", err)
			continue
		}
		s.log.Info("ended job taken out of the session", "session_id", pauser.Session, "job_id", id)
		cleared = true
	}
	return cleared
}

// mostEnded is how many jobs are looked up for one pause.
const mostEnded = 100

// correct writes into the view what the stream says, where a deadline there has
// spoken of a session that is not active.
func (s *sessions) correct(ctx context.Context, k known) {
	if k.State == session.None {
		return
	}
	if err := s.view.PutSession(ctx, k.Record, k.seq); err != nil {
		s.log.Warn("session view not written", "session_id", k.Session, "err", err)
	}
	if !k.State.Running() {
		s.quiet(ctx, k.Session)
	}
}

// touched reports whether the session was used after its idle time had been
// claimed, or its room was asked for: its deadline is later than it was then. A Redis
// that has none was wiped since, and has forgotten the use as well.
func (s *sessions) touched(ctx context.Context, k known, room time.Time) bool {
	at, err := s.view.DeadlineOf(ctx, store.Idle, k.Session)
	if err != nil {
		return true
	}
	if !room.IsZero() {
		return at.After(room)
	}
	return time.Until(at) > claimLease(s.idle(k.Record))
}

func (s *sessions) putToSleep(ctx context.Context, k known, a *asker, entry store.Entry, onlyIdle bool, reason string) (bool, error) {
	free, err := s.view.BeginPause(ctx, entry, pauseLimit, onlyIdle)
	if err == nil && !free && s.clearEnded(ctx, entry, s.idle(k.Record)) {
		free, err = s.view.BeginPause(ctx, entry, pauseLimit, onlyIdle)
	}
	if err != nil {
		return false, fmt.Errorf("begin the pause of session %s: %w", k.Session, err)
	}
	if !free && !point.Off(point.IdleGuard) {
		if onlyIdle {
			return false, nil
		}
		return false, waitFor(jobs.ClassTransitioning, time.Second, "a job runs in session %s", k.Session)
	}
	// Once more, now that no job can come: one may have come and gone since.
	if onlyIdle && s.touched(ctx, k, a.room) && !point.Off(point.IdleGuard) {
		return false, nil
	}
	b, err := s.open(ctx, k)
	if err == nil {
		// Redis may have forgotten a job; the sandbox has not.
		var live []string
		if live, err = spool.Live(ctx, b.Box); err == nil && len(live) > 0 && !point.Off(point.IdleGuard) {
			if onlyIdle {
				return false, nil
			}
			return false, waitFor(jobs.ClassTransitioning, time.Second, "command %s runs in session %s", live[0], k.Session)
		}
	}
	if err != nil {
		k, err = s.astray(ctx, k, err)
		if err != nil {
			return false, err
		}
		if k.State == session.Paused {
			return true, nil
		}
		return false, waitFor(jobs.ClassTransitioning, time.Second, "session %s is %s", k.Session, k.State)
	}
	nonce, err := s.leaveCanary(ctx, k, b)
	if err != nil {
		s.log.Warn("no canary left before the pause", "session_id", k.Session, "err", err)
	}
	if err := a.still(ctx); err != nil {
		return false, err
	}
	k, err = s.put(ctx, k, session.Pausing, func(r *session.Record) {
		r.Worker, r.Job, r.Deadline, r.Reason = s.cfg.Name, a.job, time.Now().UTC().Add(pauseLimit), reason
		r.Canary = nonce
	})
	if err != nil {
		return false, s.moved(err, k)
	}
	s.boxes.drop(k.Session)
	if err := s.pauseBox(ctx, k); err != nil {
		if errors.Is(err, e2b.ErrNotFound) {
			_, err = s.lose(ctx, k, "the sandbox was gone when it was to be paused")
			return false, s.moved(err, k)
		}
		return false, err // the record says pausing: the job comes back to it
	}
	if _, err = s.put(ctx, k, session.Paused, nil); err != nil {
		return false, s.moved(err, k)
	}
	s.quiet(ctx, k.Session)
	return true, nil
}

// moved turns errMoved into a wait, for jobs that do not loop over states.
func (s *sessions) moved(err error, k known) error {
	if errors.Is(err, errMoved) {
		return waitFor(jobs.ClassTransitioning, 0, "session %s has moved on", k.Session)
	}
	return err
}

// destroyNow ends the session's sandbox for good. A session that has none is
// done.
func (s *sessions) destroyNow(ctx context.Context, a *asker, reason string) error {
	k, err := s.read(ctx, a.session)
	for err == nil {
		if err := a.mine(k); err != nil {
			return err
		}
		switch k.State {
		case session.Destroyed:
			return nil
		case session.None:
			return notThere(a.session)
		case session.Provisioning, session.Resuming, session.Pausing, session.Destroying:
			if !s.takeOver(ctx, k, a) {
				k, err = s.await(ctx, k)
				break
			}
			k, err = s.destroy(ctx, k, a, reason)
		default:
			k, err = s.destroy(ctx, k, a, reason)
		}
		if errors.Is(err, errMoved) {
			k, err = s.reread(ctx, a.session)
		}
	}
	return err
}

// destroy kills what the session has. A creation that was never answered is
// looked for first, or it would be an orphan.
func (s *sessions) destroy(ctx context.Context, k known, a *asker, reason string) (known, error) {
	var copies []string
	if k.SandboxID == "" && k.Attempt != "" {
		found, err := s.search(ctx, k)
		if err != nil {
			return k, err
		}
		for _, one := range found {
			copies = append(copies, one.SandboxID)
		}
	}
	if err := a.still(ctx); err != nil {
		return k, err
	}
	k, err := s.put(ctx, k, session.Destroying, func(r *session.Record) {
		r.Worker, r.Job, r.Deadline, r.Reason = s.cfg.Name, a.job, time.Now().UTC().Add(destroyLimit), reason
	})
	if err != nil {
		return k, err
	}
	s.boxes.drop(k.Session)
	if k.SandboxID != "" {
		copies = append(copies, k.SandboxID)
	}
	for _, id := range copies {
		if err := s.kill(ctx, k, id); err != nil {
			return k, err
		}
	}
	k, err = s.put(ctx, k, session.Destroyed, nil)
	if err != nil {
		return k, err
	}
	s.quiet(ctx, k.Session)
	if err := s.view.ClearDeadline(ctx, store.Stale, k.Session); err != nil {
		s.log.Warn("stale deadline not cleared", "session_id", k.Session, "err", err)
	}
	return k, nil
}
