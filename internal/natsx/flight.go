package natsx

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	forever    = time.Duration(math.MaxInt64)
	retryWait  = 250 * time.Millisecond // before a send that found no stream, or no leader, is repeated
	sweepEvery = 100 * time.Millisecond
	maxTries   = 3 // doublings of the wait for an ack
)

var errNoStream = errors.New("no stream listens on the subject")

// flight is a message that waits for its answer.
type flight struct {
	id    uint64
	msg   *nats.Msg
	done  func(Ack, error)
	until time.Duration // when done gets ErrNoAck, on the publisher's clock
	at    time.Duration // last send, or when to send again
	tries int           // sends after the first, up to maxTries
	why   error         // why it is sent again
	// unanswered is true once a send was repeated without an answer to it: from
	// then on a refusal does not prove that the message is not stored.
	unanswered bool

	in         *queue
	prev, next *flight
}

var spare = sync.Pool{New: func() any { return new(flight) }}

// land answers a flight that the caller has taken.
func (p *Publisher) land(f *flight, a Ack, err error) {
	done := f.done
	*f = flight{}
	spare.Put(f)
	defer p.landed()
	done(a, err)
}

// queue is a list of flights.
type queue struct{ head, tail *flight }

func (q *queue) push(f *flight) {
	f.in, f.prev, f.next = q, q.tail, nil
	if q.tail == nil {
		q.head = f
	} else {
		q.tail.next = f
	}
	q.tail = f
}

func (q *queue) remove(f *flight) {
	if f.prev == nil {
		q.head = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		q.tail = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.in, f.prev, f.next = nil, nil, nil
}

// retry lets a flight be sent again in a while. Its last send was answered, and
// not stored.
func (p *Publisher) retry(id uint64, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flights[id]
	if f == nil {
		return
	}
	f.in.remove(f)
	f.why, f.at = why, p.now()+retryWait
	p.again.push(f)
}

// sweep is the one goroutine that watches all flights: it sends again what got no
// answer and gives up what is past its time. It sleeps when nothing is in flight.
func (p *Publisher) sweep() {
	defer close(p.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	status := p.status
	for {
		select {
		case <-p.quit:
			return
		case <-p.wake:
			tick.Reset(sweepEvery)
		case <-tick.C:
			p.pass(p.ackWait)
		case s, ok := <-status:
			switch {
			case !ok:
				status = nil
			case s == nats.CONNECTED:
				p.pass(0) // acks that were under way are lost: ask again at once
			case s == nats.CLOSED:
				p.abandon(nats.ErrConnectionClosed)
			}
		}
		if p.mayRest() {
			tick.Stop()
		}
	}
}

// mayRest notes that the sweeper sleeps until the next flight.
func (p *Publisher) mayRest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asleep = len(p.flights) == 0
	return p.asleep
}

// pass sends again what waits for longer than wait, or whose time to be repeated
// has come.
func (p *Publisher) pass(wait time.Duration) {
	dead, resend := p.due(wait)
	for _, f := range dead {
		p.land(f, Ack{}, p.overdue(f))
	}
	for _, id := range resend {
		p.resend(id)
	}
}

// due takes what is past its time off the books and lists what to send again.
func (p *Publisher) due(wait time.Duration) (dead []*flight, resend []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for f := p.sent.head; f != nil; {
		next := f.next
		switch {
		case now >= f.until:
			dead = append(dead, f)
			p.drop(f)
		case now-f.at >= wait<<f.tries && f.msg.Header.Get(nats.MsgIdHdr) != "":
			f.unanswered = true
			resend = append(resend, f.id)
		}
		f = next
	}
	for f := p.again.head; f != nil; {
		next := f.next
		switch {
		case now >= f.until:
			dead = append(dead, f)
			p.drop(f)
		case now >= f.at:
			resend = append(resend, f.id)
		}
		f = next
	}
	return dead, resend
}

// resend sends a flight again, if it still waits. It holds p.mu meanwhile, so that
// nobody is given the message back while it is being written.
func (p *Publisher) resend(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flights[id]
	if f == nil {
		return
	}
	f.in.remove(f)
	f.at = p.now()
	f.tries = min(f.tries+1, maxTries)
	if err := p.nc.PublishMsg(f.msg); err != nil {
		f.why, f.at = err, f.at+retryWait
		p.again.push(f)
		return
	}
	p.sent.push(f)
}

func (p *Publisher) overdue(f *flight) error {
	if f.why != nil {
		return p.noAck(f.msg.Subject, fmt.Errorf("gave up after %s: %w", p.limit, f.why))
	}
	return p.noAck(f.msg.Subject, fmt.Errorf("gave up after %s", p.limit))
}

// abandon answers all flights with cause.
func (p *Publisher) abandon(cause error) {
	for _, f := range p.takeAll() {
		p.land(f, Ack{}, fmt.Errorf("publish %s: %w: %w", f.msg.Subject, cause, ErrNoAck))
	}
}
