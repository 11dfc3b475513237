package worker

import (
	"sync"

	"github.com/sandjet/sandjet/internal/events"
)

// cancels is what of the jobs somebody asked to end. One watch a process feeds
// it, with all that was asked before it started.
type cancels struct {
	mu    sync.Mutex
	asked map[events.Job]events.CancelRequested
}

func newCancels() *cancels { return &cancels{asked: map[events.Job]events.CancelRequested{}} }

func (c *cancels) add(key events.Job, r events.CancelRequested) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[key] = r
}

func (c *cancels) has(key events.Job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.asked[key]
	return ok
}

func (c *cancels) reason(key events.Job) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.asked[key]
	switch {
	case !ok || r.Reason == "":
		return "cancelled"
	default:
		return "cancelled: " + r.Reason
	}
}

func (c *cancels) forget(key events.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, key)
}

// holds are the jobs in this worker's hands.
type holds struct {
	mu  sync.Mutex
	all map[events.Job]*hold
}

func newHolds() *holds { return &holds{all: map[events.Job]*hold{}} }

// add enters a hold and returns how to remove it.
func (s *holds) add(h *hold) (remove func()) {
	s.mu.Lock()
	s.all[h.key] = h
	s.mu.Unlock()
	if h.w.cancels.has(h.key) {
		h.request()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all[h.key] == h {
			delete(s.all, h.key)
		}
	}
}

// before returns the exclusive job of h's session that stands first here and
// before h. Jobs that were delivered together may reach their lane in any order.
func (s *holds) before(h *hold) (first *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.key.Session == h.key.Session && o.entry.Exclusive && o.entry.Origin < h.entry.Origin &&
			(first == nil || o.entry.Origin < first.entry.Origin) {
			first = o
		}
	}
	return first
}

// request passes a cancel on to the job, if it is here.
func (s *holds) request(key events.Job) {
	s.mu.Lock()
	h := s.all[key]
	s.mu.Unlock()
	if h != nil {
		h.request()
	}
}

func (s *holds) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
