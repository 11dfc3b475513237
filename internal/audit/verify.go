package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/wire"
)

// Report is what Verify found.
type Report struct {
	Records int     `json:"records"`
	First   uint64  `json:"first,omitempty"` // oldest record that the stream holds
	Last    uint64  `json:"last,omitempty"`
	Chains  []Chain `json:"chains"`
	Faults  []Fault `json:"faults"`
}

// Whole reports whether nothing was removed, changed or moved.
func (r Report) Whole() bool { return len(r.Faults) == 0 }

// Chain is one process's records.
type Chain struct {
	Name    string    `json:"name"`
	Worker  string    `json:"worker"`
	Records int       `json:"records"`
	Head    string    `json:"head"` // hash of the newest record
	HeadSeq uint64    `json:"head_seq,omitempty"`
	Closed  bool      `json:"closed"` // in good order; else its worker runs, or has died
	Lost    int       `json:"lost,omitempty"`
	Begins  time.Time `json:"begins"`
	Ends    time.Time `json:"ends"`
}

// Fault is a place where the records are not as they were written.
type Fault struct {
	Seq   uint64 `json:"seq,omitempty"` // in the stream, where it shows
	Chain string `json:"chain,omitempty"`
	N     uint64 `json:"n,omitempty"` // in the chain
	What  string `json:"what"`
}

// Verify reads all records and compares, also with the heads of earlier reports that
// were kept elsewhere: whoever writes the stream anew as a whole cannot write those. An
// error says that they could not be read.
func Verify(ctx context.Context, js jetstream.JetStream, ns wire.Namespace, kept ...Report) (Report, error) {
	v := verifier{chains: map[string]*link{}, hashes: map[uint64]string{}}
	sp, err := read(ctx, js, ns, func(s Stored) bool { v.see(s); return true })
	if err != nil {
		return Report{}, err
	}
	if v.at < sp.last && sp.last > 0 {
		v.fault(Fault{Seq: v.at + 1, What: fmt.Sprintf("removed: %s", spell(v.at+1, sp.last))})
	}
	for _, r := range kept {
		v.compare(r, sp)
	}
	return v.report(sp), nil
}

// compare looks for the heads of an earlier report. What the stream has let go of since
// by its limits is not to be found any more.
func (v *verifier) compare(kept Report, sp span) {
	if kept.Last > sp.last {
		v.fault(Fault{Seq: sp.last, What: fmt.Sprintf("an older copy, or another stream: it ends here, and ended at record %d when its heads were kept", kept.Last)})
	}
	for _, c := range kept.Chains {
		if now, there := v.hashes[c.HeadSeq]; there && now != c.Head { // holes are told as such
			v.fault(Fault{Seq: c.HeadSeq, Chain: c.Name, What: "changed or moved since its hash was kept"})
		}
	}
}

// verifier goes through the records in the order of the stream.
type verifier struct {
	at     uint64 // sequence of the record before
	first  uint64
	chains map[string]*link
	order  []string
	hashes map[uint64]string
	faults []Fault
	n      int
}

// link is how far a chain has come.
type link struct {
	Chain
	n uint64
}

func (v *verifier) fault(f Fault) { v.faults = append(v.faults, f) }

func (v *verifier) see(s Stored) {
	if v.at == 0 {
		v.first = s.Seq
	} else if s.Seq > v.at+1 {
		v.fault(Fault{Seq: v.at + 1, What: "removed: " + spell(v.at+1, s.Seq-1)})
	}
	v.at, v.n = s.Seq, v.n+1
	v.hashes[s.Seq] = s.Hash
	if s.Err != nil {
		v.fault(Fault{Seq: s.Seq, What: "changed, or written by somebody else: " + s.Err.Error()})
		return
	}
	if s.Hash != s.Says {
		v.fault(Fault{Seq: s.Seq, Chain: s.Record.Chain, N: s.Record.N, What: "changed: its header has another hash"})
	}
	v.follow(s)
}

// follow compares a record with the one before it in its chain.
func (v *verifier) follow(s Stored) {
	r := s.Record
	c := v.chains[r.Chain]
	if c == nil {
		c = &link{Chain: Chain{Name: r.Chain, Worker: r.Worker, Begins: r.Time}}
		v.chains[r.Chain] = c
		v.order = append(v.order, r.Chain)
		v.start(s)
	} else {
		v.next(c, s)
	}
	c.n = max(c.n, r.N)
	c.Head, c.HeadSeq, c.Ends, c.Closed = s.Hash, s.Seq, r.Time, r.Action == closing
	c.Records++
	c.Lost += r.Lost
}

// start looks at the first record that there is of a chain. Where the stream has let go
// of its oldest records it may be any.
func (v *verifier) start(s Stored) {
	r := s.Record
	at := func(what string, args ...any) {
		v.fault(Fault{Seq: s.Seq, Chain: r.Chain, N: r.N, What: fmt.Sprintf(what, args...)})
	}
	switch {
	case r.N > 1 && v.first == 1:
		at("removed or moved: %s of its chain", spell(1, r.N-1))
	case r.N == 1 && r.Prev != "":
		at("changed: the first of a chain names one before it")
	case r.After == nil || r.After.Seq < v.first:
	case r.After.Seq >= s.Seq:
		at("moved, or records before it were removed: it was written after record %d", r.After.Seq)
	case v.hashes[r.After.Seq] != r.After.Hash:
		at("record %d was removed or changed since: it had another hash when this chain began", r.After.Seq)
	}
}

func (v *verifier) next(c *link, s Stored) {
	r := s.Record
	at := func(what string, args ...any) {
		v.fault(Fault{Seq: s.Seq, Chain: r.Chain, N: r.N, What: fmt.Sprintf(what, args...)})
	}
	switch {
	case r.N <= c.n:
		at("moved: it stands after number %d of its chain", c.n)
	case r.N > c.n+1:
		at("removed or moved: %s of its chain, before it", spell(c.n+1, r.N-1))
	case r.Prev != c.Head:
		at("the record before it in its chain, number %d, was changed, or this one was", c.n)
	}
	if c.Closed {
		at("its chain was closed before it")
	}
}

func (v *verifier) report(sp span) Report {
	out := Report{Records: v.n, First: v.first, Last: sp.last, Chains: []Chain{}, Faults: v.faults}
	if out.Faults == nil {
		out.Faults = []Fault{}
	}
	for _, name := range v.order {
		out.Chains = append(out.Chains, v.chains[name].Chain)
	}
	return out
}

func spell(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("record %d", from)
	}
	return fmt.Sprintf("records %d to %d", from, to)
}
