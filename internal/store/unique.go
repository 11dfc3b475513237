package store

import (
	"context"
	"strings"
	"time"
)

var (
	uniqueTakeScript = newScript("unique_take")
	uniqueDropScript = newScript("unique_drop")
)

// Unique takes a unique key for a job, or extends it if the job has it. ok is
// false if another job has it; holder is that job, as "<session>/<job>". Each owner
// has keys of his own, and so have the jobs without one. The
// caller who finds in the log that the holder has ended releases it for him.
func (s *Store) Unique(ctx context.Context, owner, key, session, job string, ttl time.Duration) (holder string, ok bool, err error) {
	self := member(session, job)
	cmd := uniqueTakeScript.eval(ctx, 1, s.keys.unique(owner, key), self, ms(ttl))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return "", false, wrap("take unique key", err)
	}
	holder = text(cmd.Val())
	return holder, holder == self, nil
}

// ReleaseUnique gives a unique key back if the job has it.
func (s *Store) ReleaseUnique(ctx context.Context, owner, key, session, job string) error {
	return wrap("release unique key",
		s.flush.do1(ctx, uniqueDropScript.eval(ctx, 1, s.keys.unique(owner, key), member(session, job))))
}

// member names a job in keys of the fleet; split is the way back.
func member(session, job string) string { return session + "/" + job }

func split(member string) (session, job string) {
	session, job, _ = strings.Cut(member, "/")
	return session, job
}
