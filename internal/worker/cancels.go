package worker

import (
	"sync"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/store"
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

// entries lists what the jobs here have in their lanes.
func (s *holds) entries() (all []store.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		h.mu.Lock()
		if h.entered {
			all = append(all, h.entry)
		}
		if h.pushing != nil {
			all = append(all, *h.pushing)
		}
		h.mu.Unlock()
	}
	return all
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
