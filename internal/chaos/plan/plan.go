package plan

import (
	"math/rand/v2"
	"time"
)

// Options sizes a plan.
type Options struct {
	Seed    uint64
	Jobs    int
	Faults  int
	AckWait time.Duration // long commands run for more than five of them
	Loud    int           // bytes that a loud command writes; 10 MiB
	Kinds   []string      // of faults; empty is all
	Only    []Flavour     // of jobs; empty is all in their usual shares
	Open    int           // sessions in use at a time; 12
	Calm    int           // how many jobs are published before the first fault; 0 is a twentieth
	Idle    time.Duration // idle timeout of sessions; 0 gives each one its own, of some seconds
}

// Plan is a whole campaign.
type Plan struct {
	Options
	Jobs   []*Job   // in the order of their publication
	Faults []*Fault // by After
}

// New makes the plan of a seed.
func New(o Options) (*Plan, error) {
	if o.AckWait == 0 {
		o.AckWait = 2 * time.Second
	}
	if o.Loud == 0 {
		o.Loud = 10 << 20
	}
	if o.Open == 0 {
		o.Open = 12
	}
	kinds, err := kindsOf(o.Kinds)
	if err != nil {
		return nil, err
	}
	p := &Plan{Options: o}
	// Two streams of numbers: asking for more faults changes no job.
	p.Jobs = work(o, rand.New(rand.NewPCG(o.Seed, 1)))
	p.Faults = breakages(o, kinds, rand.New(rand.NewPCG(o.Seed, 2)))
	return p, nil
}

// Flavours says how many jobs of each flavour there are.
func (p *Plan) Flavours() map[Flavour]int {
	n := map[Flavour]int{}
	for _, j := range p.Jobs {
		n[j.Flavour]++
	}
	return n
}

// Sessions says how many sessions the plan uses.
func (p *Plan) Sessions() int {
	seen := map[string]bool{}
	for _, j := range p.Jobs {
		seen[j.Session] = true
	}
	return len(seen)
}
