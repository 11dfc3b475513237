package store

import (
	"cmp"
	"context"
	"time"
)

var (
	pauseBeginScript = newScript("lane", "pause_begin")
	pauseEndScript   = newScript("pause_end")
)

// BeginPause marks a session as pausing for at most ttl, if no job but e, which
// pauses it, is registered: neither busy nor in the lane, nor left behind by a
// worker that died and will be followed by another. It is atomic with Enter: a
// job either stands in the way, or sees Pausing. Asked again for the same job it
// gives the same answer and extends the mark. Without a Job in e every job
// stands in the way. Unless alone is asked for, a job that has the turn of its
// lane does not mind those that wait behind it: they wait for its own end.
func (s *Store) BeginPause(ctx context.Context, e Entry, ttl time.Duration, alone bool) (ok bool, err error) {
	k := s.keys.session(e.Session)
	cmd := pauseBeginScript.eval(ctx, 3, k.lane, k.jobs, k.pause, marker(e), ms(ttl), flag(alone))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return false, wrap("begin pause of session "+e.Session, err)
	}
	return done(cmd), nil
}

// EndPause takes the mark away if it is e's own: one that took longer than its
// ttl does not take away the mark of the next. The caller wakes who waits.
func (s *Store) EndPause(ctx context.Context, e Entry) error {
	return wrap("end pause of session "+e.Session,
		s.flush.do1(ctx, pauseEndScript.eval(ctx, 1, s.keys.session(e.Session).pause, marker(e))))
}

// marker is what the mark says of who pauses. "@" is no job's id.
func marker(e Entry) string { return cmp.Or(e.Job, "@") }
