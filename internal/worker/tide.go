package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// tide keeps the order of the lanes across workers. Each delivery from JOBS gives
// its job a place in the lane and is then marked in Redis; a consumer counts its
// deliveries without gaps, so once everything up to a job's own delivery is marked,
// no job that comes before it can turn up any more. Only then it may begin.
//
// A delivery that nobody marks, because its worker died or froze with it in hand,
// leaves a gap. It is closed by whoever waits behind it: by reading JOBS and placing
// the jobs found there. After a wipe of Redis the same is done for everything that
// was ever delivered, and for the schedules.
type tide struct {
	view  *store.Store
	queue *jobs.Queue
	nc    *nats.Conn
	ns    wire.Namespace
	log   *slog.Logger
	name  string // of the worker
	// patience is how long a gap may stand before it is taken for a loss.
	patience time.Duration
	lost     func() // says that Redis has been wiped
	parted   context.Context

	sub  *nats.Subscription
	wake chan struct{}

	mu      sync.Mutex
	pending []*arrival
	shores  map[string]*shore
	filling bool
	filled  chan struct{} // closed, and made anew, when the lanes may have become known
}

// arrival is one delivery on its way to its mark.
type arrival struct {
	durable string
	mark    store.Mark
	place   *store.Place // nil if the job needs none
	done    chan struct{}

	// Once done is closed:
	made bool // the place is new
	err  error
}

// shore is how far one consumer's deliveries are known to be marked.
type shore struct {
	upto    uint64 // stream sequence
	waiting map[chan struct{}]uint64
	timer   *time.Timer // runs while there is a gap or somebody waits
	armed   bool
	at      uint64    // upto when the gap was seen
	since   time.Time // and when; zero while there is none
	mending bool
}

// Calls between workers: the consumer's name, or this, and the sequence.
const lanesCall = "lanes"

func newTide(t *tide) (*tide, error) {
	t.wake = make(chan struct{}, 1)
	t.shores = map[string]*shore{}
	t.filled = make(chan struct{})
	sub, err := t.nc.Subscribe(t.ns.Subject(wakeSubject, "*"), t.heard)
	if err != nil {
		return nil, fmt.Errorf("listen for the tide: %w", err)
	}
	t.sub = sub
	return t, nil
}

func (t *tide) close() {
	_ = t.sub.Unsubscribe()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.shores {
		if s.timer != nil {
			s.timer.Stop()
		}
	}
}

// arrived takes note of a delivery, in order of its coming. It does not block.
func (t *tide) arrived(d *jobs.Delivery) {
	if d.Durable == jobs.DurableAgain || d.ConsumerSeq == 0 {
		return // it has its place, or is no delivery one could count
	}
	a := &arrival{
		durable: d.Durable, mark: store.Mark{Consumer: d.ConsumerSeq, Stream: d.StreamSeq}, done: make(chan struct{}),
	}
	if d.Err == nil {
		a.place = placeOf(d.Job)
	}
	d.Note = a
	t.mu.Lock()
	t.pending = append(t.pending, a)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// placeOf is the place that a job is to have, or nil: one that is not exclusive has
// none, and one that is not due yet is in nobody's way.
func placeOf(j *jobs.Job) *store.Place {
	if !j.Exclusive() || time.Now().Before(j.NotBefore()) {
		return nil
	}
	return &store.Place{Session: j.Session, Job: j.ID, Origin: j.Origin}
}

// run places and marks what arrives, until ctx ends.
func (t *tide) run(ctx context.Context) {
	if err := t.view.Ping(ctx); err == nil {
		t.know()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		t.mu.Lock()
		batch := t.pending
		t.pending = nil
		t.mu.Unlock()
		t.land(ctx, batch)
		t.know()
	}
}

// land gives the jobs of a batch their places and, when they have them, marks the
// deliveries. What fails stays unmarked: the gap is closed by reading the stream.
func (t *tide) land(ctx context.Context, batch []*arrival) {
	var places []store.Place
	for _, a := range batch {
		if a.place != nil {
			places = append(places, *a.place)
		}
	}
	made, err := t.view.Place(ctx, places...)
	marks := map[string][]store.Mark{}
	for _, a := range batch {
		if a.err = err; err != nil {
			continue
		}
		if a.place != nil {
			a.made, made = made[0], made[1:]
		}
		marks[a.durable] = append(marks[a.durable], a.mark)
	}
	failed := map[string]error{}
	for durable, m := range marks {
		failed[durable] = t.mark(ctx, durable, m...)
	}
	for _, a := range batch {
		if a.err == nil {
			a.err = failed[a.durable]
		}
		close(a.done)
	}
}

// mark marks deliveries, or only looks, and tells who waits.
func (t *tide) mark(ctx context.Context, durable string, marks ...store.Mark) error {
	got, err := t.view.Mark(ctx, durable, marks...)
	if err != nil {
		return err
	}
	if got.Closed {
		t.call(durable, got.Stream)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.shore(durable)
	t.rise(s, got.Stream)
	switch {
	case got.Early == 0:
		s.since = time.Time{}
	case s.since.IsZero() || s.at != got.Stream:
		s.at, s.since = got.Stream, time.Now()
	}
	t.arm(durable, s)
	return nil
}

// shore returns a consumer's; t.mu is held.
func (t *tide) shore(durable string) *shore {
	s := t.shores[durable]
	if s == nil {
		s = &shore{waiting: map[chan struct{}]uint64{}}
		t.shores[durable] = s
	}
	return s
}

// rise wakes who has waited for no more than that; t.mu is held.
func (t *tide) rise(s *shore, upto uint64) {
	if upto <= s.upto {
		return
	}
	s.upto = upto
	for ch, seq := range s.waiting {
		if seq <= upto {
			delete(s.waiting, ch)
			close(ch)
		}
	}
}

// arm has somebody look after a while, as long as there is a gap or anybody waits;
// t.mu is held. The calls of other workers come sooner.
func (t *tide) arm(durable string, s *shore) {
	if s.armed || s.since.IsZero() && len(s.waiting) == 0 || t.parted.Err() != nil {
		return
	}
	s.armed = true
	look := func() { t.look(durable) }
	if s.timer == nil {
		s.timer = time.AfterFunc(t.patience, look)
	} else {
		s.timer.Reset(t.patience)
	}
}

// look asks Redis how the tide is, and mends a gap that has stood for too long.
func (t *tide) look(durable string) {
	ctx, cancel := context.WithTimeout(t.parted, 30*time.Second)
	defer cancel()
	t.mu.Lock()
	t.shore(durable).armed = false
	t.mu.Unlock()
	err := t.mark(ctx, durable)
	t.mu.Lock()
	s := t.shore(durable)
	t.arm(durable, s) // also when Redis did not answer
	mend := err == nil && !s.mending && !s.since.IsZero() && time.Since(s.since) >= t.patience && t.view.Lanes() != ""
	if mend {
		s.mending = true
	}
	from := s.at
	t.mu.Unlock()
	if !mend {
		return
	}
	if err := t.mend(ctx, durable, from); err != nil && t.parted.Err() == nil {
		t.log.Warn("gap in the deliveries not closed, trying again", "consumer", durable, "err", err)
	}
	t.mu.Lock()
	s.mending = false
	t.mu.Unlock()
}

// await returns when every job that was delivered before a's has its place.
func (t *tide) await(ctx context.Context, a *arrival, wish <-chan struct{}) error {
	select {
	case <-a.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if a.err != nil {
		return fmt.Errorf("take a place in the lane: %w", a.err)
	}
	t.mu.Lock()
	s := t.shore(a.durable)
	if s.upto >= a.mark.Stream {
		t.mu.Unlock()
		return nil
	}
	risen := make(chan struct{})
	s.waiting[risen] = a.mark.Stream
	t.arm(a.durable, s)
	t.mu.Unlock()
	var err error
	select {
	case <-risen:
		return nil
	case <-wish:
		err = errCancelled
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.mu.Lock()
	delete(s.waiting, risen)
	t.mu.Unlock()
	return err
}

// call tells the other workers that the tide has risen.
func (t *tide) call(what string, upto uint64) {
	_ = t.nc.Publish(t.ns.Subject(wakeSubject, what), strconv.AppendUint(nil, upto, 10))
}

func (t *tide) heard(m *nats.Msg) {
	rest, ok := t.ns.Trim(m.Subject)
	if !ok {
		return
	}
	tokens := splitSubject(rest)
	upto, err := strconv.ParseUint(string(m.Data), 10, 64)
	if len(tokens) != 2 || err != nil {
		return
	}
	if tokens[1] == lanesCall {
		t.refresh()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.shores[tokens[1]]; s != nil {
		t.rise(s, upto)
	}
}
