package worker

import (
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
)

// box is an open sandbox: the handle with its access token, which is kept
// nowhere else, and how long E2B will let it run.
type box struct {
	*e2b.Box
	generation int

	mu     sync.Mutex
	until  time.Time // E2B's own end, as far as we know
	pushed bool      // a push is under way
}

// boxes caches open sandboxes by session. It is bounded; a sandbox that fell
// out is opened again with one read of E2B.
type boxes struct {
	mu  sync.Mutex
	all map[string]*box
	max int
}

func newBoxes(max int) *boxes { return &boxes{all: map[string]*box{}, max: max} }

func (b *boxes) of(session string, generation int, id string) *box {
	b.mu.Lock()
	defer b.mu.Unlock()
	have := b.all[session]
	if have == nil || have.generation != generation || have.ID() != id {
		return nil
	}
	return have
}

func (b *boxes) put(session string, one *box) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) >= b.max {
		for other := range b.all {
			delete(b.all, other)
			break
		}
	}
	b.all[session] = one
}

func (b *boxes) drop(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, session)
}
