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

	mu      sync.Mutex
	change  *sync.Cond // queue, done or closed changed
	queue   []Record
	added   uint64
	done    uint64 // of those added: stored, or given up
	lost    int    // since the last record that was stored
	stuck   bool   // a Flush has waited in vain, and nothing was stored since
	closed  bool
	stopped bool

	// Of who writes alone.
	chain string
	n     uint64
	prev  string
	last  uint64 // stream sequence of the chain's newest record
}

// NewWriter returns a Writer for one process. Nothing is written before Run.
func NewWriter(js jetstream.JetStream, pub *natsx.Publisher, ns wire.Namespace, worker string, log *slog.Logger) *Writer {
	w := &Writer{js: js, pub: pub, ns: ns, worker: worker, log: log}
	w.change = sync.NewCond(&w.mu)
	return w
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
	w.change.Broadcast()
}

// Flush waits until all that was added before is stored, at most FlushLimit. An error
// says that it may not be. After one that has waited in vain the next do not wait, until
// a record is stored.
func (w *Writer) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, FlushLimit, fmt.Errorf("not stored within %s", FlushLimit))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.change.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for goal := w.added; w.done < goal; {
		switch {
		case ctx.Err() != nil:
			w.stuck = true
			return fmt.Errorf("audit: %d records: %w", goal-w.done, context.Cause(ctx))
		case w.stuck:
			return fmt.Errorf("audit: %d records: %w", goal-w.done, errStuck)
		}
		w.change.Wait()
	}
	return nil
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
	w.change.Broadcast()
}

// Run writes until Close has been called and all is written, or ctx ends.
func (w *Writer) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stopped = true
		w.change.Broadcast()
	})
	defer stop()
	for {
		r, ok := w.next()
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
		w.change.Broadcast()
		w.mu.Unlock()
		if err != nil {
			w.log.Error("audit record not written", "action", r.Action, "target", r.Target, "err", err)
		}
	}
}

// next waits for a record. A chain in which nothing was written is not closed.
func (w *Writer) next() (Record, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.closed && !w.stopped {
		w.change.Wait()
	}
	if w.stopped || len(w.queue) == 0 {
		return Record{}, false
	}
	r := w.queue[0]
	w.queue = w.queue[1:]
	if r.Action == closing && w.n == 0 && w.lost == 0 {
		w.done++
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
