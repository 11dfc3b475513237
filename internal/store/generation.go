package store

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// life is what the Store knows of the view's generation.
type life struct {
	id    atomic.Pointer[string]
	until atomic.Int64 // local ns until which the view is young
}

// Generation returns the name of this life of the view, which is gone when Redis
// has been wiped. created says that there was none and that this call has given
// it: the caller is the one to start the rebuilding. Of several callers after
// one wipe exactly one sees created.
func (s *Store) Generation(ctx context.Context) (id string, created bool, err error) {
	cmd := generationScript.eval(ctx, 1, s.keys.generation(), rand.Text())
	if err := s.flush.do1(ctx, cmd); err != nil {
		return "", false, wrap("read generation", err)
	}
	out := reply(cmd)
	id = out.text(0)
	s.born(id, time.Duration(out.int(1))*time.Millisecond)
	return id, out.int(2) == 1, nil
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

// watch reads the generation along with every flush.
func (s *Store) watch(ctx context.Context, p redis.Pipeliner) func() {
	get := p.Get(ctx, s.keys.generation())
	return func() {
		v, err := get.Result()
		if err != nil && err != redis.Nil {
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
}

var generationScript = newScript("generation")
