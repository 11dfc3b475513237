package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/events"
)

// board says which jobs are under way.
type board struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a job ends
	under   map[events.Job]time.Time
	jobs    map[events.Job]*check.Job
	order   []*check.Job
	ended   int
	whole   bool      // no job is to come
	last    time.Time // when a job ended last
}

func newBoard() *board {
	return &board{changed: make(chan struct{}), under: map[events.Job]time.Time{}, jobs: map[events.Job]*check.Job{}, last: time.Now()}
}

// add takes a job that is about to be published.
func (b *board) add(j *check.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := events.Job{Session: j.Plan.Session, ID: j.Plan.ID}
	b.under[k], b.jobs[k] = time.Now(), j
	b.order = append(b.order, j)
}

// end takes a job off the board.
func (b *board) end(k events.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.under[k]; !ok {
		return
	}
	delete(b.under, k)
	b.ended++
	b.last = time.Now()
	close(b.changed)
	b.changed = make(chan struct{})
}

// errStuck is a wait in which no job has ended for longer than any job waits.
var errStuck = errors.New("no job ends any more")

// wait waits until ok, which is called under the board's lock, holds.
func (b *board) wait(ctx context.Context, ok func() bool) error {
	for {
		b.mu.Lock()
		done, changed := ok(), b.changed
		b.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-time.After(2 * stuckLimit):
			return errStuck
		}
	}
}

// room waits until fewer than n jobs are under way.
func (b *board) room(ctx context.Context, n int) error {
	return b.wait(ctx, func() bool { return len(b.under) < n })
}

// alone waits until no job of a session but the one is under way.
func (b *board) alone(ctx context.Context, session, but string) error {
	return b.wait(ctx, func() bool {
		for k := range b.under {
			if k.Session == session && k.ID != but {
				return false
			}
		}
		return true
	})
}

// old are the jobs that have been under way for longer than d.
func (b *board) old(d time.Duration) (out []events.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, since := range b.under {
		if time.Since(since) > d {
			out = append(out, k)
		}
	}
	return out
}

// state is how many are under way and have ended, and when one ended last.
func (b *board) state() (under, ended int, last time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.under), b.ended, b.last
}

// close says that all jobs are published.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole = true
}

// over reports whether every job of the campaign has ended.
func (b *board) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole && len(b.under) == 0
}
