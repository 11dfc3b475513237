package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

// Metadata keys that mark a sandbox as ours. They are how a sandbox is found
// when E2B's answer to its creation got lost.
const (
	metaNamespace  = "sandjet-namespace"
	metaSession    = "sandjet-session"
	metaGeneration = "sandjet-generation"
	metaAttempt    = "sandjet-attempt"
	metaOwner      = "sandjet-owner"
)

// provision makes a sandbox for the session in two phases: the intent with a
// fresh attempt id, then the creation, then the outcome. Called on an intent
// that is there already, it first looks for what became of it.
func (s *sessions) provision(ctx context.Context, k known, a *asker) (known, error) {
	begun := time.Now()
	resumed := k.State == session.Provisioning
	next, err := s.intent(k, a)
	if err != nil {
		return k, err
	}
	if err := s.takeSlot(ctx, k, a); err != nil {
		return k, err
	}
	if err := a.still(ctx); err != nil {
		return k, err
	}
	k, err = s.put(ctx, k, session.Provisioning, next)
	if err != nil {
		return k, err
	}
	ctx, done := s.finishing(ctx)
	defer done()
	sb, err := s.make(ctx, k, resumed)
	if err != nil {
		return s.unmade(ctx, k, a, err)
	}
	k.SandboxID = sb.SandboxID
	k, err = s.activate(ctx, k, "")
	if errors.Is(err, errMoved) {
		s.disown(ctx, k, sb.SandboxID)
	}
	if err != nil {
		return k, err
	}
	s.newBox(k, sb.Ref(), time.Now().Add(s.life(k.Record)))
	s.m.provisioned(time.Since(begun))
	return k, nil
}

// finishing returns a context for a creation and its record: a worker that stops in
// good order waits for E2B's answer, within its time for that, rather than leave a
// sandbox behind that it has asked for and nobody knows. Any other end of ctx ends it
// at once.
func (s *sessions) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	going, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if !errors.Is(cause, errStopping) {
			cancel(cause)
			return
		}
		// Half of the time: the job's last words come after.
		_ = sleep(going, s.cfg.DrainTimeout/2)
		cancel(cause)
	})
	return going, func() { stop(); cancel(nil) }
}

// disown deals with a sandbox whose session somebody else has moved on while it was
// being made. It carries the attempt that they look for: once they have decided,
// it is theirs, or nobody's, and is killed.
func (s *sessions) disown(ctx context.Context, k known, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	now, err := s.read(ctx, k.Session)
	for err == nil && now.State == session.Provisioning && now.Attempt == k.Attempt {
		now.Record, now.seq, err = s.facts.WatchSession(ctx, k.Session, now.seq)
	}
	if err == nil && now.SandboxID != id {
		s.log.Warn("killing a sandbox that came too late", "session_id", k.Session, "sandbox_id", id)
		err = s.kill(ctx, k, id)
	}
	if err != nil {
		s.log.Warn("sandbox left to the reconciliation", "session_id", k.Session, "sandbox_id", id, "err", err)
	}
}

// intent is the record that says what is about to be created. What the policy does
// not allow is not created.
func (s *sessions) intent(k known, a *asker) (func(*session.Record), error) {
	change := s.intended(k, a)
	if k.State == session.Provisioning {
		return change, nil // the same intent, in other hands
	}
	wanted := k.Record
	change(&wanted)
	if err := s.rules.fence(&wanted, a.vouched, a.kind, s.idle(wanted), s.age(wanted)); err != nil {
		return nil, err
	}
	return func(r *session.Record) { change(r); r.Network = wanted.Network }, nil
}

func (s *sessions) intended(k known, a *asker) func(*session.Record) {
	return func(r *session.Record) {
		now := time.Now().UTC()
		r.Worker, r.Job, r.Deadline = s.cfg.Name, a.job, now.Add(provisionLimit)
		r.Reason = ""
		if k.State == session.Provisioning {
			return
		}
		if k.State == session.None || k.State == session.Destroyed {
			*r = session.Record{
				Session: k.Session, State: session.Provisioning, Generation: k.Generation,
				Owner: a.owner, OwnerProven: a.vouched != "", Ephemeral: a.ephemeral, Template: s.cfg.Template,
				Worker: r.Worker, Job: r.Job, Deadline: r.Deadline, UpdatedAt: r.UpdatedAt,
			}
			s.shape(r, a)
		}
		r.CreatedAt = now
		r.StaleAt = now.Add(s.age(*r))
		r.Generation++
		r.SandboxID, r.Canary, r.PausedAt = "", "", time.Time{}
		r.Attempt = randomID(20)
	}
}

// shape gives a new session what its provision job asks for.
func (s *sessions) shape(r *session.Record, a *asker) {
	r.Labels = a.labels
	r.IdleTimeout, r.MaxAge = wire.Duration(s.cfg.IdleTimeout), wire.Duration(s.cfg.MaxAge)
	p := a.spec
	if p == nil {
		return
	}
	if p.Template != "" {
		r.Template = p.Template
	}
	if p.IdleTimeout != 0 {
		r.IdleTimeout = p.IdleTimeout
	}
	if p.MaxAge != 0 {
		r.MaxAge = p.MaxAge
	}
	r.Metadata, r.Env, r.Secrets, r.Network, r.Ephemeral = p.Metadata, p.Env, p.Secrets, p.Network, p.Ephemeral
}

// make creates the sandbox of an intent, once. searchFirst is for an intent
// that somebody had before: its sandbox may be there.
func (s *sessions) make(ctx context.Context, k known, searchFirst bool) (*e2b.Sandbox, error) {
	if searchFirst {
		if sb, err := s.find(ctx, k); err != nil || sb != nil {
			return sb, err
		}
	}
	if err := s.takeRate(ctx, routeCreate); err != nil {
		return nil, err
	}
	sb, err := s.create(ctx, k)
	if err == nil || !errors.Is(err, e2b.ErrUnknown) {
		return sb, err
	}
	// The answer is lost, not necessarily the sandbox. It may take a moment to
	// show up in E2B's list.
	s.log.Warn("answer to a sandbox creation lost", "session_id", k.Session, "attempt_id", k.Attempt, "err", err)
	for _, pause := range []time.Duration{0, 250 * time.Millisecond, time.Second, 2 * time.Second} {
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
		found, findErr := s.find(ctx, k)
		if findErr != nil {
			return nil, errors.Join(err, findErr)
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, err
}

// find looks for sandboxes of this intent, adopts the first and kills the
// others: they are copies that a lost answer left behind.
func (s *sessions) find(ctx context.Context, k known) (*e2b.Sandbox, error) {
	if point.Off(point.Adopt) {
		return nil, nil
	}
	copies, err := s.search(ctx, k)
	if err != nil {
		return nil, err
	}
	var found *e2b.Sandbox
	for _, one := range copies {
		if found != nil {
			s.log.Warn("killing a second sandbox of one attempt", "session_id", k.Session, "sandbox_id", one.SandboxID)
			if err := s.kill(ctx, k, one.SandboxID); err != nil {
				s.log.Warn("second sandbox not killed", "sandbox_id", one.SandboxID, "err", err)
			}
			continue
		}
		sb, err := s.connect(ctx, k, one.SandboxID)
		if err != nil {
			return nil, fmt.Errorf("adopt sandbox %s: %w", one.SandboxID, err)
		}
		s.log.Info("sandbox adopted", "session_id", k.Session, "sandbox_id", one.SandboxID)
		found = sb
	}
	return found, nil
}

// search lists the sandboxes of an intent, the oldest first.
func (s *sessions) search(ctx context.Context, k known) (found []e2b.ListedSandbox, err error) {
	query := e2b.ListQuery{Metadata: map[string]string{metaSession: k.Session, metaAttempt: k.Attempt}, Order: e2b.OldestFirst}
	for one, err := range s.e2b.List(ctx, query) {
		if err != nil {
			return nil, fmt.Errorf("look for the sandbox of attempt %s: %w", k.Attempt, err)
		}
		found = append(found, one)
	}
	return found, nil
}

func (s *sessions) request(r session.Record) e2b.CreateRequest {
	meta := map[string]string{}
	for k, v := range r.Metadata {
		meta[k] = v
	}
	meta[metaNamespace] = string(s.cfg.Namespace)
	meta[metaSession] = r.Session
	meta[metaGeneration] = strconv.Itoa(r.Generation)
	meta[metaAttempt] = r.Attempt
	if r.Owner != "" {
		meta[metaOwner] = r.Owner
	}
	req := e2b.CreateRequest{
		TemplateID: r.Template,
		Timeout:    int(s.life(r).Seconds()),
		AutoPause:  !r.Ephemeral, // E2B's default at its timeout is to kill, disk and all
		Metadata:   meta,
		EnvVars:    r.Env,
	}
	if n := r.Network; n != nil {
		req.AllowInternet = n.AllowInternet
		if len(n.AllowOut)+len(n.DenyOut) > 0 {
			req.Network = &e2b.Network{AllowOut: n.AllowOut, DenyOut: n.DenyOut}
		}
	}
	return req
}

// unmade decides what a failed creation leaves. What may pass stays as an
// intent, for the job to come back to; what will not is recorded.
func (s *sessions) unmade(ctx context.Context, k known, a *asker, cause error) (known, error) {
	v := classify(cause)
	switch {
	case errors.Is(cause, e2b.ErrQuota):
		s.turnedAway(ctx, k, a)
	case errors.Is(cause, e2b.ErrRateLimited):
		s.slowDown(ctx, routeCreate, v.after)
	}
	if !jobs.Decide(v.class, 1, 1, false).Fate.Terminal() || ctx.Err() != nil {
		return k, cause
	}
	next, err := s.put(ctx, k, session.Error, func(r *session.Record) { r.Reason = v.reason })
	if err != nil && !errors.Is(err, errMoved) {
		return k, errors.Join(cause, err)
	}
	s.quiet(ctx, k.Session)
	if errors.Is(cause, e2b.ErrNotFound) {
		cause = &fault{class: jobs.ClassNotFound, reason: fmt.Sprintf("template %q", k.Template), err: cause}
	}
	return next, cause
}

// E2B's rate limits are by route.
const (
	routeCreate = "create"
	routeResume = "resume"
)

// takeRate takes a place in the fleet's rate of creations and resumes, and behind
// a rest that E2B has asked for on the route.
func (s *sessions) takeRate(ctx context.Context, route string) error {
	wait, err := s.view.TakeRate(ctx, "create", route, s.cfg.CreateRate, max(1, int(s.cfg.CreateRate)))
	if err != nil {
		return fmt.Errorf("take a place in the creation rate: %w", err)
	}
	if wait == 0 {
		return nil
	}
	if s.cfg.CreateRate == 0 {
		return waitFor(jobs.ClassRate, wait, "E2B asks for a rest on %s", route)
	}
	return waitFor(jobs.ClassRate, wait, "the rate of %g sandboxes a second is used up, or E2B asks for a rest on %s", s.cfg.CreateRate, route)
}

// slowDown keeps the whole fleet from a route for as long as E2B asks.
func (s *sessions) slowDown(ctx context.Context, route string, d time.Duration) {
	s.m.slowedDown.Inc()
	if err := s.view.PauseRate(ctx, route, d); err != nil {
		s.log.Warn("rate limit not noted", "route", route, "err", err)
	}
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
