package store

import (
	"context"
	"time"
)

// Sighting is how often in a row something was seen, and for how long.
type Sighting struct {
	Times int
	For   time.Duration // since the first of them
}

var sightScript = newScript("sight")

// sightingsLive is how long sightings are remembered when nobody adds to them.
const sightingsLive = 24 * time.Hour

// Sight notes that these sandboxes were seen without an owner, and forgets all
// others: an owner turned up, or they are gone. It returns what is known of each.
func (s *Store) Sight(ctx context.Context, sandboxes ...string) (map[string]Sighting, error) {
	return s.sight(ctx, sightingsLive, sandboxes)
}

// Sightings returns what Sight would, and notes nothing.
func (s *Store) Sightings(ctx context.Context, sandboxes ...string) (map[string]Sighting, error) {
	return s.sight(ctx, 0, sandboxes)
}

func (s *Store) sight(ctx context.Context, live time.Duration, sandboxes []string) (map[string]Sighting, error) {
	args := append([]string{s.keys.unowned(), signed(live)}, sandboxes...)
	cmd := sightScript.eval(ctx, 1, args...)
	if err := s.flush.do1(ctx, cmd); err != nil {
		return nil, wrap("note sandboxes without an owner", err)
	}
	out := reply(cmd)
	seen := make(map[string]Sighting, len(sandboxes))
	for i := 0; i+2 < len(out); i += 3 {
		seen[out.text(i)] = Sighting{For: time.Duration(out.int(i+1)) * time.Millisecond, Times: int(out.int(i + 2))}
	}
	return seen, nil
}
