package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandjet/sandjet/internal/session"
)

// Stated is a record and the stream sequence it stands at.
type Stated struct {
	Record session.Record
	Seq    uint64
}

// Clocks is what the view holds of a session beside its record. A duration of 0
// means that it has none.
type Clocks struct {
	Idle, Stale, Watch time.Duration // from now to the deadline; less than 0 if it is over
	Slot               bool          // it runs
}

// fillBatch is how many sessions go out in one flush: few enough that the calls
// of jobs between two flushes hardly wait.
const fillBatch = 500

// FillSessions writes many sessions into a view that has lost them, beside those
// who use it: records, deadlines and slots, in batches. A record of the same or a
// newer sequence stays; its session gets the clocks of the record that stands.
// Slots are given above any limit: the sandboxes run. Filling twice is filling
// once. It stops at the first error; what came before it stands.
func (s *Store) FillSessions(ctx context.Context, list []Stated, clocks func(session.Record) Clocks) error {
	for from := 0; from < len(list); from += fillBatch {
		if err := s.fillBatch(ctx, list[from:min(from+fillBatch, len(list))], clocks); err != nil {
			return fmt.Errorf("fill the view: %w", err)
		}
	}
	return nil
}

// fillBatch puts the records, then the clocks of those that stand. Whoever moves a
// session meanwhile sets its clocks after its record; so at the end the sequences
// are looked at once more, and what has moved gets its clocks one by one.
func (s *Store) fillBatch(ctx context.Context, list []Stated, clocks func(session.Record) Clocks) error {
	puts := make([]command, 0, len(list))
	for _, one := range list {
		put, err := s.putSession(ctx, one.Record, one.Seq)
		if err != nil {
			return err
		}
		puts = append(puts, put)
	}
	if err := s.flush.do(ctx, puts...); err != nil {
		return wrap("put records", err)
	}
	stand := make([]Stated, 0, len(list))
	moved := map[string]int64{} // session -> the end of the slot's lease that we gave it
	for i, one := range list {
		if done(puts[i]) {
			stand = append(stand, one)
		} else {
			moved[one.Record.Session] = 0
		}
	}
	given, err := s.setClocks(ctx, stand, clocks)
	if err != nil {
		return err
	}
	since, err := s.movedOn(ctx, stand)
	if err != nil {
		return err
	}
	for _, id := range since {
		moved[id] = given[id]
	}
	for id, slot := range moved {
		if err := s.settleClocks(ctx, id, slot, clocks); err != nil {
			return err
		}
	}
	return nil
}

// setClocks sets the deadlines and slots of records that stand. It returns when
// the leases of the slots end that it gave.
func (s *Store) setClocks(ctx context.Context, list []Stated, clocks func(session.Record) Clocks) (map[string]int64, error) {
	idle := []string{s.keys.due(Idle), "GT"}
	stale, watch := []string{s.keys.due(Stale), "CH"}, []string{s.keys.due(Watch), "CH"}
	var cmds []command
	var running []SlotOf
	for _, one := range list {
		id, c := one.Record.Session, clocks(one.Record)
		if c.Idle != 0 {
			idle = append(idle, signed(c.Idle), id)
			cmds = append(cmds, plain(ctx, "set", s.keys.session(id).idle, "idle", "px", ms(c.Idle)))
		}
		if c.Stale != 0 {
			stale = append(stale, signed(c.Stale), id)
		}
		if c.Watch != 0 {
			watch = append(watch, signed(c.Watch), id)
		}
		if c.Slot {
			running = append(running, SlotOf{id, one.Record.Owner})
		}
	}
	for _, set := range [][]string{idle, stale, watch} {
		if len(set) > 2 {
			cmds = append(cmds, dueSetScript.eval(ctx, 1, set...))
		}
	}
	// A lease that nobody else gives: it tells these slots from those that somebody
	// has taken or kept since.
	lease := s.opts.slots.lease - time.Second
	if len(running) > 0 { // the last: its answer is read
		cmds = append(cmds, s.slotCommand(ctx, slotKeepScript, keepArgs(lease, running)...))
	}
	if len(cmds) == 0 {
		return nil, nil
	}
	if err := s.flush.do(ctx, cmds...); err != nil {
		return nil, wrap("set deadlines and slots", err)
	}
	now, _ := cmds[len(cmds)-1].Val().(int64)
	given := map[string]int64{}
	for _, one := range running {
		given[one.Session] = now + lease.Milliseconds()
	}
	return given, nil
}

// movedOn lists the sessions that do not stand at their sequence any more.
func (s *Store) movedOn(ctx context.Context, list []Stated) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	cmds := make([]command, 0, len(list))
	for _, one := range list {
		seq := strconv.FormatUint(one.Seq, 10)
		cmds = append(cmds, plain(ctx, "getrange", s.keys.record(one.Record.Session), 0, len(seq)))
	}
	if err := s.flush.do(ctx, cmds...); err != nil {
		return nil, wrap("look at the records again", err)
	}
	var moved []string
	for i, one := range list {
		if text(cmds[i].Val()) != strconv.FormatUint(one.Seq, 10)+" " {
			moved = append(moved, one.Record.Session)
		}
	}
	return moved, nil
}

// settleClocks gives a session the clocks of the record that stands, until the
// record that they were made from is still the one. slot is the end of the slot's
// lease that it was given before.
func (s *Store) settleClocks(ctx context.Context, id string, slot int64, clocks func(session.Record) Clocks) error {
	for last := uint64(0); ; {
		get := plain(ctx, "get", s.keys.record(id))
		if err := s.flush.do1(ctx, get); err != nil {
			return wrap("read session "+id, err)
		}
		if errors.Is(get.Err(), redis.Nil) {
			return nil // wiped again, or forgotten
		}
		rec, seq, err := decodeRecord(id, text(get.Val()))
		if err != nil || seq == last {
			return err
		}
		last = seq
		given, err := s.setClocks(ctx, []Stated{{rec, seq}}, clocks)
		if err != nil {
			return err
		}
		if given[id] != 0 {
			slot = given[id]
		}
		if err := s.dropClocks(ctx, id, slot, clocks(rec)); err != nil {
			return err
		}
	}
}

// dropClocks takes away what a session has and c does not. A slot only if it is
// still the one that we gave: who wakes a session takes its slot first and writes
// the record then.
func (s *Store) dropClocks(ctx context.Context, id string, slot int64, c Clocks) error {
	var cmds []command
	if c.Idle == 0 {
		cmds = append(cmds, plain(ctx, "zrem", s.keys.due(Idle), id), plain(ctx, "del", s.keys.session(id).idle))
	}
	if c.Stale == 0 {
		cmds = append(cmds, plain(ctx, "zrem", s.keys.due(Stale), id))
	}
	if c.Watch == 0 {
		cmds = append(cmds, plain(ctx, "zrem", s.keys.due(Watch), id))
	}
	if !c.Slot && slot != 0 {
		cmds = append(cmds, s.slotCommand(ctx, slotUndoScript, id, strconv.FormatInt(slot, 10)))
	}
	if len(cmds) == 0 {
		return nil
	}
	return wrap("drop the clocks of session "+id, s.flush.do(ctx, cmds...))
}
