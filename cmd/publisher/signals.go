package main

import (
	"context"
	"os"
	"sync"
)

// signals hands each Ctrl-C to whoever minds it now. While nobody does, the
// first one ends the context with errInterrupted and the next one aborts: what
// reads from a terminal minds no context.
type signals struct {
	ch    <-chan os.Signal
	abort func()

	mu      sync.Mutex
	handler func()
}

// watch starts listening. stop ends it and waits for it.
func (s *signals) watch(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-s.ch:
				s.deliver(func() {
					if ctx.Err() != nil && s.abort != nil {
						s.abort()
					}
					cancel(errInterrupted)
				})
			}
		}
	}()
	return ctx, func() {
		close(quit)
		<-done
		cancel(nil)
	}
}

func (s *signals) deliver(otherwise func()) {
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h == nil {
		h = otherwise
	}
	h()
}

// handle gives the signals to h, which must not block, until restore is
// called.
func (s *signals) handle(h func()) (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.handler = nil
	}
}
