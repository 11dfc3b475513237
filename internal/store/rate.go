package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

var (
	rateScript      = newScript("rate")
	ratePauseScript = newScript("rate_pause")
)

// spread is between those who come back after a pause when no rate says more.
const spread = 20 * time.Millisecond

// TakeRate takes one unit of a rate that all workers share. wait 0 means that it
// was taken; otherwise nothing was, and wait is when to ask again. Up to burst
// units may be taken at once after a rest. perSecond 0 is no rate: then only a
// pause makes anybody wait.
func (s *Store) TakeRate(ctx context.Context, name, pause string, perSecond float64, burst int) (wait time.Duration, err error) {
	if perSecond < 0 || burst < 1 {
		return 0, fmt.Errorf("rate %s: %g per second with a burst of %d: want no less than 0, and a burst above", name, perSecond, burst)
	}
	step, apart := int64(0), spread.Microseconds()
	if perSecond > 0 {
		step = max(int64(1e6/perSecond), 1)
		apart = step
	}
	cmd := rateScript.eval(ctx, 2, s.keys.rate(name), s.keys.ratePause(pause),
		strconv.FormatInt(step, 10), strconv.Itoa(burst), strconv.FormatInt(apart, 10))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return 0, wrap("take rate "+name, err)
	}
	us, _ := cmd.Val().(int64)
	return time.Duration(us) * time.Microsecond, nil
}

// PauseRate keeps everybody from units behind this pause for d, as when the other
// side says to come again later. A longer pause that lasts already stays.
func (s *Store) PauseRate(ctx context.Context, pause string, d time.Duration) error {
	return wrap("pause rate "+pause, s.flush.do1(ctx, ratePauseScript.eval(ctx, 1, s.keys.ratePause(pause), ms(d))))
}
