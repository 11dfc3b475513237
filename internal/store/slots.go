package store

import (
	"context"
	"strconv"
	"time"
)

// Slot is a running sandbox that counts against E2B's limit.
type Slot struct {
	Session string
	Left    time.Duration // of its lease
}

var (
	slotTakeScript = newScript("slot_take")
	slotListScript = newScript("slot_list")
)

// AcquireSlot takes a slot for a session unless limit are in use. A session that
// has one keeps it, and extends its lease. used counts after the call.
func (s *Store) AcquireSlot(ctx context.Context, session string, limit int, lease time.Duration) (ok bool, used int, err error) {
	cmd := slotTakeScript.eval(ctx, 1, s.keys.slots(), session, strconv.Itoa(limit), ms(lease))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return false, 0, wrap("acquire slot", err)
	}
	out := reply(cmd)
	return out.int(0) == 1, int(out.int(1)), nil
}

// RenewSlot extends the leases of slots, and takes those that are gone, above
// any limit: the sandboxes run.
func (s *Store) RenewSlot(ctx context.Context, lease time.Duration, sessions ...string) error {
	if len(sessions) == 0 {
		return nil
	}
	args := []string{s.keys.slots(), "CH"}
	for _, id := range sessions {
		args = append(args, ms(lease), id)
	}
	return wrap("renew slots", s.flush.do1(ctx, dueSetScript.eval(ctx, 1, args...)))
}

// ReleaseSlot gives a session's slot back. One that is not held is no error.
func (s *Store) ReleaseSlot(ctx context.Context, session string) error {
	return wrap("release slot", s.flush.do1(ctx, plain(ctx, "zrem", s.keys.slots(), session)))
}

// Slots returns the slots in use, those whose leases end first in front.
func (s *Store) Slots(ctx context.Context) ([]Slot, error) {
	cmd := slotListScript.eval(ctx, 1, s.keys.slots())
	if err := s.flush.do1(ctx, cmd); err != nil {
		return nil, wrap("list slots", err)
	}
	out := reply(cmd)
	slots := make([]Slot, 0, len(out)/2)
	for i := 0; i+1 < len(out); i += 2 {
		slots = append(slots, Slot{Session: out.text(i), Left: time.Duration(out.int(i+1)) * time.Millisecond})
	}
	return slots, nil
}
