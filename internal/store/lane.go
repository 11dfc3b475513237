package store

import (
	"context"
	"strconv"
	"time"

	"github.com/sandjet/sandjet/internal/session"
)

// Entry is a job that is registered in its session.
type Entry struct {
	Session, Job string

	// Origin is the sequence at which the job was first accepted: its place in
	// the lane. It must be below 2^53.
	Origin uint64

	// Exclusive jobs of a session have the turn one at a time. The others run
	// beside them.
	Exclusive bool

	// Holder names the delivery, such as "<worker>/<delivery>". A Renew, Park or
	// Leave of another holder than the one that entered last has no effect, so that a
	// worker that lost the job cannot take it out of the lane. Empty is not
	// checked.
	Holder string

	// Running tells Renew that the job has the turn, so that it gets it back
	// after a wipe.
	Running bool
}

// Admission is what Enter found.
type Admission struct {
	Turn  bool   // the job may run now; always so if not exclusive
	Ahead int    // how many entries stand before it in the lane, at least 1 without Turn
	Head  string // without Turn: the job that has the turn, or the first in the lane

	// HeadBusy reports whether Head's worker is alive. If not, Head waits for its
	// time, or its worker died; if the log says that Head has ended, Leave with
	// an Entry without Holder takes it out of the way.
	HeadBusy bool

	// Pausing reports that another job is about to pause the session: the job is
	// registered, but must not touch the sandbox before the mark is gone.
	// PausedBy is that job.
	Pausing  bool
	PausedBy string

	Known bool           // the view has the session's record
	Rec   session.Record // if Known
	Seq   uint64         // the record's stream sequence

	// Young is Store.Young: do not trust Turn without a look at the streams.
	Young bool
}

var (
	enterScript = newScript("lane", "enter")
	renewScript = newScript("lane", "renew")
	leaveScript = newScript("lane", "leave")
	parkScript  = newScript("lane", "park")
	busyScript  = newScript("lane", "busy")
)

// Enter registers a job in its session, in the lane too if it is exclusive, and
// says whether it has the turn. It may be called again, to ask anew and to
// renew. The entry is busy for lease; it keeps its place for the hold time after
// that (WithHold), because the job of a dead worker comes back.
//
// The turn goes to the lowest Origin in the lane when nobody has it, and stays
// until Leave, Park, or the end of the hold.
func (s *Store) Enter(ctx context.Context, e Entry, lease time.Duration) (Admission, error) {
	k := s.keys.session(e.Session)
	cmd := enterScript.eval(ctx, 5, k.lane, k.jobs, k.rec, k.pause, k.idle,
		e.Job, origin(e), flag(e.Exclusive), ms(lease), ms(s.opts.hold), e.Holder)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return Admission{}, wrap("enter session "+e.Session, err)
	}
	out := reply(cmd)
	a := Admission{
		Turn: out.int(0) == 1, Ahead: int(out.int(1)), Head: out.text(2), HeadBusy: out.int(3) == 1,
		PausedBy: out.text(4), Young: s.Young(),
	}
	a.Pausing = a.PausedBy != ""
	var err error
	if v := out.text(5); v != "" {
		a.Rec, a.Seq, err = decodeRecord(e.Session, v)
		a.Known = err == nil
	}
	return a, wrap("enter session "+e.Session, err)
}

// Renew extends entries, in one flush. An entry that is gone, as after a wipe,
// is made again. An entry that another live delivery holds is left alone.
func (s *Store) Renew(ctx context.Context, entries []Entry, lease time.Duration) error {
	cmds := make([]command, len(entries))
	leaseMS, holdMS := ms(lease), ms(s.opts.hold)
	for i, e := range entries {
		k := s.keys.session(e.Session)
		cmds[i] = renewScript.eval(ctx, 2, k.lane, k.jobs,
			e.Job, origin(e), flag(e.Exclusive), leaseMS, holdMS, e.Holder, flag(e.Running))
	}
	if len(cmds) == 0 {
		return nil
	}
	return wrap("renew entries", s.flush.do(ctx, cmds...))
}

// Leave takes a job out of its session. next is the job whose turn it is now,
// if nobody has it: the caller wakes it. With idle > 0 the session's idle
// deadline moves to at least that far from now.
func (s *Store) Leave(ctx context.Context, e Entry, idle time.Duration) (next string, err error) {
	k := s.keys.session(e.Session)
	cmd := leaveScript.eval(ctx, 3, k.lane, k.jobs, k.idle, e.Job, e.Holder, optional(idle))
	if idle > 0 {
		err = s.flush.touch(ctx, cmd, touch{e.Session, idle})
	} else {
		err = s.flush.do1(ctx, cmd)
	}
	if err != nil {
		return "", wrap("leave session "+e.Session, err)
	}
	return text(cmd.Val()), nil
}

// Park says that a job waits and nobody holds it until about for from now, as
// when it is acknowledged and scheduled anew. It is not busy and gives the turn
// back; an exclusive one keeps its place in the lane for that time and the hold
// after it. next is as with Leave.
func (s *Store) Park(ctx context.Context, e Entry, d time.Duration) (next string, err error) {
	k := s.keys.session(e.Session)
	cmd := parkScript.eval(ctx, 2, k.lane, k.jobs, e.Job, origin(e), flag(e.Exclusive), ms(d+s.opts.hold), e.Holder)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return "", wrap("park in session "+e.Session, err)
	}
	return text(cmd.Val()), nil
}

// Busy returns the jobs of a session that a live worker holds, exclusive or
// not, and the length of its lane.
func (s *Store) Busy(ctx context.Context, id string) (jobs []string, queued int, err error) {
	k := s.keys.session(id)
	cmd := busyScript.eval(ctx, 2, k.lane, k.jobs)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return nil, 0, wrap("look into session "+id, err)
	}
	out := reply(cmd)
	return out.texts(1), int(out.int(0)), nil
}

func origin(e Entry) string { return strconv.FormatUint(e.Origin, 10) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// optional is ms with 0 for none.
func optional(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	return ms(d)
}
