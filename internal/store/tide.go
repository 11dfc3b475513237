package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"
)

// Mark is a delivery of a durable consumer whose job has its place in its lane, or
// needs none.
type Mark struct {
	Consumer, Stream uint64 // its sequences
}

// Tide is how far the deliveries of a durable consumer have been marked.
type Tide struct {
	// Stream is the stream sequence up to which every message of the consumer that
	// was ever delivered has been marked.
	Stream uint64
	// Early is how many marks lie behind a gap: deliveries that got lost on the way,
	// or that are being worked on right now.
	Early int
	// Closed reports that this call has closed a gap that others may wait for.
	Closed bool
}

var (
	markScript       = newScript("mark")
	markUptoScript   = newScript("mark_upto")
	lanesKnownScript = newScript("lanes_known")
)

// Mark notes deliveries of a durable consumer and returns its tide. The jobs must
// have their places before the call is made, as their order is what the tide
// vouches for. Without marks it only looks.
//
// A consumer counts its deliveries without gaps, first ones in the order of the
// stream. So once all up to one are marked, every earlier job has its place.
func (s *Store) Mark(ctx context.Context, durable string, marks ...Mark) (Tide, error) {
	slices.SortFunc(marks, func(a, b Mark) int { return cmp.Compare(a.Consumer, b.Consumer) })
	args := []string{s.keys.tide(durable), s.keys.early(durable)}
	for _, m := range marks {
		args = append(args, strconv.FormatUint(m.Consumer, 10), strconv.FormatUint(m.Stream, 10))
	}
	cmd := markScript.eval(ctx, 2, args...)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return Tide{}, wrap("mark deliveries of "+durable, err)
	}
	out := reply(cmd)
	return Tide{Stream: uint64(out.int(0)), Early: int(out.int(1)), Closed: out.int(2) == 1}, nil
}

// MarkUpto says that the caller has read the stream and placed every job that was
// delivered up to there. It never takes the tide back.
func (s *Store) MarkUpto(ctx context.Context, durable string, m Mark) error {
	return wrap("mark deliveries of "+durable, s.flush.do1(ctx, markUptoScript.eval(ctx, 2,
		s.keys.tide(durable), s.keys.early(durable),
		strconv.FormatUint(m.Consumer, 10), strconv.FormatUint(m.Stream, 10))))
}

// lanesLease is the lease of who fills the lanes.
const lanesLease = "lanes"

// Lanes names the filling by which the lanes are known, as far as the last call
// has seen: empty if Redis was wiped or begun since and nobody has placed the jobs
// that wait. What a lane says then may leave out a job that comes earlier.
func (s *Store) Lanes() string {
	if v := s.life.lanes.Load(); v != nil {
		return *v
	}
	return ""
}

// BeginLanes makes the caller the one to fill the lanes, for ttl; ok is false
// while another one does.
func (s *Store) BeginLanes(ctx context.Context, holder string, ttl time.Duration) (filling string, ok bool, err error) {
	token, ok, err := s.Lease(ctx, lanesLease, holder, ttl)
	return strconv.FormatInt(token, 10) + " " + holder, ok, err
}

// DropLanes gives up what BeginLanes began.
func (s *Store) DropLanes(ctx context.Context, holder string) error {
	return s.ReleaseLease(ctx, lanesLease, holder)
}

// EndLanes says that all jobs which wait have been placed since BeginLanes gave
// out filling. ok is false if Redis was wiped again meanwhile or the time is over;
// then the lanes are as unknown as before.
func (s *Store) EndLanes(ctx context.Context, filling, holder string) (ok bool, err error) {
	cmd := lanesKnownScript.eval(ctx, 2, s.keys.lanes(), s.keys.lease(lanesLease), filling)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return false, wrap("fill lanes", err)
	}
	return done(cmd), s.DropLanes(ctx, holder)
}
