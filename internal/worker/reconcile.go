package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

const (
	// reconcileLease is how long a reconciliation may take without a sign of life
	// before another worker may begin one.
	reconcileLease = 2 * time.Minute
	// maxKills is how many sandboxes one reconciliation kills at most: should
	// everything else be wrong, somebody has the time to notice.
	maxKills = 5
)

// errReconciling says that another worker is at it.
var errReconciling = &query.Error{Code: query.CodeConflict, Description: "another worker reconciles just now: ask again in a moment"}

// reconcileOften compares E2B's sandboxes with the sessions every
// WORKER_RECONCILE_EVERY: one worker of the fleet does.
func (w *Worker) reconcileOften(ctx context.Context) {
	every := w.cfg.ReconcileEvery
	for sleep(ctx, jitter(every)) == nil {
		// Whoever has the turn keeps it; the lease ends when that worker does.
		_, ours, err := w.view.Lease(ctx, "reconcile-turn", w.cfg.Name, 2*every)
		if err == nil && ours {
			_, err = w.reconcile(ctx, query.ReconcileRequest{})
			w.sweepBucket(ctx)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errReconciling) {
			w.log.Warn("sandboxes and sessions not reconciled", "err", err)
		}
	}
}

// sweepBucket removes what unfinished objects have left in the bucket.
func (w *Worker) sweepBucket(ctx context.Context) {
	n, err := w.artifacts.sweep(ctx, w.cfg.ChunkAge)
	if n > 0 {
		w.log.Info("remains of unfinished objects removed", "objects", n)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("bucket not swept", "err", err)
	}
}

// round is one reconciliation.
type round struct {
	*Worker
	holder string
	seen   census // nil if E2B's list could not be read
	// ours are the marked sandboxes, by id.
	ours     map[string]mark
	ailing   []session.Record // sessions that want looking into
	sessions map[string]bool  // all that the sandboxes name
	out      query.ReconcileReply
}

// reconcile compares all that E2B has with all sessions, in both directions, and
// tells what it found. Sandboxes that no session knows are killed with care:
// see judge; a list or a record that cannot be read stops that, since what is
// unreadable is not missing. Sessions whose record is not what E2B says, or
// whose transition nobody has finished, are put right.
func (w *Worker) reconcile(ctx context.Context, req query.ReconcileRequest) (query.ReconcileReply, error) {
	r := &round{Worker: w, holder: w.cfg.Name + "/" + randomID(6), ours: map[string]mark{}, sessions: map[string]bool{}}
	begun := time.Now()
	r.out = query.ReconcileReply{
		Worker: w.cfg.Name, DryRun: req.DryRun, At: begun.UTC(), Complete: true,
		Counts: map[string]int{}, Sandboxes: []query.ReconciledSandbox{}, Sessions: []query.ReconciledSession{},
	}
	if err := r.hold(ctx); err != nil {
		return r.out, err
	}
	defer func() {
		if err := w.view.ReleaseLease(context.WithoutCancel(ctx), "reconcile", r.holder); err != nil {
			w.log.Warn("lease not released", "err", err)
		}
	}()
	r.readSandboxes(ctx)
	r.readSessions(ctx)
	if err := r.repair(ctx); err != nil {
		return r.out, err
	}
	if err := r.judgeAll(ctx); err != nil {
		return r.out, err
	}
	r.out.DurationMS = time.Since(begun).Milliseconds()
	w.log.Info("sandboxes and sessions reconciled", "dry_run", req.DryRun, "complete", r.out.Complete, "sandboxes", len(r.out.Sandboxes),
		"orphans", r.out.Counts[query.VerdictOrphan], "suspects", r.out.Counts[query.VerdictSuspect], "repaired", len(r.out.Sessions), "ms", r.out.DurationMS)
	return r.out, nil
}

// hold takes or keeps the right to do this.
func (r *round) hold(ctx context.Context) error {
	_, ok, err := r.view.Lease(ctx, "reconcile", r.holder, reconcileLease)
	if err == nil && !ok {
		err = errReconciling
	}
	return err
}

// incomplete notes what could not be read: nothing is killed then.
func (r *round) incomplete(what string, err error) {
	r.out.Complete = false
	r.out.Problems = append(r.out.Problems, what+": "+err.Error())
	r.log.Warn("reconciliation is incomplete: no sandbox will be killed", "what", what, "err", err)
}

// readSandboxes reads E2B's list. It comes before the sessions: a sandbox that
// is made meanwhile is not in it, and one that is in it has its intent on
// record.
func (r *round) readSandboxes(ctx context.Context) {
	seen, err := r.Worker.sessions.census(ctx)
	if err != nil {
		r.incomplete("E2B's sandboxes", err)
		return
	}
	r.seen = seen
	for id, one := range seen {
		if m, verdict, _ := readMark(r.cfg.Namespace, one.Metadata); verdict == "" {
			r.ours[id] = m
			r.sessions[m.session] = true
		}
	}
}

// readSessions picks the sessions that want looking into.
func (r *round) readSessions(ctx context.Context) {
	now := time.Now()
	for f, err := range r.facts.Sessions(ctx) {
		if err != nil {
			r.incomplete("sessions", err)
			return
		}
		if ailment(f.Value, r.seen, now) != "" {
			r.ailing = append(r.ailing, f.Value)
		}
	}
}

// repair puts the sessions right that want it.
func (r *round) repair(ctx context.Context) error {
	for _, rec := range r.ailing {
		if err := r.hold(ctx); err != nil {
			return err
		}
		one := query.ReconciledSession{Session: rec.Session, State: string(rec.State), Why: ailment(rec, r.seen, time.Now())}
		switch done, err := r.repairOne(ctx, rec.Session); {
		case err != nil:
			one.Done = "failed: " + err.Error()
			r.log.Warn("session not put right", "session_id", rec.Session, "err", err)
		case done == "":
			continue // it was only in time
		default:
			one.Done = done
		}
		r.out.Sessions = append(r.out.Sessions, one)
	}
	return nil
}

// judgeAll accounts for every sandbox.
func (r *round) judgeAll(ctx context.Context) error {
	cases := map[string]evidence{}
	var unowned []string
	for id, m := range r.ours {
		e := r.evidence(ctx, id, m)
		cases[id] = e
		if verdict, _ := judge(e); verdict == query.VerdictSuspect {
			unowned = append(unowned, id)
		}
	}
	sightings, err := r.sight(ctx, unowned)
	if err != nil {
		r.incomplete("earlier sightings", err)
	}
	kills := 0
	for _, one := range slices.SortedFunc(maps.Values(r.seen), func(a, b e2b.ListedSandbox) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.SandboxID, b.SandboxID))
	}) {
		e, ok := cases[one.SandboxID]
		e.seen = sightings[one.SandboxID]
		_, verdict, why := readMark(r.cfg.Namespace, one.Metadata)
		if ok {
			verdict, why = judge(e)
		}
		done := "left alone"
		if verdict == query.VerdictOrphan {
			if done, err = r.end(ctx, e, &kills); err != nil {
				return err
			}
		}
		r.out.Counts[verdict]++
		r.out.Sandboxes = append(r.out.Sandboxes, query.ReconciledSandbox{
			Sandbox: one.SandboxID, State: string(one.State), Verdict: verdict, Why: why, Done: done,
			Session: e.session, Generation: e.generation, StartedAt: one.StartedAt,
		})
	}
	slices.SortStableFunc(r.out.Sandboxes, func(a, b query.ReconciledSandbox) int { return cmp.Compare(weight(a.Verdict), weight(b.Verdict)) })
	return nil
}

// weight puts what people look for in front.
func weight(verdict string) int {
	return slices.Index([]string{
		query.VerdictOrphan, query.VerdictSuspect, query.VerdictUnreadable, query.VerdictNewer, query.VerdictUnclear,
		query.VerdictBusy, query.VerdictMaking, query.VerdictOwned, query.VerdictForeign, query.VerdictUnmarked,
	}, verdict)
}

// evidence gathers what is known of a sandbox of ours, from the leader: the
// list of sessions follows the events with some delay.
func (r *round) evidence(ctx context.Context, id string, m mark) evidence {
	e := evidence{mark: m, sandbox: id, startedAt: r.seen[id].StartedAt, grace: r.cfg.OrphanGrace, now: time.Now()}
	rec, _, err := r.facts.Session(ctx, m.session)
	if err != nil && (!errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrUnreadable)) {
		r.incomplete("session "+m.session, err)
		e.unread = true
		return e
	}
	e.record = rec
	if verdict, _ := judge(e); verdict == query.VerdictSuspect {
		if e.busy, err = r.busy(ctx, m.session, id); err != nil {
			r.incomplete("jobs of session "+m.session, err)
			e.unread = true
		}
	}
	return e
}

// busy reports whether a running job says that it works in a sandbox.
func (r *round) busy(ctx context.Context, id, sandbox string) (bool, error) {
	running, err := r.facts.Running(ctx, id)
	if err != nil {
		return false, err
	}
	for _, job := range running {
		past, err := r.facts.History(ctx, events.Job{Session: id, ID: job})
		if err != nil {
			return false, err
		}
		if s := past.Started; s.OK() && s.Value.SandboxID == sandbox && s.Value.Attempt == past.Claimed.Value.Attempt && !past.Ended() {
			return true, nil
		}
	}
	return false, nil
}

// sight notes the sandboxes without an owner. Half a list would make what is
// not in it forgotten, and a dry run changes nothing.
func (r *round) sight(ctx context.Context, unowned []string) (map[string]store.Sighting, error) {
	if r.out.DryRun || !r.out.Complete {
		return r.view.Sightings(ctx, unowned...)
	}
	return r.view.Sight(ctx, unowned...)
}

// end kills an orphan, unless this round may not. What was read a while ago is
// read again first.
func (r *round) end(ctx context.Context, e evidence, kills *int) (done string, err error) {
	switch {
	case !r.out.Complete:
		return "left alone: not everything could be read", nil
	case r.out.DryRun:
		return "would be killed", nil
	case *kills >= maxKills:
		return fmt.Sprintf("left for the next round: %d are enough for one", maxKills), nil
	}
	*kills++
	if err := r.hold(ctx); err != nil {
		return "", err
	}
	again := r.evidence(ctx, e.sandbox, e.mark)
	again.seen = e.seen
	if verdict, why := judge(again); verdict != query.VerdictOrphan {
		return "left alone: " + why, nil
	}
	r.log.Warn("killing a sandbox without a session", "sandbox_id", e.sandbox, "session_id", e.session, "generation", e.generation)
	whose := known{Record: session.Record{Session: e.session, Owner: e.record.Owner, Generation: e.generation, Job: "reconcile"}}
	if err := r.Worker.sessions.kill(ctx, whose, e.sandbox); err != nil {
		r.log.Warn("sandbox not killed", "sandbox_id", e.sandbox, "err", err)
		return "not killed: " + err.Error(), nil
	}
	r.m.orphans.Inc()
	return "killed", nil
}
