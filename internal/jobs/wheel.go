package jobs

import (
	"sync"
	"time"
)

// The wheel turns one slot a tick; a beat that is due after more than one turn
// stays in its slot until its tick comes.
const (
	wheelTick  = 100 * time.Millisecond
	wheelSlots = 1024
)

// Wheel calls many functions at intervals from one goroutine, with a resolution
// of 100 ms: ten thousand beats cost one timer. It sleeps while it is empty. It
// may be used concurrently.
type Wheel struct {
	start time.Time
	wake  chan struct{} // holds a token when the wheel was empty and is not any more
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once

	mu    sync.Mutex
	slots [wheelSlots]beat // each the sentinel of a ring
	count int
	tick  int64 // the last one that was worked off
	adds  int64
}

// beat is one function on the wheel, a member of its slot's ring.
type beat struct {
	next, prev *beat
	fn         func()
	every      int64 // ticks
	due        int64 // tick
}

// NewWheel starts a wheel. Close ends it.
func NewWheel() *Wheel {
	w := &Wheel{
		start: time.Now(),
		wake:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	for i := range w.slots {
		s := &w.slots[i]
		s.next, s.prev = s, s
	}
	go w.turn()
	return w
}

// Add calls fn every so often until stop is called, the first time between half
// of the interval and the whole: functions that are added together are spread
// out. fn runs on the wheel's goroutine and must not block. After stop has
// returned, fn is not begun again; a call under way may still be running.
func (w *Wheel) Add(every time.Duration, fn func()) (stop func()) {
	b := &beat{fn: fn, every: max(int64(every/wheelTick), 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count == 0 {
		w.tick = w.now()
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	w.count++
	w.adds++
	b.due = w.now() + b.every - w.adds%(b.every/2+1)
	w.put(b)
	return func() { w.remove(b) }
}

// Len returns how many functions are on the wheel.
func (w *Wheel) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Close ends the wheel and waits for the function that is running. It may be
// called twice.
func (w *Wheel) Close() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}

func (w *Wheel) now() int64 { return int64(time.Since(w.start) / wheelTick) }

// put links b into the slot of its tick; w.mu is held.
func (w *Wheel) put(b *beat) {
	s := &w.slots[b.due%wheelSlots]
	b.prev, b.next = s.prev, s
	s.prev.next, s.prev = b, b
}

// unlink takes b out of its ring; w.mu is held.
func (b *beat) unlink() {
	b.prev.next, b.next.prev = b.next, b.prev
	b.next, b.prev = nil, nil
}

func (w *Wheel) remove(b *beat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.fn == nil {
		return
	}
	b.fn = nil
	w.count--
	if b.next != nil {
		b.unlink()
	}
}

// turn works off ticks while there are beats, and sleeps while there are none.
func (w *Wheel) turn() {
	defer close(w.done)
	var due []*beat
	for {
		select {
		case <-w.wake:
		case <-w.quit:
			return
		}
		ticker := time.NewTicker(wheelTick)
		for w.Len() > 0 {
			select {
			case <-ticker.C:
			case <-w.quit:
				ticker.Stop()
				return
			}
			due = w.collect(due[:0])
			w.run(due)
		}
		ticker.Stop()
	}
}

// collect takes what is due off the wheel. When the process was held up for
// many ticks, a beat that missed several is due once.
func (w *Wheel) collect(due []*beat) []*beat {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	from := max(w.tick+1, now-wheelSlots+1) // a whole turn sees every slot
	for t := from; t <= now; t++ {
		s := &w.slots[t%wheelSlots]
		for b := s.next; b != s; {
			next := b.next
			if b.due <= now {
				b.unlink()
				due = append(due, b)
			}
			b = next
		}
	}
	w.tick = now
	return due
}

// run calls what is due, without the lock, and puts it back.
func (w *Wheel) run(due []*beat) {
	for i, b := range due {
		w.mu.Lock()
		fn := b.fn
		w.mu.Unlock()
		if fn != nil {
			fn()
		}
		w.mu.Lock()
		if b.fn != nil {
			b.due = w.now() + b.every
			w.put(b)
		}
		w.mu.Unlock()
		due[i] = nil
	}
}
