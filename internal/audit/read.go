package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/wire"
)

// Stored is a record as the stream holds it.
type Stored struct {
	Seq    uint64
	Record Record
	Hash   string // of what is stored
	Says   string // the hash in its header
	Err    error  // what is stored is no record
}

// span is the part of the stream that is read.
type span struct{ first, last uint64 }

// Read lists the records from the oldest on, as many as there are at the call. An error
// ends it.
func Read(ctx context.Context, js jetstream.JetStream, ns wire.Namespace) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		_, err := read(ctx, js, ns, func(s Stored) bool { return yield(s, nil) })
		if err != nil {
			yield(Stored{}, err)
		}
	}
}

func read(ctx context.Context, js jetstream.JetStream, ns wire.Namespace, see func(Stored) bool) (span, error) {
	name := ns.Stream(Stream)
	s, err := js.Stream(ctx, name)
	if err != nil {
		return span{}, fmt.Errorf("read %s: %w", name, err)
	}
	state := s.CachedInfo().State
	sp := span{state.FirstSeq, state.LastSeq}
	if state.Msgs == 0 {
		return sp, nil
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return sp, fmt.Errorf("read %s: %w", name, err)
	}
	it, err := c.Messages()
	if err != nil {
		return sp, fmt.Errorf("read %s: %w", name, err)
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for left := state.Msgs; left > 0; {
		m, err := it.Next()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return sp, fmt.Errorf("read %s: %w", name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return sp, fmt.Errorf("read %s: %w", name, err)
		}
		out := Stored{Seq: meta.Sequence.Stream, Hash: Hash(m.Data()), Says: m.Headers().Get(HeaderHash)}
		if out.Seq > sp.last {
			return sp, nil // written since
		}
		if out.Err = json.Unmarshal(m.Data(), &out.Record); out.Err == nil && ns.Subject("audit", out.Record.Chain) != m.Subject() {
			out.Err = fmt.Errorf("it says chain %q and stands on %s", out.Record.Chain, m.Subject())
		}
		if !see(out) {
			return sp, nil
		}
		left = min(left-1, meta.NumPending)
	}
	return sp, nil
}
