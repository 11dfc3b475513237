package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

var rateScript = newScript("rate")

// TakeRate takes one unit of a rate that all workers share. wait 0 means that it
// was taken; otherwise nothing was, and wait is when to ask again. Up to burst
// units may be taken at once after a rest.
func (s *Store) TakeRate(ctx context.Context, name string, perSecond float64, burst int) (wait time.Duration, err error) {
	if perSecond <= 0 || burst < 1 {
		return 0, fmt.Errorf("rate %s: %g per second with a burst of %d: want both above 0", name, perSecond, burst)
	}
	step := max(int64(1e6/perSecond), 1)
	cmd := rateScript.eval(ctx, 1, s.keys.rate(name), strconv.FormatInt(step, 10), strconv.Itoa(burst))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return 0, wrap("take rate "+name, err)
	}
	us, _ := cmd.Val().(int64)
	return time.Duration(us) * time.Microsecond, nil
}
