package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sandjet/sandjet/internal/session"
)

// Filter picks sessions. Empty fields match all.
type Filter struct {
	State    session.State
	Owner    string
	Proven   string // the owner, where a subject has proved him
	Template string
	Label    string // "key" or "key=value"
}

// Match reports whether r passes.
func (f Filter) Match(r session.Record) bool {
	if f.State != "" && r.State != f.State || f.Owner != "" && r.Owner != f.Owner || f.Template != "" && r.Template != f.Template {
		return false
	}
	if f.Proven != "" && !(r.OwnerProven && r.Owner == f.Proven) {
		return false
	}
	if f.Label == "" {
		return true
	}
	key, value, exact := strings.Cut(f.Label, "=")
	have, ok := r.Labels[key]
	return ok && (!exact || have == value)
}

const (
	scanStep   = 1000   // keys Redis walks in one call
	scanRead   = 100    // records read in one call
	scanBudget = 20_000 // keys walked for one page, so that a page costs a bounded time
)

// Sessions returns one page of sessions that pass f, at most limit, in no order.
// An empty cursor begins; next is the cursor of the next page, or empty after
// the last one. A page may be short, or empty, while next is not: looking for a
// rare session takes several calls, each of bounded cost. A session that is in
// the view during the whole walk is seen, most often once; one that comes or
// goes meanwhile may be or not.
//
// There is no index besides the records: a million sessions are to fit into half
// a gigabyte.
func (s *Store) Sessions(ctx context.Context, f Filter, cursor string, limit int) (page []session.Record, next string, err error) {
	at, err := parsePosition(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = max(limit, 1)
	nodes, err := s.nodes(ctx)
	if err != nil {
		return nil, "", wrap("list sessions", err)
	}
	step := int64(scanStep)
	if f == (Filter{}) {
		step = int64(min(limit, scanStep))
	}
	for walked := int64(0); walked < scanBudget; {
		if at.node >= len(nodes) {
			return page, "", nil
		}
		if at.after != "" {
			step = 1 // as the page before had it, so that Redis shows the same keys
		}
		room := limit - len(page)
		b, err := s.scan(ctx, nodes[at.node], at, step, f, room)
		if err != nil {
			return nil, "", wrap("list sessions", err)
		}
		switch {
		case len(b.recs) <= room:
			page = append(page, b.recs...)
			at = at.advance(b.next)
			walked += step
		case step > 1 && !b.whole:
			// Half a batch would lose the other half: walk in smaller steps.
			step = max(1, step/4)
			continue
		default:
			page = append(page, b.recs[:room]...)
			at.after = page[len(page)-1].Session
			return page, at.String(), nil
		}
		if len(page) == limit {
			break
		}
	}
	if at.node >= len(nodes) {
		return page, "", nil
	}
	return page, at.String(), nil
}

// batch is what one step of a walk found.
type batch struct {
	recs  []session.Record // that pass, by id; one more than there is room for says that there are more
	next  uint64
	whole bool // the server gives all keys at once, whatever the step is: miniredis
}

// scan walks one step of one node from at.
func (s *Store) scan(ctx context.Context, node *redis.Client, at position, step int64, f Filter, room int) (b batch, err error) {
	found, next, err := node.Scan(ctx, at.scan, s.keys.records(), step).Result()
	if err != nil {
		return b, err
	}
	b.next, b.whole = next, len(found) > 4*int(step)
	for i, key := range found {
		found[i] = s.keys.sessionOf(key)
	}
	slices.Sort(found)
	found = at.skip(slices.Compact(found))
	for part := range slices.Chunk(found, scanRead) {
		if err := s.readAll(ctx, node, part, f, &b.recs); err != nil {
			return b, err
		}
		if len(b.recs) > room {
			break
		}
	}
	return b, nil
}

// readAll appends the records of ids that pass f.
func (s *Store) readAll(ctx context.Context, node *redis.Client, ids []string, f Filter, recs *[]session.Record) error {
	p := node.Pipeline()
	values := make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		values[i] = p.Get(ctx, s.keys.record(id))
	}
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, v := range values {
		if v.Err() != nil {
			continue // gone since
		}
		r, _, err := decodeRecord(ids[i], v.Val())
		if err != nil {
			return err
		}
		if f.Match(r) {
			*recs = append(*recs, r)
		}
	}
	return nil
}

// nodes returns the servers that hold keys, always in the same order.
func (s *Store) nodes(ctx context.Context) ([]*redis.Client, error) {
	switch c := s.client.(type) {
	case *redis.Client:
		return []*redis.Client{c}, nil
	case *redis.ClusterClient:
		var mu sync.Mutex
		var nodes []*redis.Client
		err := c.ForEachMaster(ctx, func(_ context.Context, n *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, n)
			return nil
		})
		slices.SortFunc(nodes, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
		return nodes, err
	}
	return nil, fmt.Errorf("client %T is not known", s.client)
}

// position is where a walk stands: the node, Redis' cursor there, and the last
// id given out of the step at that cursor, if that step did not fit on a page.
type position struct {
	node  int
	scan  uint64
	after string
}

func parsePosition(cursor string) (position, error) {
	if cursor == "" {
		return position{}, nil
	}
	parts := strings.SplitN(cursor, ".", 3)
	if len(parts) != 3 {
		return position{}, ErrCursor
	}
	node, err1 := strconv.Atoi(parts[0])
	scan, err2 := strconv.ParseUint(parts[1], 10, 64)
	if err1 != nil || err2 != nil || node < 0 {
		return position{}, ErrCursor
	}
	return position{node, scan, parts[2]}, nil
}

// String is the cursor.
func (p position) String() string {
	return fmt.Sprintf("%d.%d.%s", p.node, p.scan, p.after)
}

// skip leaves out of the sorted ids what the page before has given.
func (p position) skip(ids []string) []string {
	n, found := slices.BinarySearch(ids, p.after)
	if found {
		n++
	}
	return ids[n:]
}

// advance is the position after a step that ended at Redis' cursor scan.
func (p position) advance(scan uint64) position {
	if scan == 0 {
		return position{node: p.node + 1}
	}
	return position{node: p.node, scan: scan}
}
