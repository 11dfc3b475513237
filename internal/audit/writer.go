package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// maxQueue bounds the records that wait; beyond it they are lost, and counted.
const maxQueue = 10_000

var errStuck = errors.New("the stream takes none at present")

// Writer writes one chain. It may be used concurrently. Run does the writing.
type Writer struct {
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

// NewWriter returns a Writer for one process. Nothing is written before Run.
func NewWriter(js jetstream.JetStream, pub *natsx.Publisher, ns wire.Namespace, worker string, log *slog.Logger) *Writer {
	return &Writer{js: js, pub: pub, ns: ns, worker: worker, log: log, more: make(chan struct{}, 1)}
}

// Add has r written, after those added before. It does not wait. Place, hashes and the
// worker are filled in, the time if it is zero.
func (w *Writer) Add(r Record) {
	if r.Time.IsZero() {
		r.Time = time.Now().UTC()
	}
	r.Detail = clip(r.Detail, maxDetail)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.added++
	if w.closed || len(w.queue) >= maxQueue {
		w.lost++
		w.done++
		return
	}
	w.queue = append(w.queue, r)
	w.call()
}

// call wakes who writes.
func (w *Writer) call() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// Flush waits until all that was added before is stored, at most FlushLimit. An error
// says that it may not be. After one that has waited in vain the next do not wait, until
// a record is stored.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	goal := w.added
	if w.done >= goal || w.stuck {
		defer w.mu.Unlock()
		return w.behind(goal, errStuck)
	}
	over := make(chan struct{})
	w.waiters = append(w.waiters, waiter{goal, over})
	w.mu.Unlock()

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
	w.mu.Lock()
	defer w.mu.Unlock()
	if cause == nil {
		return w.behind(goal, errStuck)
	}
	err := w.behind(goal, cause)
	if w.stuck = w.stuck || err != nil; w.stuck {
		w.release(w.added) // nobody else waits in vain
	}
	return err
}

// behind says how many records are missing up to goal, if any.
func (w *Writer) behind(goal uint64, cause error) error {
	if w.done >= goal {
		return nil
	}
	return fmt.Errorf("audit: %d records: %w", goal-w.done, cause)
}

// release lets those go on who wait for no more than n records. Goals only grow, so
// they stand in their order: each record wakes whom it concerns.
func (w *Writer) release(n uint64) {
	for len(w.waiters) > 0 && w.waiters[0].goal <= n {
		close(w.waiters[0].over)
		w.waiters = w.waiters[1:]
	}
}

// Close ends the chain in good order: what was added is written, then the record that
// closes it. Run returns then, or when ctx of Run ends.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.queue = append(w.queue, Record{Time: time.Now().UTC(), Action: closing, Outcome: Closed})
	w.added++
	w.closed = true
	w.call()
}

// Run writes until Close has been called and all is written, or ctx ends.
func (w *Writer) Run(ctx context.Context) {
	for {
		r, ok := w.next(ctx)
		if !ok {
			return
		}
		err := w.write(ctx, r)
		w.mu.Lock()
		if err != nil {
			w.lost += 1 + r.Lost
		} else {
			w.stuck = false
		}
		w.done++
		w.release(w.done)
		w.mu.Unlock()
		if err != nil {
			w.log.Error("audit record not written", "action", r.Action, "target", r.Target, "err", err)
		}
	}
}

// next waits for a record. A chain in which nothing was written is not closed.
func (w *Writer) next(ctx context.Context) (Record, bool) {
	for ctx.Err() == nil {
		w.mu.Lock()
		if len(w.queue) > 0 {
			defer w.mu.Unlock()
			return w.pop()
		}
		closed := w.closed
		w.mu.Unlock()
		if closed {
			break
		}
		select {
		case <-w.more:
		case <-ctx.Done():
		}
	}
	return Record{}, false
}

func (w *Writer) pop() (Record, bool) {
	r := w.queue[0]
	w.queue = w.queue[1:]
	if r.Action == closing && w.n == 0 && w.lost == 0 {
		w.done++
		w.release(w.done)
		return Record{}, false
	}
	r.Lost, w.lost = w.lost, 0
	return r, true
}

// write stores a record. It tries for as long as ctx lasts, unless the server refuses.
func (w *Writer) write(ctx context.Context, r Record) error {
	if w.chain == "" {
		w.begin(ctx)
	}
	for try := 0; ; try++ {
		err := w.once(ctx, r)
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
func (w *Writer) begin(ctx context.Context) {
	w.chain, w.n, w.prev, w.last = w.worker+"."+nuid.Next(), 0, "", 0
	_ = ctx
}

// once sends the record as the next one of the chain.
func (w *Writer) once(ctx context.Context, r Record) error {
	r.V, r.Chain, r.N, r.Prev, r.Worker = 1, w.chain, w.n+1, w.prev, w.worker
	if r.N == 1 {
		r.After = w.newest(ctx)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	hash := Hash(data)
	m := &nats.Msg{Subject: w.ns.Subject("audit", w.chain), Header: nats.Header{}, Data: data}
	m.Header.Set(HeaderHash, hash)
	m.Header.Set(nats.MsgIdHdr, w.chain+"."+strconv.FormatUint(r.N, 10))
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.last, 10))
	ack, err := w.pub.Publish(ctx, point.Of("audit", "append"), m)
	if errors.Is(err, natsx.ErrStale) {
		ack.Seq, err = w.stored(ctx, m.Subject, hash, err)
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	w.n, w.prev, w.last = r.N, hash, ack.Seq
	return nil
}

// stored finds a record that an earlier send has stored, whose answer was lost.
// Anything else in our place means that the chain is not ours alone: the next record
// begins another.
func (w *Writer) stored(ctx context.Context, subject, hash string, cause error) (uint64, error) {
	s, err := w.js.Stream(ctx, w.ns.Stream(Stream))
	if err != nil {
		return 0, errors.Join(natsx.ErrUnavailable, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if err == nil && m.Header.Get(HeaderHash) == hash {
		return m.Sequence, nil
	}
	w.chain = ""
	return 0, cause
}

// newest is the stream's newest record; nil if there is none, or it cannot be read.
func (w *Writer) newest(ctx context.Context) *Head {
	s, err := w.js.Stream(ctx, w.ns.Stream(Stream))
	if err != nil || s.CachedInfo().State.LastSeq == 0 {
		return nil
	}
	m, err := s.GetMsg(ctx, s.CachedInfo().State.LastSeq)
	if err != nil {
		return nil
	}
	return &Head{Seq: m.Sequence, Hash: Hash(m.Data)}
}
