package worker

import (
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/events"
)

// outage is the jobs that were held back since E2B stopped answering. They come
// back one after the other, however many they are, so that few of them are
// fetched at a time and others get past them; and all at once when E2B is back.
type outage struct {
	hastener *hastener

	mu   sync.Mutex
	held map[events.Job]bool
}

const (
	// heldBackCost is by how much a job that was held back slows the fetching of
	// more: there are others like it in the queue.
	heldBackCost = 100 * time.Millisecond
	// outageSpread is between two jobs that come back to see.
	outageSpread = 500 * time.Millisecond
	// outageWaitMax is how long one is away at most.
	outageWaitMax = 5 * time.Minute
	// outageMost bounds what is remembered.
	outageMost = 10_000
)

func newOutage(h *hastener) *outage { return &outage{hastener: h, held: map[events.Job]bool{}} }

// hold notes a job that was held back, and returns for how long it is to go away
// if calls are held back for wait.
func (o *outage) hold(key events.Job, wait time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	others := len(o.held)
	if o.held[key] {
		others--
	}
	if others < outageMost {
		o.held[key] = true
	}
	return min(wait+time.Duration(others)*outageSpread, outageWaitMax)
}

// over brings back who was held back.
func (o *outage) over() {
	o.mu.Lock()
	held := o.held
	o.held = map[events.Job]bool{}
	o.mu.Unlock()
	for key := range held {
		o.hastener.add(key)
	}
}
