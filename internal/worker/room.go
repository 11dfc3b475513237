package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

const (
	// slotAge is after how long without a sign of life a slot's session is looked
	// at, slotBatch how many at a time.
	slotAge   = 2 * time.Minute
	slotBatch = 100
	// abandoned is how long after its deadline a transition that nobody has taken
	// over still counts as running.
	abandoned = 10 * time.Minute
	// roomCandidates is how many of the sessions whose idle time ends first are
	// looked at to find the least recently used.
	roomCandidates = 256
	// leavingFor is how long a session counts as leaving after its pause was asked
	// for.
	leavingFor = time.Minute
)

// tendSlots keeps the slots right and makes room for those in line, until ctx
// ends. Every worker does.
func (w *Worker) tendSlots(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := errors.Join(w.checkSlots(ctx), w.makeRoom(ctx)); err != nil && ctx.Err() == nil {
			w.log.Warn("slots not tended", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.sessions.tight:
			if sleep(ctx, 50*time.Millisecond) != nil { // for many who come at once
				return
			}
		}
	}
}

// checkSlots calls who has been given a slot and has not come, and takes back the
// slots of sessions that do not run: their worker died before it could.
func (w *Worker) checkSlots(ctx context.Context) error {
	calls, look, err := w.view.SweepSlots(ctx, slotAge, slotBatch)
	if err != nil {
		return err
	}
	w.callUp(calls)
	for _, id := range look {
		k, err := w.sessions.read(ctx, id)
		if err != nil {
			return err
		}
		if !runs(k.Record) {
			w.log.Info("slot of a session that does not run taken back", "session_id", id, "state", k.State)
			w.sessions.released(ctx, id)
		}
	}
	return nil
}

// runs reports whether a session takes a slot. A transition that was abandoned
// long ago does not.
func runs(r session.Record) bool {
	return r.State.Running() && (!r.State.Transitional() || time.Since(r.Deadline) < abandoned)
}

// idleSession is one that could make room.
type idleSession struct {
	session.Record
	seq    uint64
	due    time.Time
	usedAt time.Time
}

// makeRoom has as many idle sandboxes paused early as are needed for those in
// line: the least recently used first, never one in which something runs or waits,
// and never one that would lose its disk.
func (w *Worker) makeRoom(ctx context.Context) error {
	wants, err := w.view.SlotWants(ctx)
	if err != nil || wants.Any+len(wants.Of) == 0 {
		return err
	}
	idle, err := w.leastUsed(ctx)
	if err != nil {
		return err
	}
	for _, one := range idle {
		ofOwner := wants.Of[one.Owner] > 0
		if !ofOwner && wants.Any == 0 {
			continue
		}
		asked, err := w.askToLeave(ctx, one)
		if err != nil {
			return err
		}
		switch {
		case !asked:
		case ofOwner:
			wants.Of[one.Owner]--
		default:
			wants.Any--
		}
	}
	return nil
}

// leastUsed lists sessions that are active, the longest unused first.
func (w *Worker) leastUsed(ctx context.Context) ([]idleSession, error) {
	next, err := w.view.Next(ctx, store.Idle, roomCandidates)
	if err != nil {
		return nil, err
	}
	var out []idleSession
	for _, d := range next {
		rec, seq, err := w.view.Session(ctx, d.Session)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if rec.State == session.Active && !rec.Ephemeral {
			out = append(out, idleSession{rec, seq, d.DueAt, d.DueAt.Add(-w.sessions.idle(rec))})
		}
	}
	slices.SortStableFunc(out, func(a, b idleSession) int { return a.usedAt.Compare(b.usedAt) })
	return out, nil
}

// askToLeave publishes the pause of an idle session. The pause job looks again
// when its turn comes: whether the session was used since, and whether anybody
// still needs the room.
func (w *Worker) askToLeave(ctx context.Context, one idleSession) (asked bool, _ error) {
	running, queued, err := w.view.Busy(ctx, one.Session)
	if err != nil || len(running)+queued > 0 {
		return false, err
	}
	if ok, err := w.view.MarkLeaving(ctx, one.Session, leavingFor); err != nil || !ok {
		return false, err
	}
	w.log.Info("idle session is paused to make room", "session_id", one.Session, "unused_since", one.usedAt)
	due := strconv.FormatInt(one.due.UnixMilli(), 10)
	return true, w.ask(ctx, jobs.SandboxPause, &jobs.Lifecycle{
		Common: jobs.Common{
			ID:      fmt.Sprintf("room-%d-%s", one.seq, due),
			Session: one.Session, Owner: one.Owner, Labels: map[string]string{IdleLabel: "true", RoomLabel: due},
			Exclusive: unguarded(),
		},
		Reason: "idle, and its room is needed",
	}, jobs.PublishOptions{Owner: one.Owner, Priority: jobs.High})
}

// RoomLabel marks, beside IdleLabel, the pause of a session whose idle time is not
// over and whose room is needed. Its value is the session's idle deadline, in ms,
// when the pause was asked for: it is later once the session has been used.
const RoomLabel = "sandjet.room"

// roomFor reads RoomLabel. The zero time is none.
func roomFor(labels map[string]string) time.Time {
	ms, err := strconv.ParseInt(labels[RoomLabel], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// needed reports whether anybody stands in line. A pause that has begun is made in any
// case: nobody else brings it to its end before its deadline.
func (s *sessions) needed(ctx context.Context, a *asker) (bool, error) {
	use, err := s.view.Slots(ctx)
	if err != nil || use.Waiting > 0 {
		return true, err
	}
	k, err := s.read(ctx, a.session)
	return k.State == session.Pausing && k.Job == a.job, err
}

// stays says that a session is not being paused after all.
func (s *sessions) stays(ctx context.Context, id string) {
	if err := s.view.UnmarkLeaving(ctx, id); err != nil {
		s.log.Warn("leaving mark not removed", "session_id", id, "err", err)
	}
}
