package jobs

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWheelBeats(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 5 * time.Minute} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := NewWheel()
				defer w.Close()
				const n = 50
				beats := make([][]time.Time, n)
				for i := range n {
					w.Add(every, func() { beats[i] = append(beats[i], time.Now()) })
				}
				start := time.Now()
				require.Equal(t, n, w.Len())
				time.Sleep(10*every + wheelTick)
				synctest.Wait()
				for _, b := range beats {
					require.GreaterOrEqual(t, len(b), 10)
					require.LessOrEqual(t, len(b), 11)
					require.GreaterOrEqual(t, b[0].Sub(start), every/2-wheelTick)
					require.LessOrEqual(t, b[0].Sub(start), every)
					for i := 1; i < len(b); i++ {
						require.Equal(t, every, b[i].Sub(b[i-1]))
					}
				}
			})
		})
	}
}

func TestWheelSpreadsBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		defer w.Close()
		at := map[time.Time]int{}
		for range 1000 {
			w.Add(10*time.Second, func() { at[time.Now()]++ })
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Greater(t, len(at), 40)
		for when, n := range at {
			require.LessOrEqual(t, n, 25, when)
		}
	})
}

func TestWheelStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		defer w.Close()
		var a, b int
		stopA := w.Add(time.Second, func() { a++ })
		stopB := make(chan func(), 1)
		stopB <- w.Add(time.Second, func() { b++; (<-stopB)() }) // from within
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait()
		stopA()
		stopA()
		was := a
		require.GreaterOrEqual(t, was, 5)
		require.Equal(t, 1, b)
		require.Zero(t, w.Len())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, was, a)

		stop := w.Add(time.Second, func() { a++ }) // it wakes up again
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, was+1, a)
		stop()
		w.Close()
		w.Close()
	})
}

// An empty wheel has no timer: in a bubble, time stands still only if nothing
// waits for it.
func TestWheelSleepsWhileEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		defer w.Close()
		w.Add(time.Second, func() {})()
		time.Sleep(time.Second)
		synctest.Wait()
		w.mu.Lock()
		tick := w.tick
		w.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Equal(t, tick, w.tick)
	})
}

// A process that was held up fires what it missed once, not once for each beat.
func TestWheelAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		defer w.Close()
		var beats, slow, hold atomic.Int64
		w.Add(10*time.Second, func() { beats.Add(1) })
		w.Add(time.Second, func() { slow.Add(1); time.Sleep(time.Duration(hold.Swap(0))) })
		time.Sleep(5*time.Second + wheelTick/2)
		hold.Store(int64(5 * time.Minute)) // blocks the wheel for longer than a turn
		time.Sleep(5*time.Minute + 2*time.Second)
		require.Less(t, beats.Load(), int64(4))
		require.Less(t, slow.Load(), int64(10))
		was := beats.Load()
		time.Sleep(time.Minute)
		require.Equal(t, was+6, beats.Load())
	})
}

func TestWheelManyAtRandom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWheel()
		defer w.Close()
		rng := rand.New(rand.NewPCG(1, 2))
		type entry struct {
			last  time.Time
			every time.Duration
			stop  func()
			dead  bool
		}
		var live []*entry
		for range 3000 {
			switch {
			case len(live) > 0 && rng.IntN(3) == 0:
				i := rng.IntN(len(live))
				live[i].stop()
				live[i].dead = true
				live = append(live[:i], live[i+1:]...)
			default:
				e := &entry{last: time.Now(), every: time.Duration(1+rng.IntN(300)) * wheelTick}
				e.stop = w.Add(e.every, func() {
					if e.dead {
						panic("called after stop")
					}
					if late := time.Since(e.last) - e.every; late > 2*wheelTick {
						panic(fmt.Sprintf("late by %s", late))
					}
					e.last = time.Now()
				})
				live = append(live, e)
			}
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, len(live), w.Len())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for _, e := range live {
			require.LessOrEqual(t, time.Since(e.last), e.every+wheelTick, "a beat was lost")
		}
	})
}

func TestWheelConcurrent(t *testing.T) {
	t.Parallel()
	w := NewWheel()
	defer w.Close()
	var fired atomic.Int64
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for fired.Load() < 200 {
				stop := w.Add(wheelTick, func() { fired.Add(1) })
				w.Add(wheelTick, func() { fired.Add(1) })
				stop()
				time.Sleep(time.Millisecond)
			}
		}()
	}
	for range 8 {
		<-done
	}
}

// The cost of one turn of ten seconds for 10,000 jobs; the aim is 5 ms of CPU a
// second for it and the publishes together.
func BenchmarkWheel10k(b *testing.B) {
	for b.Loop() {
		w := &Wheel{start: time.Now()}
		for i := range w.slots {
			s := &w.slots[i]
			s.next, s.prev = s, s
		}
		w.wake = make(chan struct{}, 1)
		var n int
		for range 10_000 {
			w.Add(10*time.Second, func() { n++ })
		}
		var due []*beat
		for range 100 {
			w.start = w.start.Add(-wheelTick)
			due = w.collect(due[:0])
			w.run(due)
		}
		if n < 10_000 {
			b.Fatal(n)
		}
	}
}
