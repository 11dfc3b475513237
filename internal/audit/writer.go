package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/wire"
)

// FlushLimit is how long an end waits for its records.
const FlushLimit = 5 * time.Second

// lanes is how many chains a Writer writes side by side. One record at a time is on
// its way in each, so that they stand in their order whatever is lost on it; with one
// chain alone every job's end would wait for the records of all others before it.
const lanes = 4

// maxQueue bounds the records that wait; beyond it they are lost, and counted.
const maxQueue = 10_000 / lanes

var errStuck = errors.New("the stream takes none at present")

// Writer writes the records of one process, those of a session in one chain. It may be
// used concurrently. Run does the writing.
type Writer struct{ lanes [lanes]*lane }

// NewWriter returns a Writer for one process. Nothing is written before Run.
func NewWriter(js jetstream.JetStream, pub *natsx.Publisher, ns wire.Namespace, worker string, log *slog.Logger) *Writer {
	w := &Writer{}
	for i := range w.lanes {
		w.lanes[i] = &lane{js: js, pub: pub, ns: ns, worker: worker, log: log, more: make(chan struct{}, 1)}
	}
	return w
}

// of is where the records of a session are written.
func (w *Writer) of(session string) *lane {
	h := fnv.New32a()
	_, _ = h.Write([]byte(session))
	return w.lanes[h.Sum32()%lanes]
}

// Add has r written, after those of its session that were added before. It does not
// wait. Place, hashes and the worker are filled in, the time if it is zero.
func (w *Writer) Add(r Record) { w.of(r.Session).add(r) }

// Flush waits until all that was added of a session before is stored, at most
// FlushLimit. An error says that it may not be. After one that has waited in vain the
// next do not wait, until a record is stored.
func (w *Writer) Flush(ctx context.Context, session string) error {
	return w.of(session).flush(ctx)
}

// Close ends the chains in good order: what was added is written, then the records that
// close them. Run returns then, or when ctx of Run ends.
func (w *Writer) Close() {
	for _, l := range w.lanes {
		l.close()
	}
}

// Run writes until Close has been called and all is written, or ctx ends.
func (w *Writer) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, l := range w.lanes {
		wg.Go(func() { l.run(ctx) })
	}
	wg.Wait()
}

// lane writes one chain.
type lane struct {
	js     jetstream.JetStream
	pub    *natsx.Publisher
	ns     wire.Namespace
	worker string
	log    *slog.Logger

	more chan struct{} // something was added, or the writer closed

	mu      sync.Mutex
	queue   []Record
	added   uint64
	done    uint64   // of those added: stored, or given up
	waiters []waiter // by goal
	lost    int      // since the last record that was stored
	stuck   bool     // a Flush has waited in vain, and nothing was stored since
	closed  bool

	// Of who writes alone.
	chain string
	n     uint64
	prev  string
	last  uint64 // stream sequence of the chain's newest record
}

// waiter is a Flush: the channel is closed once goal records are done, or the writer is
// stuck.
type waiter struct {
	goal uint64
	over chan struct{}
}

func (l *lane) add(r Record) {
	if r.Time.IsZero() {
		r.Time = time.Now().UTC()
	}
	r.Detail = clip(r.Detail, maxDetail)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.added++
	if l.closed || len(l.queue) >= maxQueue {
		l.lost++
		l.done++
		return
	}
	l.queue = append(l.queue, r)
	l.call()
}

// call wakes who writes.
func (l *lane) call() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *lane) flush(ctx context.Context) error {
	l.mu.Lock()
	goal := l.added
	if l.done >= goal || l.stuck {
		defer l.mu.Unlock()
		return l.behind(goal, errStuck)
	}
	over := make(chan struct{})
	l.waiters = append(l.waiters, waiter{goal, over})
	l.mu.Unlock()

	t := time.NewTimer(FlushLimit)
	defer t.Stop()
	var cause error
	select {
	case <-over:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-t.C:
		cause = fmt.Errorf("not stored within %s", FlushLimit)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cause == nil {
		return l.behind(goal, errStuck)
	}
	err := l.behind(goal, cause)
	if l.stuck = l.stuck || err != nil; l.stuck {
		l.release(l.added) // nobody else waits in vain
	}
	return err
}

// behind says how many records are missing up to goal, if any.
func (l *lane) behind(goal uint64, cause error) error {
	if l.done >= goal {
		return nil
	}
	return fmt.Errorf("audit: %d records: %w", goal-l.done, cause)
}

// release lets those go on who wait for no more than n records. Goals only grow, so
// they stand in their order: each record wakes whom it concerns.
func (l *lane) release(n uint64) {
	for len(l.waiters) > 0 && l.waiters[0].goal <= n {
		close(l.waiters[0].over)
		l.waiters = l.waiters[1:]
	}
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.queue = append(l.queue, Record{Time: time.Now().UTC(), Action: closing, Outcome: Closed})
	l.added++
	l.closed = true
	l.call()
}

func (l *lane) run(ctx context.Context) {
	for {
		r, ok := l.next(ctx)
		if !ok {
			return
		}
		err := l.write(ctx, r)
		l.mu.Lock()
		if err != nil {
			l.lost += 1 + r.Lost
		} else {
			l.stuck = false
		}
		l.done++
		l.release(l.done)
		l.mu.Unlock()
		if err != nil {
			l.log.Error("audit record not written", "action", r.Action, "target", r.Target, "err", err)
		}
	}
}

// next waits for a record. A chain in which nothing was written is not closed.
func (l *lane) next(ctx context.Context) (Record, bool) {
	for ctx.Err() == nil {
		l.mu.Lock()
		if len(l.queue) > 0 {
			defer l.mu.Unlock()
			return l.pop()
		}
		closed := l.closed
		l.mu.Unlock()
		if closed {
			break
		}
		select {
		case <-l.more:
		case <-ctx.Done():
		}
	}
	return Record{}, false
}

func (l *lane) pop() (Record, bool) {
	r := l.queue[0]
	l.queue = l.queue[1:]
	if r.Action == closing && l.n == 0 && l.lost == 0 {
		l.done++
		l.release(l.done)
		return Record{}, false
	}
	r.Lost, l.lost = l.lost, 0
	return r, true
}

// write stores a record. It tries for as long as ctx lasts, unless the server refuses.
func (l *lane) write(ctx context.Context, r Record) error {
	if l.chain == "" {
		l.begin(ctx)
	}
	for try := 0; ; try++ {
		err := l.once(ctx, r)
		var refused *natsx.APIError
		switch {
		case err == nil, ctx.Err() != nil, errors.As(err, &refused) && !errors.Is(err, natsx.ErrBusy) && !errors.Is(err, natsx.ErrUnavailable):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(time.Second, 5*time.Millisecond<<min(try, 10))):
		}
	}
}

// begin starts a chain.
func (l *lane) begin(ctx context.Context) {
	l.chain, l.n, l.prev, l.last = l.worker+"."+nuid.Next(), 0, "", 0
	_ = ctx
}

// once sends the record as the next one of the chain.
func (l *lane) once(ctx context.Context, r Record) error {
	r.V, r.Chain, r.N, r.Prev, r.Worker = 1, l.chain, l.n+1, l.prev, l.worker
	if r.N == 1 {
		r.After = l.newest(ctx)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	hash := Hash(data)
	m := &nats.Msg{Subject: l.ns.Subject("audit", l.chain), Header: nats.Header{}, Data: data}
	m.Header.Set(HeaderHash, hash)
	m.Header.Set(nats.MsgIdHdr, l.chain+"."+strconv.FormatUint(r.N, 10))
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(l.last, 10))
	ack, err := l.pub.Publish(ctx, point.Of("audit", "append"), m)
	if errors.Is(err, natsx.ErrStale) {
		ack.Seq, err = l.stored(ctx, m.Subject, hash, err)
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	l.n, l.prev, l.last = r.N, hash, ack.Seq
	return nil
}

// stored finds a record that an earlier send has stored, whose answer was lost.
// Anything else in our place means that the chain is not ours alone: the next record
// begins another.
func (l *lane) stored(ctx context.Context, subject, hash string, cause error) (uint64, error) {
	s, err := l.js.Stream(ctx, l.ns.Stream(Stream))
	if err != nil {
		return 0, errors.Join(natsx.ErrUnavailable, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if err == nil && m.Header.Get(HeaderHash) == hash {
		return m.Sequence, nil
	}
	l.chain = ""
	return 0, cause
}

// newest is the stream's newest record; nil if there is none, or it cannot be read.
func (l *lane) newest(ctx context.Context) *Head {
	s, err := l.js.Stream(ctx, l.ns.Stream(Stream))
	if err != nil || s.CachedInfo().State.LastSeq == 0 {
		return nil
	}
	m, err := s.GetMsg(ctx, s.CachedInfo().State.LastSeq)
	if err != nil {
		return nil
	}
	return &Head{Seq: m.Sequence, Hash: Hash(m.Data)}
}
