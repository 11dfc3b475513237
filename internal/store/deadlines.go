package store

import (
	"context"
	"strconv"
	"time"
)

// Deadline is a kind of deadline. A session has at most one of each.
type Deadline string

// The kinds of deadline.
const (
	Idle       Deadline = "idle"       // the session is paused; only ever moves later
	Stale      Deadline = "stale"      // the session is too old
	Watch      Deadline = "watch"      // the session's sandbox is looked at
	Transition Deadline = "transition" // a transitional state counts as abandoned
)

// Due is a deadline that has come and was claimed.
type Due struct {
	Session string
	DueAt   time.Time
	claim   int64 // the score that the claim gave it
}

var (
	dueSetScript   = newScript("due_set")
	dueClaimScript = newScript("due_claim")
	dueDoneScript  = newScript("due_done")
)

// SetDeadline makes a session due in d from now. Idle deadlines only move later,
// the others are set as told.
func (s *Store) SetDeadline(ctx context.Context, kind Deadline, session string, d time.Duration) error {
	cmds := []command{s.setDue(ctx, kind, d, session)}
	if kind == Idle {
		cmds = append(cmds, plain(ctx, "set", s.keys.session(session).idle, "idle", "px", ms(d)))
	}
	return wrap("set deadline of session "+session, s.flush.do(ctx, cmds...))
}

func (s *Store) setDue(ctx context.Context, kind Deadline, d time.Duration, session string) command {
	mode := "CH"
	if kind == Idle {
		mode = "GT"
	}
	return dueSetScript.eval(ctx, 1, s.keys.due(kind), mode, signed(d), session)
}

// signed is a duration in ms that may lie in the past.
func signed(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ClearDeadline takes a session's deadline away, whoever set or claimed it.
func (s *Store) ClearDeadline(ctx context.Context, kind Deadline, session string) error {
	cmds := []command{plain(ctx, "zrem", s.keys.due(kind), session)}
	if kind == Idle {
		cmds = append(cmds, plain(ctx, "del", s.keys.session(session).idle))
	}
	return wrap("clear deadline of session "+session, s.flush.do(ctx, cmds...))
}

// ClaimDue takes at most n sessions that are due. Nobody else gets them for
// lease; after that they are due again, unless Done or ClearDeadline took them
// away or SetDeadline moved them.
func (s *Store) ClaimDue(ctx context.Context, kind Deadline, n int, lease time.Duration) ([]Due, error) {
	cmd := dueClaimScript.eval(ctx, 1, s.keys.due(kind), strconv.Itoa(n), ms(lease))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return nil, wrap("claim due", err)
	}
	out := reply(cmd)
	due := make([]Due, 0, len(out)/2)
	for i := 1; i+1 < len(out); i += 2 {
		due = append(due, Due{Session: out.text(i), DueAt: fromMillis(out.int(i + 1)), claim: out.int(0)})
	}
	return due, nil
}

// Done takes a claimed deadline away, unless it was set anew since the claim.
func (s *Store) Done(ctx context.Context, kind Deadline, d Due) error {
	return wrap("finish deadline of session "+d.Session, s.flush.do1(ctx, s.settleDue(ctx, kind, d, "")))
}

// Postpone moves a claimed deadline to in from now, be that sooner or later than the
// claim's lease, unless it was set anew since the claim.
func (s *Store) Postpone(ctx context.Context, kind Deadline, d Due, in time.Duration) error {
	return wrap("postpone deadline of session "+d.Session, s.flush.do1(ctx, s.settleDue(ctx, kind, d, signed(in))))
}

func (s *Store) settleDue(ctx context.Context, kind Deadline, d Due, in string) command {
	return dueDoneScript.eval(ctx, 1, s.keys.due(kind), d.Session, strconv.FormatInt(d.claim, 10), in)
}

// Next returns the n sessions whose deadlines come first, due or not, without a
// claim. With Idle these are the least recently used.
func (s *Store) Next(ctx context.Context, kind Deadline, n int) ([]Due, error) {
	cmd := plain(ctx, "zrange", s.keys.due(kind), 0, n-1, "withscores")
	if err := s.flush.do1(ctx, cmd); err != nil {
		return nil, wrap("read deadlines", err)
	}
	out := reply(cmd)
	due := make([]Due, 0, len(out)/2)
	for i := 0; i+1 < len(out); i += 2 {
		due = append(due, Due{Session: out.text(i), DueAt: fromMillis(out.int(i + 1)), claim: out.int(i + 1)})
	}
	return due, nil
}
