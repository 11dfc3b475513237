package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/wire"
)

// Publisher writes jobs. It may be used concurrently.
type Publisher struct {
	pub *natsx.Publisher
	ns  wire.Namespace
}

// NewPublisher returns a Publisher that sends through pub.
func NewPublisher(pub *natsx.Publisher, ns wire.Namespace) *Publisher {
	return &Publisher{pub: pub, ns: ns}
}

// PublishOptions says where a job goes.
type PublishOptions struct {
	Priority Priority
	Owner    string      // as a token of the subject
	Header   nats.Header // more headers, such as traceparent
}

// Published is a job that the queue has taken.
type Published struct {
	Session, Job string
	Subject      string
	Stream       string
	StreamSeq    uint64
	// Duplicate is true when the queue had the job already, from an earlier
	// publication with the same session and id. Of an owner's it does not say.
	Duplicate bool
}

// Publish checks a job as a worker would and writes it to JOBS. A job without an
// id gets one, so that it can be followed before it is accepted. It waits for
// the server's word until ctx ends; sending the same id in the same session again
// is safe. An *Invalid says what is wrong with the payload.
func (p *Publisher) Publish(ctx context.Context, kind Kind, payload Payload, o PublishOptions) (Published, error) {
	payload = withID(payload)
	body, err := json.Marshal(payload)
	if err != nil {
		return Published{}, fmt.Errorf("publish %s: %w", kind, err)
	}
	m := &nats.Msg{
		Subject: Address{Kind: kind, Priority: o.Priority, Owner: o.Owner}.Subject(p.ns),
		Header:  maps.Clone(o.Header),
		Data:    body,
	}
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	j, err := Decode(Raw{Subject: m.Subject, Header: m.Header, Data: body, Time: time.Now()}, p.ns)
	if err != nil {
		return Published{}, fmt.Errorf("publish %s: %w", kind, err)
	}
	// An id is unique in its session only, a message id in the whole stream. An owner's
	// is one that nobody can guess: a message that was stored with it before, by whomever,
	// would have the server drop this one. The workers know a job again by its own id.
	id := j.ID
	if o.Owner != "" {
		id = NewID()
	}
	m.Header.Set(nats.MsgIdHdr, j.Session+"."+id)
	ack, err := p.pub.Publish(ctx, point.Of("jobs", "publish"), m)
	if err != nil {
		return Published{}, fmt.Errorf("publish %s: %w", kind, err)
	}
	return Published{
		Session: j.Session, Job: j.ID, Subject: m.Subject,
		Stream: ack.Stream, StreamSeq: ack.Seq, Duplicate: ack.Duplicate,
	}, nil
}

// NewID returns an id for a job or session that nobody else has.
func NewID() string { return nuid.Next() }

// withID returns p with an id, in a copy if it has none: the caller's payload is
// not changed.
func withID(p Payload) Payload {
	if p.common().ID != "" {
		return p
	}
	c := reflect.New(reflect.TypeOf(p).Elem())
	c.Elem().Set(reflect.ValueOf(p).Elem())
	q := c.Interface().(Payload)
	q.common().ID = NewID()
	return q
}
