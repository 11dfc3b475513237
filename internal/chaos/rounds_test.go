package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/chaos/plan"
)

// Rounds together do what was asked for, each with a seed of its own.
func TestRoundsShareOut(t *testing.T) {
	t.Parallel()
	o := Options{Plan: plan.Options{Seed: 7, Jobs: 1003, Faults: 29}, Dir: "d"}
	jobs, faults, seeds, dirs := 0, 0, map[uint64]bool{}, map[string]bool{}
	for i := range 4 {
		r := o.round(i, 4)
		jobs, faults = jobs+r.Plan.Jobs, faults+r.Plan.Faults
		seeds[r.Plan.Seed], dirs[r.Dir] = true, true
		require.InDelta(t, 1003/4, r.Plan.Jobs, 1)
	}
	require.Equal(t, 1003, jobs)
	require.Equal(t, 29, faults)
	require.Len(t, seeds, 4)
	require.Len(t, dirs, 4)
	require.True(t, seeds[7])
}

// Every fault of the plan has somebody who does it.
func TestEveryFaultHasAnExpert(t *testing.T) {
	t.Parallel()
	c, err := prepare(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	have := map[string]bool{}
	for _, more := range []map[string]expert{c.workerFaults(), c.natsFaults(), c.redisFaults(), c.boxFaults(), c.wayFaults()} {
		for name := range more {
			have[name] = true
		}
	}
	for _, kind := range plan.Kinds() {
		require.True(t, have[kind], kind)
	}
}
