package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slotOptions is how slots are given.
type slotOptions struct {
	total, owner        int
	lease, grant, probe time.Duration
}

// WithSlots bounds the sandboxes that run at once, in all and of one owner. 0 is
// no bound, which is the default: then only E2B's word counts, see RefuseSlot.
func WithSlots(total, ofOwner int) Option {
	return func(o *options) { o.slots.total, o.slots.owner = total, ofOwner }
}

// SlotAsk is a job that wants its session's sandbox to run. Owner may be empty:
// all sessions without one are one owner's.
type SlotAsk struct {
	Session, Owner, Job string
	// Origin is the sequence at which the job was first accepted: its place among
	// those of its owner. It must be below 2^53.
	Origin uint64
}

// SlotCall names the jobs of a session that was in line and has been given a
// slot: the caller wakes them. Whoever is not heard of is called again.
type SlotCall struct {
	Session string
	Jobs    []string
}

// SlotAnswer is what TakeSlot found.
type SlotAnswer struct {
	OK        bool
	Used      int // slots in use, and those given to somebody who is on the way
	Allowed   int // how many there may be at present; -1 for no limit
	Ahead     int // without OK: how many sessions stand before it, as owners take turns
	OwnerFull bool
	Calls     []SlotCall
}

var (
	slotTakeScript    = newScript("slots", "slot_take")
	slotFreeScript    = newScript("slots", "slot_free")
	slotRefuseScript  = newScript("slots", "slot_refuse")
	slotQuitScript    = newScript("slots", "slot_quit")
	slotKeepScript    = newScript("slots", "slot_keep")
	slotSweepScript   = newScript("slots", "slot_sweep")
	slotWantsScript   = newScript("slots", "slot_wants")
	slotListScript    = newScript("slots", "slot_list")
	slotUndoScript    = newScript("slots", "slot_undo")
	slotLeavingScript = newScript("slot_leaving")
)

// slotCommand builds the command of a script on slots and line.
func (s *Store) slotCommand(ctx context.Context, sc *script, args ...string) command {
	keys, o := s.keys.line(), s.opts.slots
	options := []string{s.keys.lineOf(), strconv.Itoa(o.total), strconv.Itoa(o.owner), ms(o.grant), ms(o.probe)}
	return sc.eval(ctx, len(keys), slices.Concat(keys, options, args)...)
}

func (s *Store) slot(ctx context.Context, sc *script, args ...string) (command, error) {
	cmd := s.slotCommand(ctx, sc, args...)
	return cmd, s.flush.do1(ctx, cmd)
}

// slotCalls is slot for a script that says who is to be called. A command whose caller
// has left may still be on its way: its reply is not looked at.
func (s *Store) slotCalls(ctx context.Context, sc *script, args ...string) ([]SlotCall, error) {
	cmd, err := s.slot(ctx, sc, args...)
	if err != nil {
		return nil, err
	}
	return reply(cmd).calls(), nil
}

// TakeSlot takes a slot for a session. A session that has one keeps it. If none
// is free for its owner the session stands in line, with this job to call, and
// keeps its place for that long: owners take turns, each in the order in which its
// jobs were accepted. What becomes free is given to the first in line, who is called
// and calls TakeSlot again. Nobody needs to poll, but to keep the place.
func (s *Store) TakeSlot(ctx context.Context, a SlotAsk, keep time.Duration) (SlotAnswer, error) {
	cmd, err := s.slot(ctx, slotTakeScript, a.Session, ownerWord(a.Owner), a.Job, ms(s.opts.slots.lease), ms(keep), strconv.FormatUint(a.Origin, 10))
	if err != nil {
		return SlotAnswer{}, wrap("take slot of session "+a.Session, err)
	}
	out := reply(cmd)
	return SlotAnswer{
		OK: out.int(0) == 1, Used: int(out.int(1)), Allowed: int(out.int(2)), Ahead: int(out.int(3)), OwnerFull: out.int(4) == 1,
		Calls: out.list(5).calls(),
	}, nil
}

// ReleaseSlot gives a session's slot back. One that is not held is no error.
func (s *Store) ReleaseSlot(ctx context.Context, session string) ([]SlotCall, error) {
	calls, err := s.slotCalls(ctx, slotFreeScript, session)
	return calls, wrap("release slot of session "+session, err)
}

// RefuseSlot says that E2B does not let the session's sandbox run although it had
// a slot: no more may run than now do without it. That limit is tried again, by
// one more slot after a while, then by two, by four, and so on. The session goes
// back to its place in line.
func (s *Store) RefuseSlot(ctx context.Context, a SlotAsk, keep time.Duration) ([]SlotCall, error) {
	calls, err := s.slotCalls(ctx, slotRefuseScript, a.Session, ownerWord(a.Owner), a.Job, ms(keep), strconv.FormatUint(a.Origin, 10))
	return calls, wrap("refuse slot of session "+a.Session, err)
}

// QuitLine says that a job has no use for a slot any more: it has ended. Its
// session stays in line while another of its jobs waits.
func (s *Store) QuitLine(ctx context.Context, session, job string) ([]SlotCall, error) {
	calls, err := s.slotCalls(ctx, slotQuitScript, session, job)
	return calls, wrap("leave the line of session "+session, err)
}

// SlotOf is a session whose sandbox runs.
type SlotOf struct{ Session, Owner string }

// KeepSlots extends the leases of slots, and gives one to each that has none,
// above any limit: the sandboxes run. It takes any number, as after a wipe.
func (s *Store) KeepSlots(ctx context.Context, all ...SlotOf) error {
	const batch = 500
	for len(all) > 0 {
		n := min(batch, len(all))
		if _, err := s.slot(ctx, slotKeepScript, keepArgs(s.opts.slots.lease, all[:n])...); err != nil {
			return wrap("keep slots", err)
		}
		all = all[n:]
	}
	return nil
}

func keepArgs(lease time.Duration, list []SlotOf) []string {
	args := []string{ms(lease)}
	for _, o := range list {
		args = append(args, o.Session, ownerWord(o.Owner))
	}
	return args
}

// SweepSlots gives away what has become free by itself and returns who is to be
// called, and sessions whose slots were not extended for age, at most n. Those
// have been extended now; the caller looks whether they run and releases the
// others.
func (s *Store) SweepSlots(ctx context.Context, age time.Duration, n int) (calls []SlotCall, look []string, err error) {
	cmd, err := s.slot(ctx, slotSweepScript, ms(s.opts.slots.lease), ms(age), strconv.Itoa(n))
	if err != nil {
		return nil, nil, wrap("sweep slots", err)
	}
	out := reply(cmd)
	return out.list(0).calls(), out.list(1).texts(0), nil
}

// SlotWants says how many sandboxes must be paused for those in line to have
// room: any, and those of owners who have all that one owner may have. What is
// marked as leaving is counted off.
type SlotWants struct {
	Any int
	Of  map[string]int
}

// SlotWants asks whether somebody in line needs room.
func (s *Store) SlotWants(ctx context.Context) (SlotWants, error) {
	cmd, err := s.slot(ctx, slotWantsScript)
	if err != nil {
		return SlotWants{}, wrap("look at the line", err)
	}
	out := reply(cmd)
	w := SlotWants{Any: int(out.int(0)), Of: map[string]int{}}
	for i := 1; i+1 < len(out); i += 2 {
		w.Of[wordOwner(out.text(i))] = int(out.int(i + 1))
	}
	return w, nil
}

// MarkLeaving says that a session is being paused to make room, for at most ttl.
// ok is false if it is marked already. Giving the slot back takes the mark away.
func (s *Store) MarkLeaving(ctx context.Context, session string, ttl time.Duration) (ok bool, err error) {
	cmd := slotLeavingScript.eval(ctx, 1, s.keys.leaving(), session, ms(ttl))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return false, wrap("mark session "+session+" as leaving", err)
	}
	return done(cmd), nil
}

// UnmarkLeaving says that the session stays.
func (s *Store) UnmarkLeaving(ctx context.Context, session string) error {
	return wrap("unmark session "+session, s.flush.do1(ctx, plain(ctx, "zrem", s.keys.leaving(), session)))
}

// Slot is a running sandbox that counts against the limit.
type Slot struct {
	Session, Owner string
	Left           time.Duration // of its lease
}

// SlotUse is the slots at a glance.
type SlotUse struct {
	Slots   []Slot // in use, those whose leases end first in front
	Granted int    // given to somebody who is on the way
	Waiting int    // sessions in line
	Allowed int    // how many there may be at present; -1 for no limit
}

// Slots returns the slots in use and what waits for one.
func (s *Store) Slots(ctx context.Context) (SlotUse, error) {
	cmd, err := s.slot(ctx, slotListScript)
	if err != nil {
		return SlotUse{}, wrap("list slots", err)
	}
	out := reply(cmd)
	use := SlotUse{Allowed: int(out.int(0)), Waiting: int(out.int(1)), Granted: int(out.int(2))}
	list := out.list(3)
	for i := 0; i+2 < len(list); i += 3 {
		use.Slots = append(use.Slots, Slot{
			Session: list.text(i), Left: time.Duration(list.int(i+1)) * time.Millisecond, Owner: wordOwner(list.text(i + 2)),
		})
	}
	return use, nil
}

// noOwner stands for the owner of sessions that have none. It is no id.
const noOwner = "@"

func ownerWord(owner string) string { return cmp.Or(owner, noOwner) }

func wordOwner(word string) string { return strings.TrimPrefix(word, noOwner) }

// calls reads pairs of a session and its jobs.
func (f fields) calls() []SlotCall {
	var out []SlotCall
	for i := 0; i+1 < len(f); i += 2 {
		out = append(out, SlotCall{Session: f.text(i), Jobs: strings.Fields(f.text(i + 1))})
	}
	return out
}
