package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

// How long a transition may take before anybody may take it over. Written into
// the record before the call that it guards.
const (
	provisionLimit = 2 * time.Minute
	resumeLimit    = 2 * time.Minute
	pauseLimit     = 3 * time.Minute
	destroyLimit   = time.Minute
)

// backstop is by how much E2B's own timeout exceeds the idle timeout: it only
// acts when no worker does.
const backstop = 5 * time.Minute

// sessions moves sessions through their states. The truth is the session.state
// event; every write is a compare-and-set on it, so two workers that want the
// same thing find out. Redis gets a copy.
type sessions struct {
	cfg   Config
	log   *slog.Logger
	facts *events.Log
	view  *store.Store
	e2b   *e2b.Client
	boxes *boxes
	m     *metrics

	rules  policies
	books  *books
	brakes *breakers
	call   func([]store.SlotCall) // wakes who was in line and has a slot
	tight  chan struct{}          // somebody has found no slot
}

// known is a record and the stream sequence it stands at.
type known struct {
	session.Record
	seq uint64
}

// asker is the job for which a session is moved.
type asker struct {
	session string
	job     string
	origin  uint64
	owner   string
	spec    *jobs.Provision // what a new session is to be like; nil for defaults
	vouched string          // the owner, if the job's subject names him
	strange bool            // the session has turned out to be somebody else's
	kind    jobs.Kind
	// ephemeral makes a new session one that ends with this job.
	ephemeral bool
	labels    map[string]string
	// line is where it stands in line for a slot; zero while it does not.
	line store.SlotAsk
	// room is the idle deadline of a session that is paused to make room.
	room time.Time
	// view is what the Redis view said when the job entered its lane.
	view *known
	// holds returns an error if the job is in other hands by now; nil for askers
	// without a job. It is asked between the read of a record and the write of an
	// intent: a worker that was frozen before finds out here, and one that is
	// frozen after it by the record's sequence.
	holds func(context.Context) error
}

// still asks whether the session is still the asker's to move.
func (a *asker) still(ctx context.Context) error {
	if a.holds == nil {
		return nil
	}
	return a.holds(ctx)
}

// current returns the session's record: from what the asker has seen already,
// else from the stream. A session that never was has the zero record.
func (s *sessions) current(ctx context.Context, a *asker) (known, error) {
	if a.view != nil {
		k := *a.view
		a.view = nil
		return k, nil
	}
	return s.read(ctx, a.session)
}

// read returns the record as the stream's leader has it.
func (s *sessions) read(ctx context.Context, id string) (known, error) {
	rec, seq, err := s.facts.Session(ctx, id)
	if errors.Is(err, events.ErrNotFound) {
		return known{Record: session.Record{Session: id}, seq: seq}, nil
	}
	if err != nil {
		return known{}, fmt.Errorf("read session %s: %w", id, err)
	}
	return known{rec, seq}, nil
}

// reread is read for whoever found that the view, or what he knew, is behind: a
// worker may have died between the record and its copy. The copy is made good, and
// the clocks of an active session with it.
func (s *sessions) reread(ctx context.Context, id string) (known, error) {
	k, err := s.read(ctx, id)
	if err != nil || k.State == session.None {
		return k, err
	}
	if err := s.view.PutSession(ctx, k.Record, k.seq); err != nil {
		s.log.Warn("session view not written", "session_id", id, "err", err)
	} else if k.State == session.Active {
		s.clocks(ctx, k.Record)
	}
	return k, nil
}

// errMoved says that somebody else wrote the session first: read it again.
var errMoved = errors.New("session has moved on")

// put writes the session's next state. errMoved means that it is not ours to
// write any more.
func (s *sessions) put(ctx context.Context, k known, to session.State, change func(*session.Record)) (known, error) {
	next, err := k.Record.To(to)
	if err != nil {
		return k, err
	}
	next.UpdatedAt = time.Now().UTC()
	if !to.Transitional() {
		next.Deadline, next.Attempt, next.Worker = time.Time{}, "", ""
	}
	if to != session.Active {
		next.IdleAt = time.Time{}
	}
	if to == session.Paused {
		next.PausedAt = next.UpdatedAt
	}
	if change != nil {
		change(&next)
	}
	seq, err := s.facts.PutSession(ctx, next, k.seq)
	if errors.Is(err, events.ErrStale) {
		return k, errMoved
	}
	if err != nil {
		return k, fmt.Errorf("write session %s as %s: %w", k.Session, to, err)
	}
	s.log.Info("session changed", "session_id", next.Session, "from", k.State, "state", to,
		"sandbox_id", next.SandboxID, "generation", next.Generation, "job_id", next.Job, "reason", next.Reason)
	// The view is a copy: whoever finds it stale loses a compare-and-set and
	// reads again.
	if err := s.view.PutSession(ctx, next, seq); err != nil {
		s.log.Warn("session view not written", "session_id", next.Session, "err", err)
	}
	return known{next, seq}, nil
}

// mine refuses a stranger. To one, the session is not there: he is told the same. An
// owner that was proven when the session was made must be proven again.
func (a *asker) mine(k known) error {
	who := a.owner
	if k.OwnerProven {
		who = a.vouched
	}
	if !a.strange && (k.State == session.None || k.Owner == "" || k.Owner == who) {
		return nil
	}
	return notThere(k.Session)
}

// notThere is the refusal of a session that is not there, or not for who asks.
func notThere(id string) error { return faultf(jobs.ClassNotFound, "session %s is not found", id) }

// ready returns an active session and its open sandbox, making or waking it
// when needed. A session that turns out to have lost its sandbox is not given
// another one in the same breath: the loss is on record and an error of this
// attempt, and the next one begins anew.
func (s *sessions) ready(ctx context.Context, a *asker) (known, *box, error) {
	k, err := s.current(ctx, a)
	for err == nil {
		if err := a.mine(k); err != nil {
			return k, nil, err
		}
		was := k
		if k.State == session.Active {
			b, openErr := s.open(ctx, k)
			if openErr == nil {
				return k, b, nil
			}
			k, err = s.ask(ctx, k, openErr)
		} else {
			k, err = s.step(ctx, k, a)
		}
		if errors.Is(err, errMoved) {
			// The view was behind. A loss that others have found is not this attempt's.
			if k, err = s.reread(ctx, a.session); err == nil {
				was = k
			}
		}
		if err == nil && k.State == session.Lost && was.State != session.Lost {
			return k, nil, faultf(jobs.ClassSandboxLost, "session %s has lost sandbox %s: %s", k.Session, k.SandboxID, k.Reason)
		}
	}
	return k, nil, err
}

// step takes a session that is not active one step nearer to it.
func (s *sessions) step(ctx context.Context, k known, a *asker) (known, error) {
	switch k.State {
	case session.Provisioning:
		if !s.takeOver(ctx, k, a) {
			return s.await(ctx, k)
		}
		return s.provision(ctx, k, a)
	case session.Resuming:
		if !s.takeOver(ctx, k, a) {
			return s.await(ctx, k)
		}
		return s.resume(ctx, k, a)
	case session.Paused:
		return s.resume(ctx, k, a)
	case session.Pausing:
		if !s.takeOver(ctx, k, a) {
			return s.await(ctx, k)
		}
		return s.look(ctx, k)
	case session.Destroying:
		if !s.takeOver(ctx, k, a) {
			return s.await(ctx, k)
		}
		return s.destroy(ctx, k, a, k.Reason)
	}
	return s.provision(ctx, k, a) // none, destroyed, lost, error
}

// takeOver reports whether a transition is the asker's to finish: its own, from
// a worker before this one, or abandoned.
func (s *sessions) takeOver(ctx context.Context, k known, a *asker) bool {
	return k.Job == a.job || time.Now().After(k.Deadline) || s.letGo(ctx, k.Session, k.Job)
}

// letGo reports whether a job finishes nothing that it has begun with the session: it has
// ended, as one that was cancelled while it waited for E2B, or it waits in the lane,
// maybe behind the very job that asks.
func (s *sessions) letGo(ctx context.Context, id, job string) bool {
	if waits, err := s.view.Waits(ctx, id, job); err == nil && waits {
		return true
	}
	past, err := s.facts.History(ctx, events.Job{Session: id, ID: job})
	return err == nil && past.Ended()
}

// patience is how long a job waits in place for somebody else's transition.
const patience = 20 * time.Second

// await waits until somebody else's transition is over.
func (s *sessions) await(ctx context.Context, k known) (known, error) {
	wait := min(time.Until(k.Deadline)+100*time.Millisecond, patience)
	short, cancel := context.WithTimeout(ctx, max(wait, 0))
	defer cancel()
	rec, _, err := s.facts.WatchSession(short, k.Session, k.seq)
	switch {
	case err == nil:
		return s.reread(ctx, rec.Session)
	case ctx.Err() != nil:
		return k, context.Cause(ctx)
	case short.Err() != nil && time.Now().After(k.Deadline):
		return k, nil // abandoned: the next step takes it over
	case short.Err() != nil:
		return k, waitFor(jobs.ClassTransitioning, time.Second, "session %s is %s, by job %s", k.Session, k.State, k.Job)
	}
	return k, fmt.Errorf("await session %s: %w", k.Session, err)
}

// open returns the active session's sandbox, from the cache or by asking E2B
// for its access token.
func (s *sessions) open(ctx context.Context, k known) (*box, error) {
	if b := s.boxes.of(k.Session, k.Generation, k.SandboxID); b != nil {
		return b, nil
	}
	d, err := s.e2b.Get(ctx, k.SandboxID)
	if err != nil {
		return nil, err
	}
	if d.State != e2b.StateRunning {
		return nil, &e2b.Error{Op: "get", Sandbox: k.SandboxID, Kind: e2b.ErrSandboxGone, Message: "the sandbox is " + string(d.State)}
	}
	return s.newBox(k, d.Ref(), d.EndAt), nil
}

func (s *sessions) newBox(k known, ref e2b.Ref, until time.Time) *box {
	b := &box{Box: s.e2b.Open(ref), generation: k.Generation, until: until}
	s.boxes.put(k.Session, b)
	return b
}

// ask deals with an active session whose sandbox does not answer: the control plane
// knows whether it runs, sleeps or is gone. Any other trouble is returned as it is.
func (s *sessions) ask(ctx context.Context, k known, cause error) (known, error) {
	if !errors.Is(cause, e2b.ErrSandboxGone) && !errors.Is(cause, e2b.ErrNotFound) {
		return k, cause
	}
	s.boxes.drop(k.Session)
	return s.look(ctx, k)
}

// astray is ask for who takes the session as it is then, whoever has moved it.
func (s *sessions) astray(ctx context.Context, k known, cause error) (known, error) {
	next, err := s.ask(ctx, k, cause)
	if errors.Is(err, errMoved) {
		return s.reread(ctx, k.Session)
	}
	return next, err
}

// look asks E2B what became of the session's sandbox and writes it down.
func (s *sessions) look(ctx context.Context, k known) (known, error) {
	d, err := s.e2b.Get(ctx, k.SandboxID)
	switch {
	case errors.Is(err, e2b.ErrNotFound):
		return s.lose(ctx, k, "E2B does not know the sandbox any more")
	case err != nil:
		return k, err
	case d.State == e2b.StatePaused:
		k, err := s.put(ctx, k, session.Paused, func(r *session.Record) { r.Reason = "paused by E2B's own timeout" })
		if err == nil {
			s.quiet(ctx, k.Session)
		}
		return k, err
	case k.State == session.Active:
		return k, nil
	}
	return s.welcome(ctx, k, s.e2b.Open(d.Ref()), "the sandbox runs")
}

// lose records that the sandbox is gone.
func (s *sessions) lose(ctx context.Context, k known, reason string) (known, error) {
	s.boxes.drop(k.Session)
	k, err := s.put(ctx, k, session.Lost, func(r *session.Record) { r.Reason = reason })
	if err == nil {
		s.quiet(ctx, k.Session)
	}
	return k, err
}

// quiet gives back what a running sandbox holds in Redis.
func (s *sessions) quiet(ctx context.Context, id string) {
	s.released(ctx, id)
	for _, kind := range []store.Deadline{store.Idle, store.Watch} {
		if err := s.view.ClearDeadline(ctx, kind, id); err != nil {
			s.log.Warn("deadline not cleared", "kind", kind, "session_id", id, "err", err)
		}
	}
}

// activate records that the sandbox runs, and starts the clocks.
func (s *sessions) activate(ctx context.Context, k known, reason string) (known, error) {
	idle, age := s.idle(k.Record), s.age(k.Record)
	k, err := s.put(ctx, k, session.Active, func(r *session.Record) {
		now := time.Now().UTC()
		r.Reason, r.Canary = reason, ""
		r.IdleAt = now.Add(idle)
		if r.StaleAt.IsZero() {
			r.StaleAt = r.CreatedAt.Add(age)
		}
	})
	if err != nil {
		return k, err
	}
	s.clocks(ctx, k.Record)
	return k, nil
}

// clocks sets the session's deadlines in Redis, and sees to it that what runs
// counts.
func (s *sessions) clocks(ctx context.Context, r session.Record) {
	if err := s.view.KeepSlots(ctx, store.SlotOf{Session: r.Session, Owner: r.Owner}); err != nil {
		s.log.Warn("slot not kept", "session_id", r.Session, "err", err)
	}
	if err := s.view.SetDeadline(ctx, store.Idle, r.Session, s.idle(r)); err != nil {
		s.log.Warn("idle deadline not set", "session_id", r.Session, "err", err)
	}
	if err := s.view.SetDeadline(ctx, store.Watch, r.Session, s.cfg.WatchEvery); err != nil {
		s.log.Warn("watch not set", "session_id", r.Session, "err", err)
	}
	if err := s.view.SetDeadline(ctx, store.Stale, r.Session, time.Until(r.StaleAt)); err != nil {
		s.log.Warn("stale deadline not set", "session_id", r.Session, "err", err)
	}
}

func (s *sessions) idle(r session.Record) time.Duration { return r.IdleTimeout.Or(s.cfg.IdleTimeout) }
func (s *sessions) age(r session.Record) time.Duration  { return r.MaxAge.Or(s.cfg.MaxAge) }

// life is E2B's own timeout for a session's sandbox.
func (s *sessions) life(r session.Record) time.Duration { return s.idle(r) + backstop }

// short reports whether E2B's own end comes too near to the session's idle end,
// and nobody is pushing it away yet.
func (s *sessions) short(k known, b *box) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.pushed && time.Until(b.until) < s.idle(k.Record)+backstop/2
}

// keep pushes E2B's own end away while the sandbox is in use, if it is short.
func (s *sessions) keep(ctx context.Context, k known, b *box) error {
	if !s.short(k, b) {
		return nil
	}
	b.mu.Lock()
	b.pushed = true
	b.mu.Unlock()

	life := s.life(k.Record)
	err := s.extend(ctx, k, life)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pushed = false
	if err != nil {
		// Not at every beat again: E2B refuses past the plan's longest run.
		b.until = time.Now().Add(s.idle(k.Record) + backstop/2 + 30*time.Second)
		return fmt.Errorf("push the timeout of sandbox %s: %w", k.SandboxID, err)
	}
	b.until = time.Now().Add(life)
	return nil
}
