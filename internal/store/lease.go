package store

import (
	"context"
	"time"
)

var (
	leaseTakeScript = newScript("lease_take")
	leaseDropScript = newScript("lease_drop")
)

// Lease takes the lease called name for ttl, or extends it if holder has it: for
// work that one worker at a time does. The token goes up with each new holder,
// also across a wipe.
func (s *Store) Lease(ctx context.Context, name, holder string, ttl time.Duration) (token int64, ok bool, err error) {
	cmd := leaseTakeScript.eval(ctx, 1, s.keys.lease(name), holder, ms(ttl))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return 0, false, wrap("take lease "+name, err)
	}
	out := reply(cmd)
	return out.int(1), out.int(0) == 1, nil
}

// ReleaseLease gives a lease back if holder has it.
func (s *Store) ReleaseLease(ctx context.Context, name, holder string) error {
	return wrap("release lease "+name, s.flush.do1(ctx, leaseDropScript.eval(ctx, 1, s.keys.lease(name), holder)))
}
