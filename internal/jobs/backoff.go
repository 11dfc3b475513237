package jobs

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The delays between attempts: 1 s, 2 s, 4 s … 5 min, each ± half of itself, so
// that jobs that failed together do not come back together.
const (
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	spread     = 0.5
)

// Delay returns how long to wait after attempt (the first is 1) before the next
// one, with jitter.
func Delay(attempt int) time.Duration {
	d := firstDelay
	for i := 1; i < attempt && d < maxDelay; i++ {
		d *= 2
	}
	return Jitter(min(d, maxDelay))
}

// Jitter returns d ± half of itself, evenly spread.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	b := backoff.ExponentialBackOff{
		InitialInterval:     d,
		RandomizationFactor: spread,
		Multiplier:          1,
		MaxInterval:         d,
		Stop:                backoff.Stop,
		Clock:               backoff.SystemClock,
	}
	b.Reset()
	return b.NextBackOff()
}
