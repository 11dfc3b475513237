package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is one thing that is broken for a while.
type Fault struct {
	N      int
	Kind   string
	Class  string        // faults of one class come one after the other
	After  int           // how many jobs have been published when it comes
	Target int           // which of the kind's targets, modulo how many there are
	For    time.Duration // how long it stays broken, or how long it may take to meet a call
	Arg    int           // what else the kind wants to know
}

// Classes of faults. No two faults of a class are under way at once, so that
// what the promises suppose stays true: a majority of NATS comes back, so does
// Redis, and some worker runs.
const (
	Workers   = "worker"
	NATS      = "nats"
	Redis     = "redis"
	Sandboxes = "sandbox"
	Network   = "network"
)

// kind is a sort of fault: how common it is, how long it lasts in units of
// AckWait (from and to, in tenths), and what takes part.
type kind struct {
	name, class string
	share       int
	from, to    int
}

var kindTable = []kind{
	{"worker-kill", Workers, 60, 3, 10},
	{"worker-freeze", Workers, 40, 14, 25},
	{"worker-restart", Workers, 40, 1, 3},

	{"nats-kill", NATS, 20, 10, 30},
	{"nats-cut", NATS, 20, 20, 40},
	{"nats-freeze", NATS, 10, 10, 25},
	{"nats-restart-all", NATS, 6, 1, 5},

	{"redis-kill", Redis, 20, 1, 10},
	{"redis-wipe", Redis, 25, 0, 1},
	{"redis-empty", Redis, 10, 1, 5},
	{"redis-freeze", Redis, 20, 5, 20},

	{"sandbox-dies", Sandboxes, 25, 0, 1},
	{"e2b-5xx", Sandboxes, 70, 10, 20},
	{"e2b-rate", Sandboxes, 50, 10, 20},
	{"e2b-quota", Sandboxes, 40, 10, 20},
	{"e2b-lost-answer", Sandboxes, 60, 10, 20},
	{"e2b-lost-create", Sandboxes, 30, 10, 20},
	{"e2b-late-effect", Sandboxes, 30, 10, 20},
	{"e2b-hang", Sandboxes, 30, 10, 20},
	{"e2b-cut-stream", Sandboxes, 80, 10, 20},
	{"e2b-stall-stream", Sandboxes, 20, 10, 20},
	{"e2b-freeze", Sandboxes, 15, 5, 15},

	{"cut-worker-nats", Network, 40, 15, 30},
	{"cut-worker-redis", Network, 40, 2, 15},
	{"cut-worker-e2b", Network, 40, 1, 10},
	{"slow-worker-nats", Network, 40, 5, 20},
	{"slow-worker-redis", Network, 30, 5, 20},
	{"narrow-worker-e2b", Network, 30, 5, 20},
}

// Kinds lists all kinds of fault.
func Kinds() []string {
	var out []string
	for _, k := range kindTable {
		out = append(out, k.name)
	}
	return out
}

// kindsOf finds kinds by name or class.
func kindsOf(names []string) ([]kind, error) {
	if len(names) == 0 {
		return kindTable, nil
	}
	var out []kind
	for _, name := range names {
		found := false
		for _, k := range kindTable {
			if k.name == name || k.class == name {
				out, found = append(out, k), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no fault %q: want some of %s, or a class", name, strings.Join(Kinds(), " "))
		}
	}
	return out, nil
}

// breakages are the faults of a seed. Each kind comes once before the shares
// decide.
func breakages(o Options, kinds []kind, r *rand.Rand) []*Fault {
	var deck []kind
	for _, k := range kinds {
		for range k.share {
			deck = append(deck, k)
		}
	}
	// Not before there is something to break, nor when all is over.
	calm, until := o.Jobs/20, o.Jobs*9/10
	if o.Calm > 0 {
		calm, until = o.Calm, o.Jobs
	}
	first := r.Perm(len(kinds))
	var out []*Fault
	for n := range o.Faults {
		k := deck[r.IntN(len(deck))]
		if n < len(first) {
			k = kinds[first[n]]
		}
		tenths := k.from
		if k.to > k.from {
			tenths += r.IntN(k.to - k.from)
		}
		out = append(out, &Fault{
			Kind: k.name, Class: k.class, Target: r.IntN(1 << 20), Arg: r.IntN(1 << 20),
			For:   o.AckWait * time.Duration(tenths) / 10,
			After: calm + r.IntN(max(1, until-calm)),
		})
	}
	slices.SortStableFunc(out, func(a, b *Fault) int { return a.After - b.After })
	for i, f := range out {
		f.N = i + 1
	}
	return out
}
