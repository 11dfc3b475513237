package store

import (
	"context"
	"time"
)

var (
	pauseBeginScript = newScript("lane", "pause_begin")
	pauseEndScript   = newScript("pause_end")
)

// BeginPause marks a session as pausing for at most ttl, if no job but the one
// that pauses it is registered: neither busy nor in the lane, nor left behind by
// a worker that died and will be followed by another. It is atomic with Enter: a
// job either stands in the way, or sees Pausing. Asking again with the same job
// gives the same answer and extends the mark. If not ok, inTheWay is one of the
// jobs, or who pauses already.
func (s *Store) BeginPause(ctx context.Context, session, job string, ttl time.Duration) (ok bool, inTheWay string, err error) {
	cmd := pauseBeginScript.eval(ctx, 3, s.keys.lane(session), s.keys.jobs(session), s.keys.pause(session), job, ms(ttl))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return false, "", wrap("begin pause of session "+session, err)
	}
	out := reply(cmd)
	return out.int(0) == 1, out.text(1), nil
}

// EndPause takes the mark away if it is the job's own. The caller wakes who
// waits.
func (s *Store) EndPause(ctx context.Context, session, job string) error {
	return wrap("end pause of session "+session,
		s.flush.do1(ctx, pauseEndScript.eval(ctx, 1, s.keys.pause(session), job)))
}
