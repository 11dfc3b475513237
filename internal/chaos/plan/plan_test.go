package plan

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/jobs"
)

func TestSameSeedSamePlan(t *testing.T) {
	t.Parallel()
	dump := func(o Options) string {
		p, err := New(o)
		require.NoError(t, err)
		b, err := json.Marshal([]any{p.Jobs, p.Faults})
		require.NoError(t, err)
		return string(b)
	}
	o := Options{Seed: 7, Jobs: 300, Faults: 60}
	require.Equal(t, dump(o), dump(o))
	other := o
	other.Seed = 8
	require.NotEqual(t, dump(o), dump(other))
}

func TestMoreFaultsChangeNoJob(t *testing.T) {
	t.Parallel()
	a, err := New(Options{Seed: 7, Jobs: 100, Faults: 10})
	require.NoError(t, err)
	b, err := New(Options{Seed: 7, Jobs: 100, Faults: 50})
	require.NoError(t, err)
	require.Equal(t, a.Jobs, b.Jobs)
}

// Every flavour and every kind of fault takes part, and what is published is
// valid but where it is meant not to be.
func TestPlanHasEverything(t *testing.T) {
	t.Parallel()
	p, err := New(Options{Seed: 1, Jobs: 3000, Faults: 300})
	require.NoError(t, err)
	flavours, ids := map[Flavour]int{}, map[string]bool{}
	for _, j := range p.Jobs {
		flavours[j.Flavour]++
		require.False(t, ids[j.Session+"/"+j.ID], "%s twice", j.ID)
		ids[j.Session+"/"+j.ID] = true
		body := []byte(j.Body)
		if j.Payload != nil {
			body, err = json.Marshal(j.Payload)
			require.NoError(t, err)
		}
		_, err := jobs.Decode(jobs.Raw{Subject: string(j.Kind), Data: body, Time: time.Now()}, "")
		require.Equal(t, j.Flavour == Poisoned, err != nil, "%s: %v", j.ID, err)
	}
	for _, s := range shares {
		require.NotZero(t, flavours[s.flavour], s.flavour)
	}
	for _, f := range []Flavour{Download, Destroy} {
		require.NotZero(t, flavours[f], f)
	}
	kinds := map[string]int{}
	for i, f := range p.Faults {
		kinds[f.Kind]++
		require.Less(t, f.After, 3000)
		require.Equal(t, i+1, f.N)
	}
	require.Len(t, kinds, len(Kinds()))
}

func TestNoSuchFault(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Kinds: []string{"earthquake"}})
	require.ErrorContains(t, err, "earthquake")
	p, err := New(Options{Jobs: 10, Faults: 20, Kinds: []string{NATS}})
	require.NoError(t, err)
	for _, f := range p.Faults {
		require.Equal(t, NATS, f.Class)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 2, 18, 19, 20, 1000, 1 << 20, 10 << 20} {
		n := numbers(size)
		got := len(Script{Loud: n}.Stdout("j", 1))
		require.GreaterOrEqual(t, got, size)
		if n > 0 {
			require.Less(t, got-len(fmt.Sprintln(n)), size, "%d numbers for %d bytes", n, size)
		}
	}
}
