package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

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
	// worker that lost the job cannot take it out of the lane. One that begins with
	// "<sequence of the claim>/" also gives way to later claims in Enter, and goes
	// before earlier ones everywhere. Empty is not checked.
	Holder string

	// Vouched is the owner that the job's subject names, if it names one. Enter asks for
	// it where the view says that the session's owner is proven.
	Vouched string

	// Running tells Renew that the job has the turn, so that it gets it back
	// after a wipe.
	Running bool
}

// Admission is what Enter found.
type Admission struct {
	Turn  bool   // the job may run now; always so if not exclusive
	Ahead int    // how many entries stand before it in the lane, at least 1 without Turn
	Head  string // without Turn: the job that has the turn, or the first in the lane

	// HeadBusy reports whether Head's worker is alive, HeadAway whether Head waits
	// in the schedules for its turn. If neither, Head waits for its time, or its
	// worker died; if the log says that Head has ended, Leave with an Entry without
	// Holder takes it out of the way.
	HeadBusy, HeadAway bool

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
	// Lanes is Store.Lanes as of this very call.
	Lanes string
}

// Next is what a job that leaves or parks finds behind it.
type Next struct {
	// Job is the one whose turn it is now; empty if somebody has the turn or nobody
	// waits. Busy reports whether a worker has it in hand: call it.
	Job  string
	Busy bool
	// Away are the jobs near the head of the lane that wait in the schedules: call
	// them back. Job may be one of them. A job is named again after 2 s at the
	// earliest.
	Away []string
}

// Near is how many jobs of a lane are near its head: they wait where they are
// ready at once, those behind them wait away and are called back when they come
// near. It must be enough for the time that a call takes.
const Near = 64

var (
	enterScript = newScript("lane", "enter")
	renewScript = newScript("lane", "renew")
	placeScript = newScript("lane", "place")
	leaveScript = newScript("lane", "leave")
	parkScript  = newScript("lane", "park")
	busyScript  = newScript("lane", "busy")
)

// Enter registers a job in its session, in the lane too if it is exclusive, and
// says whether it has the turn. It may be called again, to ask anew and to
// renew. The entry is busy for lease; it keeps its place for the hold time after
// that (10 minutes), because the job of a dead worker comes back. ErrOutrun says that
// a later claim of the job has entered, ErrStranger that the session is not for it.
//
// The turn goes to the lowest Origin in the lane when nobody has it, and stays
// until Leave, Park, or the end of the hold.
func (s *Store) Enter(ctx context.Context, e Entry, lease time.Duration) (Admission, error) {
	k := s.keys.session(e.Session)
	cmd := enterScript.eval(ctx, 5, k.lane, k.jobs, k.rec, k.pause, k.idle,
		e.Job, origin(e), flag(e.Exclusive), ms(lease), ms(s.opts.hold), e.Holder, e.Vouched)
	lanes, err := s.flush.seen(ctx, cmd)
	if err != nil {
		return Admission{}, wrap("enter session "+e.Session, err)
	}
	out := reply(cmd)
	switch out.int(0) {
	case -1:
		return Admission{}, wrap("enter session "+e.Session, ErrOutrun)
	case -2:
		return Admission{}, wrap("enter session "+e.Session, ErrStranger)
	}
	a := Admission{
		Turn: out.int(0) == 1, Ahead: int(out.int(1)), Head: out.text(2),
		HeadBusy: out.int(3) == 1, HeadAway: out.int(3) == 2,
		PausedBy: out.text(4), Young: s.Young(), Lanes: lanes,
	}
	a.Pausing = a.PausedBy != ""
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

// Place is a job that is to have its place in the lane.
type Place struct {
	Session, Job string
	Origin       uint64
	// For is how long it keeps the place beside the hold time: the time until
	// it comes.
	For time.Duration
	// Away says that it waits in the schedules for its turn.
	Away bool
}

// Place gives exclusive jobs their places in the lanes before, or without, a worker
// that has them in hand, in one flush. Where a job has an entry it stays as it is.
// made says of each whether it had none; an entry that was made for a job that has
// ended meanwhile is found by those who wait behind it (Admission.Head).
func (s *Store) Place(ctx context.Context, places ...Place) (made []bool, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	cmds := make([]command, len(places))
	for i, p := range places {
		k, away := s.keys.session(p.Session), ""
		if p.Away {
			away = "@0"
		}
		cmds[i] = placeScript.eval(ctx, 2, k.lane, k.jobs,
			p.Job, strconv.FormatUint(p.Origin, 10), ms(p.For+s.opts.hold), away)
	}
	if err := s.flush.do(ctx, cmds...); err != nil {
		return nil, wrap("place jobs", err)
	}
	made = make([]bool, len(places))
	for i, c := range cmds {
		made[i] = done(c)
	}
	return made, nil
}

// Leave takes a job out of its session. With idle > 0 the session's idle deadline
// moves to at least that far from now.
func (s *Store) Leave(ctx context.Context, e Entry, idle time.Duration) (next Next, err error) {
	k := s.keys.session(e.Session)
	cmd := leaveScript.eval(ctx, 3, k.lane, k.jobs, k.idle, e.Job, e.Holder, optional(idle), near)
	if idle > 0 {
		err = s.flush.touch(ctx, cmd, touch{e.Session, idle})
	} else {
		err = s.flush.do1(ctx, cmd)
	}
	if err != nil {
		return next, wrap("leave session "+e.Session, err)
	}
	return nextOf(cmd), nil
}

// Park says that a job waits and nobody holds it until about for from now, as
// when it is acknowledged and scheduled anew. It is not busy and gives the turn
// back; an exclusive one keeps its place in the lane for that time and the hold
// after it.
func (s *Store) Park(ctx context.Context, e Entry, d time.Duration) (next Next, err error) {
	return s.park(ctx, e, d, "0")
}

// Depart is Park for an exclusive job that waits for its turn in the schedules,
// where it is already: it is called back when it comes near the head. If its turn
// has come meanwhile, next is the job itself.
func (s *Store) Depart(ctx context.Context, e Entry, d time.Duration) (next Next, err error) {
	return s.park(ctx, e, d, "1")
}

func (s *Store) park(ctx context.Context, e Entry, d time.Duration, away string) (next Next, err error) {
	k := s.keys.session(e.Session)
	cmd := parkScript.eval(ctx, 2, k.lane, k.jobs, e.Job, origin(e), flag(e.Exclusive), ms(d+s.opts.hold), e.Holder, away, near)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return next, wrap("park in session "+e.Session, err)
	}
	return nextOf(cmd), nil
}

var near = strconv.Itoa(Near)

func nextOf(cmd command) Next {
	out := reply(cmd)
	return Next{Job: out.text(0), Busy: out.int(1) == 1, Away: out.texts(2)}
}

// busyLook is how many entries of a session Busy looks at, about.
const busyLook = "1000"

// Busy returns the jobs of a session that a live worker holds, exclusive or
// not, and the length of its lane. Of more than a thousand it may leave some out.
func (s *Store) Busy(ctx context.Context, id string) (jobs []string, queued int, err error) {
	k := s.keys.session(id)
	cmd := busyScript.eval(ctx, 2, k.lane, k.jobs, busyLook)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return nil, 0, wrap("look into session "+id, err)
	}
	out := reply(cmd)
	return out.texts(1), int(out.int(0)), nil
}

// Waits reports whether a job waits in a session's lane: whoever holds it does nothing
// with the session until it has the turn.
func (s *Store) Waits(ctx context.Context, session, job string) (bool, error) {
	cmd := plain(ctx, "zscore", s.keys.session(session).lane, job)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return false, wrap("look into session "+session, err)
	}
	return !errors.Is(cmd.Err(), redis.Nil), nil
}

// Registered returns every job that has a place in the session, also those whose
// worker has died and those whose place has run out.
func (s *Store) Registered(ctx context.Context, id string) (jobs []string, err error) {
	cmd := plain(ctx, "hkeys", s.keys.session(id).jobs)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return nil, wrap("look into session "+id, err)
	}
	for _, job := range reply(cmd).texts(0) {
		if job != "@" {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
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
