package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

// ailment says what about a session's record wants looking into; it is empty
// if nothing does. seen is E2B's whole list, nil if it could not be read.
func ailment(r session.Record, seen census, now time.Time) string {
	one, there := seen[r.SandboxID]
	switch {
	case r.State.Transitional():
		if now.After(r.Deadline) {
			return fmt.Sprintf("%s since before %s, and nobody has finished it", r.State, r.Deadline.Format(time.RFC3339))
		}
	case !r.State.HasSandbox():
	case seen != nil && !there:
		return "E2B's list does not show its sandbox"
	case r.State == session.Active && one.State == e2b.StatePaused:
		return "E2B has paused its sandbox"
	case r.State == session.Paused && one.State == e2b.StateRunning:
		return "its sandbox runs"
	case r.Ephemeral:
		return leftOver
	}
	return ""
}

// leftOver is the ailment of a session that ends with its job, which may have
// ended.
const leftOver = "its job has ended"

// repairOne puts one session right. It is read again first: the list of
// sessions follows with some delay, and somebody may have done it. done is
// empty if nothing was to be done.
func (r *round) repairOne(ctx context.Context, id string) (done string, err error) {
	s := r.Worker.sessions
	k, err := s.read(ctx, id)
	if err != nil || ailment(k.Record, r.seen, time.Now()) == "" {
		return "", err
	}
	a := &asker{session: id, job: "reconcile", owner: k.Owner, vouched: k.Owner}
	over := false
	if k.Ephemeral && !k.State.Transitional() {
		if over, err = r.over(ctx, id); err != nil {
			return "", err
		}
	}
	switch {
	case over:
		return r.tried(k, func() (known, error) { return s.destroy(ctx, k, a, leftOver) })
	case ailment(k.Record, r.seen, time.Now()) == leftOver:
		return "", nil
	case k.State == session.Destroying:
		return r.tried(k, func() (known, error) { return s.destroy(ctx, k, a, k.Reason) })
	case k.State == session.Provisioning:
		return r.tried(k, func() (known, error) { return r.finishProvision(ctx, k) })
	}
	return r.tried(k, func() (known, error) { return s.look(ctx, k) })
}

// tried does what puts a session right, unless nothing is to be changed, and
// says what came of it.
func (r *round) tried(k known, put func() (known, error)) (done string, err error) {
	if r.out.DryRun {
		return "would be put right", nil
	}
	next, err := put()
	switch {
	case errors.Is(err, errMoved):
		return "somebody else has moved it on", nil
	case err != nil:
		return "", err
	case next.State == k.State:
		return "", nil // E2B's word is the record's
	case next.Reason != "":
		return fmt.Sprintf("now %s: %s", next.State, next.Reason), nil
	}
	return fmt.Sprintf("now %s", next.State), nil
}

// over reports whether the job that a session was made for has ended, longer
// ago than its worker needs to clear up.
func (r *round) over(ctx context.Context, id string) (bool, error) {
	past, err := r.facts.History(ctx, events.Job{Session: id, ID: id})
	return err == nil && past.Ended() && time.Since(past.Outcome.Time) > r.cfg.OrphanGrace, err
}

// finishProvision takes over what came of an abandoned creation. If nothing did
// and its job lives, the job comes back to it; else it has failed.
func (r *round) finishProvision(ctx context.Context, k known) (known, error) {
	s := r.Worker.sessions
	sb, err := s.find(ctx, k)
	if err != nil {
		return k, err
	}
	if sb != nil {
		k.SandboxID = sb.SandboxID
		return s.activate(ctx, k, "adopted: its creation had been abandoned")
	}
	past, err := r.facts.History(ctx, events.Job{Session: k.Session, ID: k.Job})
	if err != nil || past.Claimed.OK() && !past.Ended() {
		return k, err
	}
	k, err = s.put(ctx, k, session.Error, func(rec *session.Record) { rec.Reason = "its creation was abandoned, and nothing came of it" })
	if err == nil {
		s.quiet(ctx, k.Session)
	}
	return k, err
}
