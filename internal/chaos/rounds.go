package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

// Rounds runs a campaign in n rounds, so many at a time, each on a rig of its own:
// the seeds follow the first one, jobs and faults are shared out. It returns what the
// rounds that could be run came to.
func Rounds(ctx context.Context, o Options, n, abreast int) (Reports, error) {
	if n <= 1 {
		r, err := Run(ctx, o)
		if err != nil {
			return nil, err
		}
		return Reports{r}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reports := make(Reports, n)
	places := make(chan struct{}, max(1, abreast))
	var group sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if ctx.Err() != nil {
				return
			}
			r, err := Run(ctx, o.round(i, n))
			if err != nil {
				cancel(fmt.Errorf("round %d: %w", i+1, err))
				return
			}
			reports[i] = r
			fmt.Fprintln(o.Out, r.line())
			if !r.Passed() {
				r.printViolations(o.Out)
			}
		})
	}
	group.Wait()
	return reports, context.Cause(ctx)
}

// round is the i-th of n rounds.
func (o Options) round(i, n int) Options {
	share := func(all int) int { return all*(i+1)/n - all*i/n }
	o.Plan.Seed += uint64(i)
	o.Plan.Jobs, o.Plan.Faults = share(o.Plan.Jobs), share(o.Plan.Faults)
	o.Tag = fmt.Sprintf("seed %d: ", o.Plan.Seed)
	if o.Dir != "" {
		o.Dir = filepath.Join(o.Dir, fmt.Sprint(o.Plan.Seed))
	}
	return o
}
