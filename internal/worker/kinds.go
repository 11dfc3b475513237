package worker

import (
	"context"
	"maps"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
)

// begin tells that a job without a command starts.
func (h *hold) beginPlain() error {
	if h.startedBefore() {
		return nil
	}
	return h.started(events.Started{})
}

// provision makes the session, or adopts the one there is. What it asks for
// anew of an existing session is written into its record.
func (h *hold) provision(ctx context.Context) (events.Outcome, error) {
	p := h.d.Payload.(*jobs.Provision)
	if err := h.beginPlain(); err != nil {
		return events.Outcome{}, err
	}
	ctx, cancel := h.untilCancelled(ctx)
	defer cancel()
	if _, err := h.reveal(p.Secrets); err != nil {
		return events.Outcome{}, err
	}
	h.ask.spec, h.ask.labels = p, h.d.Labels
	k, _, err := h.w.sessions.ready(ctx, &h.ask)
	if err != nil {
		return events.Outcome{}, contextCause(ctx, err)
	}
	if k, err = h.w.sessions.amend(ctx, k, p); err != nil {
		return events.Outcome{}, err
	}
	h.attach(k, nil)
	return events.Outcome{Class: string(jobs.ClassOK), SandboxID: k.SandboxID}, nil
}

// amend changes what a provision job may change of a session that was there.
func (s *sessions) amend(ctx context.Context, k known, p *jobs.Provision) (known, error) {
	idle, age := k.IdleTimeout, k.MaxAge
	if p.IdleTimeout != 0 {
		idle = p.IdleTimeout
	}
	if p.MaxAge != 0 {
		age = p.MaxAge
	}
	secrets := k.Secrets
	if p.Secrets != nil {
		secrets = p.Secrets
	}
	if idle == k.IdleTimeout && age == k.MaxAge && maps.Equal(secrets, k.Secrets) {
		return k, nil
	}
	next, err := s.put(ctx, k, k.State, func(r *session.Record) {
		r.IdleTimeout, r.MaxAge, r.Secrets = idle, age, secrets
		r.StaleAt = r.CreatedAt.Add(s.age(*r))
		r.Reason = "settings changed"
	})
	if err != nil {
		return k, s.moved(err, k)
	}
	s.clocks(ctx, next.Record)
	return next, nil
}

func (h *hold) resume(ctx context.Context) (events.Outcome, error) {
	if err := h.beginPlain(); err != nil {
		return events.Outcome{}, err
	}
	ctx, cancel := h.untilCancelled(ctx)
	defer cancel()
	k, err := h.w.sessions.existing(ctx, &h.ask)
	if err != nil {
		return events.Outcome{}, contextCause(ctx, err)
	}
	h.ask.view = &k
	k, _, err = h.w.sessions.ready(ctx, &h.ask)
	if err != nil {
		return events.Outcome{}, contextCause(ctx, err)
	}
	h.attach(k, nil)
	return events.Outcome{Class: string(jobs.ClassOK), SandboxID: k.SandboxID}, nil
}

// existing returns a session that has a sandbox. A resume makes no new one.
func (s *sessions) existing(ctx context.Context, a *asker) (known, error) {
	k, err := s.read(ctx, a.session)
	if err != nil {
		return k, err
	}
	if err := a.mine(k); err != nil {
		return k, err
	}
	switch {
	case k.State == session.None:
		return k, notThere(a.session)
	case !k.State.HasSandbox() && k.State != session.Provisioning:
		return k, faultf(jobs.ClassNotFound, "session %s has no sandbox to resume: it is %s", a.session, k.State)
	}
	return k, nil
}

// IdleLabel marks the pause jobs that the workers themselves publish: they
// pause only a session that is idle when their turn comes.
const IdleLabel = "sandjet.idle"

func (h *hold) pause(ctx context.Context) (events.Outcome, error) {
	if err := h.beginPlain(); err != nil {
		return events.Outcome{}, err
	}
	p := h.d.Payload.(*jobs.Lifecycle)
	_, idle := h.d.Labels[IdleLabel]
	h.ask.room = roomFor(h.d.Labels)
	if !h.ask.room.IsZero() {
		k, err := h.w.sessions.read(ctx, h.d.Session)
		if err != nil {
			return events.Outcome{}, err
		}
		if h.ask.mine(k) == nil {
			defer h.w.sessions.stays(context.WithoutCancel(ctx), h.d.Session)
		}
		if needed, err := h.w.sessions.needed(ctx, &h.ask); err != nil || !needed {
			return events.Outcome{Class: string(jobs.ClassOK), Reason: "nobody needs its room any more"}, err
		}
	}
	slept, err := h.w.sessions.pause(ctx, &h.ask, h.entry, idle, p.Reason)
	if err != nil {
		return events.Outcome{}, err
	}
	out := events.Outcome{Class: string(jobs.ClassOK)}
	if !slept {
		out.Reason = "not idle any more"
	}
	return out, nil
}

func (h *hold) destroy(ctx context.Context) (events.Outcome, error) {
	if err := h.beginPlain(); err != nil {
		return events.Outcome{}, err
	}
	p := h.d.Payload.(*jobs.Lifecycle)
	reason := p.Reason
	if reason == "" {
		reason = "destroyed by job " + h.d.ID
	}
	if err := h.w.sessions.destroyNow(ctx, &h.ask, reason); err != nil {
		return events.Outcome{}, err
	}
	return events.Outcome{Class: string(jobs.ClassOK)}, nil
}

// contextCause returns why ctx ended if it did, else err.
func contextCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
		return cause
	}
	return err
}
