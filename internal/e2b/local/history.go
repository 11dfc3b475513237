package local

import (
	"slices"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
)

// How the use of sandboxes is kept: a sample each so often, the last so many.
const (
	sampleEvery = 5 * time.Second
	maxSamples  = 720 // an hour
)

// history is what a sandbox used over time. The zero value is ready.
type history struct {
	mu      sync.Mutex
	samples []e2b.Metric // oldest first
}

func (h *history) add(m e2b.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) >= maxSamples {
		h.samples = slices.Delete(h.samples, 0, maxSamples/10) // not one by one
	}
	h.samples = append(h.samples, m)
}

// between is the samples from start to end, both in seconds and included.
func (h *history) between(start, end int64) []e2b.Metric {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []e2b.Metric{} // an empty one is [], not null
	for _, m := range h.samples {
		if m.TimestampUnix >= start && m.TimestampUnix <= end {
			list = append(list, m)
		}
	}
	return list
}

// keepHistory samples every running sandbox until the server closes.
func (s *Server) keepHistory() {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			for _, sb := range s.all() {
				if sb.is(running) {
					sb.used.add(sb.sample())
				}
			}
		case <-s.closing:
			return
		}
	}
}
