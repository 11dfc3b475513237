package local

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits are the plan that the server plays: how many sandboxes run at once
// and how fast they are created.
type limits struct {
	max  int // 0 means no bound
	rate *rate.Limiter

	mu      sync.Mutex
	running int
	peak    int // most that ran at once
}

func newLimits(c Config) *limits {
	l := &limits{max: c.MaxRunning}
	if c.CreateRate > 0 {
		l.rate = rate.NewLimiter(rate.Limit(c.CreateRate), max(1, c.CreateBurst))
	}
	return l
}

// create says whether one more may be created now.
func (l *limits) create() error {
	if l.rate == nil {
		return nil
	}
	r := l.rate.Reserve()
	if d := r.Delay(); d > 0 {
		r.Cancel()
		return errRate(l.rate.Burst(), max(d, time.Millisecond))
	}
	return nil
}

// acquire takes the place of one running sandbox.
func (l *limits) acquire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 && l.running >= l.max {
		return errQuota(l.max)
	}
	l.count()
	return nil
}

// adopt takes a place for a sandbox that runs since before the server did.
func (l *limits) adopt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count()
}

// count adds one; l.mu is held.
func (l *limits) count() {
	l.running++
	l.peak = max(l.peak, l.running)
}

func (l *limits) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}
