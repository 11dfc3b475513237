package worker

import (
	"context"
	"time"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/secret"
)

// books are the audit records of this worker: each call that changes something outside
// goes by here.
type books struct {
	*audit.Writer
	known *secret.Set // what no record may hold
}

// enter writes a record of an effect that is over.
func (b *books) enter(r audit.Record, argv []string, begun time.Time, err error) {
	r.DurationMS = time.Since(begun).Milliseconds()
	if r.Outcome == "" {
		r.Outcome = audit.OK
	}
	if err != nil {
		r.Outcome, r.Detail = string(classify(err).class), err.Error()
	}
	r.Detail, r.Target, r.Branch = b.masked(r.Detail), b.masked(r.Target), b.masked(r.Branch)
	shown := make([]string, len(argv))
	for i, a := range argv {
		shown[i] = b.masked(a)
	}
	b.Add(r.WithArgv(shown))
}

func (b *books) masked(s string) string {
	if point.Off(point.Masking) {
		return s
	}
	return b.known.String(s)
}

// on is the record of an effect on a session's sandbox.
func (k known) on(action, sandbox string) audit.Record {
	return audit.Record{
		Owner: k.Owner, Session: k.Session, Job: k.Job, Generation: k.Generation,
		System: audit.E2B, Action: action, Target: sandbox,
	}
}

func (s *sessions) create(ctx context.Context, k known) (*e2b.Sandbox, error) {
	begun := time.Now()
	sb, err := s.e2b.Create(ctx, s.request(k.Record))
	id := ""
	if err == nil {
		id = sb.SandboxID
	}
	s.books.enter(k.on("create", id), nil, begun, err)
	return sb, err
}

// connect wakes a sandbox, or adopts one.
func (s *sessions) connect(ctx context.Context, k known, id string) (*e2b.Sandbox, error) {
	begun := time.Now()
	sb, _, err := s.e2b.Connect(ctx, id, s.life(k.Record))
	s.books.enter(k.on("connect", id), nil, begun, err)
	return sb, err
}

// boot wakes a sandbox from its disk alone.
func (s *sessions) boot(ctx context.Context, k known) (*e2b.Sandbox, error) {
	begun := time.Now()
	sb, _, err := s.e2b.Boot(ctx, k.SandboxID, s.life(k.Record))
	s.books.enter(k.on("boot", k.SandboxID), nil, begun, err)
	return sb, err
}

func (s *sessions) pauseBox(ctx context.Context, k known) error {
	begun := time.Now()
	err := s.e2b.Pause(ctx, k.SandboxID)
	s.books.enter(k.on("pause", k.SandboxID), nil, begun, err)
	return err
}

// pauseDisk pauses a sandbox without its memory.
func (s *sessions) pauseDisk(ctx context.Context, k known) error {
	begun := time.Now()
	err := s.e2b.PauseDisk(ctx, k.SandboxID)
	s.books.enter(k.on("pause_disk", k.SandboxID), nil, begun, err)
	return err
}

// kill ends a sandbox, which need not be the one that the session has.
func (s *sessions) kill(ctx context.Context, k known, id string) error {
	begun := time.Now()
	_, err := s.e2b.Kill(ctx, id)
	s.books.enter(k.on("kill", id), nil, begun, err)
	return err
}

func (s *sessions) extend(ctx context.Context, k known, life time.Duration) error {
	begun := time.Now()
	err := s.e2b.SetTimeout(ctx, k.SandboxID, life)
	s.books.enter(k.on("timeout", k.SandboxID), nil, begun, err)
	return err
}

// by is the record of an effect that the job has on the outside.
func (h *hold) by(system, action, target string) audit.Record {
	h.mu.Lock()
	generation := h.session.Generation
	h.mu.Unlock()
	return audit.Record{
		Owner: h.d.Owner, Session: h.d.Session, Job: h.d.ID, Generation: generation,
		System: system, Action: action, Target: target,
	}
}

// ran records a command that was run here, or joined. How it ended is the record's
// outcome, not an error of ours.
func (t *task) ran(begun time.Time, joined bool, out events.Outcome, err error) {
	r := t.by(audit.E2B, "run", t.session.SandboxID)
	if joined {
		r.Action = "join"
	}
	r.Secrets = t.given
	if err == nil && out.Class != string(jobs.ClassOK) {
		r.Outcome, r.Detail = out.Class, out.Reason
	}
	t.w.books.enter(r, t.cmd.Argv, begun, err)
}

// did records what a step has done to a repository, once it is known. What the job comes
// back to without having spent anything is recorded by the try that ends it: each finds
// what those before it have done.
func (r *repoRun) did(step string, rec audit.Record, begun time.Time, err error) {
	if err != nil {
		err = r.explain(step, err)
		if jobs.Decide(classify(err).class, 1, 1, false).Fate == jobs.Wait {
			return
		}
	}
	rec.Remote = r.remote.Address()
	if r.block.Credential != "" && step != events.StepCommit {
		rec.Secrets = []string{r.block.Credential}
	}
	r.w.books.enter(rec, nil, begun, err)
}

// found is the action of who finds that an earlier try has done it.
func found(action string, there bool) string {
	if there {
		return action + ".found"
	}
	return action
}

// booked waits until what was done for the job is on record. The end does not wait for
// ever: a stream that takes no records keeps no job from its end, and the records say
// later how many are missing.
func (h *hold) booked(ctx context.Context) {
	if err := h.w.books.Flush(ctx, h.d.Session); err != nil {
		h.log.Error("audit records not stored before the job's end", "err", err)
	}
}
