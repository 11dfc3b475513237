package local

import (
	"context"
	"sync"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// hub hands a command's events to everybody who listens. Each listener takes
// each event before the next is read: the slowest sets the pace for all, as
// with envd. Nobody listening means that events are dropped. The zero value is
// ready.
type hub struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
	closed    bool
}

// listener is one stream to a client.
type listener struct {
	events chan *process.ProcessEvent
	gone   context.Context //nolint:containedctx // the stream's own
	over   chan struct{}   // closed after the last event
}

// listen joins. On a hub that is closed the listener is over at once.
func (h *hub) listen(ctx context.Context) *listener {
	l := &listener{events: make(chan *process.ProcessEvent), gone: ctx, over: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(l.over)
		return l
	}
	if h.listeners == nil {
		h.listeners = make(map[*listener]struct{})
	}
	h.listeners[l] = struct{}{}
	return l
}

func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// heard says whether anybody listens.
func (h *hub) heard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) > 0
}

// send waits until every listener of now has the event or is gone.
func (h *hub) send(ev *process.ProcessEvent) {
	h.mu.Lock()
	to := make([]*listener, 0, len(h.listeners))
	for l := range h.listeners {
		to = append(to, l)
	}
	h.mu.Unlock()
	for _, l := range to {
		select {
		case l.events <- ev:
		case <-l.gone.Done():
		}
	}
}

// close ends every listener; it is called after the last send.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for l := range h.listeners {
		close(l.over)
	}
	h.listeners = nil
}
