package chaos

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

// rebuildLimit is how long a wiped view may take to be whole again here.
const rebuildLimit = 20 * time.Second

// gatherViews writes down what Redis says of each session, and what it says after
// it was wiped and filled again.
func (c *Campaign) gatherViews(ctx context.Context) error {
	var err error
	if c.rec.View, err = c.view(ctx); err != nil {
		return err
	}
	if _, err := c.rig.Redis.Wipe(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(rebuildLimit)
	for {
		if c.rec.Rebuilt, err = c.view(ctx); err != nil {
			return err
		}
		if maps.Equal(c.rec.Rebuilt, c.rec.Truth) || time.Now().After(deadline) {
			return nil
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// line is what both sides say of a session.
func line(seq uint64, r session.Record) string {
	return fmt.Sprintf("%s, generation %d, sandbox %s, as of %d", r.State, r.Generation, r.SandboxID, seq)
}

// view reads the sessions that the truth has from Redis.
func (c *Campaign) view(ctx context.Context) (map[string]string, error) {
	s, err := store.Open(ctx, "redis://"+c.rig.Redis.Addr(), "")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := map[string]string{}
	for id := range c.rec.Truth {
		if r, seq, err := s.Session(ctx, id); err == nil {
			out[id] = line(seq, r)
		}
	}
	return out, nil
}
