package events

import (
	"sync"
	"time"
)

const (
	// hintLife is how long a message that passed by is looked for in the stream
	// before it is taken as refused.
	hintLife = 3 * time.Second
	maxHints = 256
	maxSeen  = 64
)

// hints are the ids of messages that passed by on a subject and have not been seen
// in the stream yet. A message passes by a moment before it is stored.
type hints struct {
	wake chan struct{}

	mu   sync.Mutex
	want map[string]time.Time
	late [maxSeen]string // read from the stream before they passed by
	n    int
}

func newHints() *hints {
	return &hints{wake: make(chan struct{}, 1), want: make(map[string]time.Time)}
}

// add notes a message that passes by.
func (h *hints) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.late {
		if l == id && id != "" {
			return
		}
	}
	if len(h.want) < maxHints {
		h.want[id] = time.Now()
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// seen notes a message that the stream has.
func (h *hints) seen(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.want[id]; ok {
		delete(h.want, id)
		return
	}
	h.late[h.n%maxSeen] = id
	h.n++
}

// pending reports whether there is a message to look for.
func (h *hints) pending() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, at := range h.want {
		if time.Since(at) > hintLife {
			delete(h.want, id)
		}
	}
	return len(h.want) > 0
}
