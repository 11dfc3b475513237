package store

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// life is what the Store knows of the view's generation.
type life struct {
	id    atomic.Pointer[string]
	until atomic.Int64 // local ns until which the view is young
	lanes atomic.Pointer[string]
}

// Generation is one life of the view: from a wipe, or from the beginning, to the
// next wipe.
type Generation struct {
	ID string
	// Created says that this very call began it. Of several callers after one wipe
	// exactly one sees it.
	Created bool
	// Filled says that the sessions that were lost have been written again, Listed
	// that the jobs have.
	Filled, Listed bool
}

// Generation returns the life that the view is in, and begins one if there is none:
// then Redis has been wiped, and somebody has to fill the view.
func (s *Store) Generation(ctx context.Context) (Generation, error) {
	cmd := generationScript.eval(ctx, 1, s.keys.generation(), rand.Text())
	if err := s.flush.do1(ctx, cmd); err != nil {
		return Generation{}, wrap("read generation", err)
	}
	out := reply(cmd)
	g := Generation{ID: out.text(0), Created: out.int(2) == 1, Filled: out.int(3) > 0, Listed: out.int(3) > 1}
	s.born(g.ID, time.Duration(out.int(1))*time.Millisecond)
	return g, nil
}

// MarkFilled notes that the view has been filled in this generation. It reports
// false if the view was wiped meanwhile: then it is to be filled again.
func (s *Store) MarkFilled(ctx context.Context, generation string) (bool, error) {
	return s.markGeneration(ctx, generation, "filled")
}

// MarkListed notes that the filled view lists its jobs, too.
func (s *Store) MarkListed(ctx context.Context, generation string) (bool, error) {
	return s.markGeneration(ctx, generation, "listed")
}

func (s *Store) markGeneration(ctx context.Context, generation, how string) (bool, error) {
	cmd := filledScript.eval(ctx, 1, s.keys.generation(), generation, how)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return false, wrap("mark the view as "+how, err)
	}
	return done(cmd), nil
}

// Young reports whether the view was wiped or begun so recently that jobs which
// run elsewhere may not have renewed their entries: whoever gets the turn must
// ask the streams whether another job of the session runs. Every flush looks, so
// that a wipe is seen by the first call that comes after it. A view that has
// never been seen is young.
func (s *Store) Young() bool {
	return time.Now().UnixNano() < s.life.until.Load() || s.life.id.Load() == nil
}

// born notes the generation and its age.
func (s *Store) born(id string, age time.Duration) {
	s.life.id.Store(&id)
	s.life.until.Store(time.Now().Add(s.opts.settle - age).UnixNano())
}

// watch reads the generation, and how far the lanes are known, along with every
// flush: last, so that what the flush did was done to no older view than it says.
func (s *Store) watch(ctx context.Context, p redis.Pipeliner) func() (lanes string) {
	get, known := p.Get(ctx, s.keys.generation()), p.Get(ctx, s.keys.lanes())
	return func() string {
		s.named(get)
		lanes := known.Val() // empty if there is none, or Redis did not answer
		if err := known.Err(); err == nil || errors.Is(err, redis.Nil) {
			s.life.lanes.Store(&lanes)
		}
		return lanes
	}
}

func (s *Store) named(get *redis.StringCmd) {
	v, err := get.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return
	}
	id, _, _ := strings.Cut(v, " ")
	if have := s.life.id.Load(); have != nil && *have == id {
		return
	}
	// Wiped, or begun anew by another worker: young from now on. The exact
	// age comes with the next Generation.
	s.life.until.Store(time.Now().Add(s.opts.settle).UnixNano())
	if id != "" {
		s.life.id.Store(&id)
	}
}

var (
	generationScript = newScript("generation")
	filledScript     = newScript("generation_filled")
)
