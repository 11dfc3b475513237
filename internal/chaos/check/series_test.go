package check

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlat(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	series := func(f func(i int) float64) Series {
		b := NewBook()
		for i := range 100 {
			b.Add("x", at(float64(i)), f(i), 10)
		}
		return b.All()[0]
	}
	require.True(t, series(func(int) float64 { return 100 }).Flat())
	require.True(t, series(func(int) float64 { return 100 + 20*r.Float64() }).Flat(), "noise")
	require.True(t, series(func(i int) float64 { return min(float64(10*i), 200) }).Flat(), "warming up")
	require.False(t, series(func(i int) float64 { return 100 + float64(i) }).Flat(), "a leak")
	require.False(t, series(func(i int) float64 { return 100 + 2*float64(i) + 20*r.Float64() }).Flat(), "a leak in noise")
	s := series(func(i int) float64 { return float64(i) })
	require.InDelta(t, 50, s.Growth(), 1)
	require.Equal(t, []float64{0, 99, 99}, []float64{s.First(), s.Last(), s.Most()})
	require.True(t, Series{}.Flat())
}
