package jobs

import (
	"context"
	"errors"
	"time"
)

// Postpone returns a job to the queue for that long and settles the delivery:
// through SCHEDULES when the wait is long, else by giving it back. When the
// schedules have no room it is given back too, so that the pressure reaches JOBS
// and its publishers. It reports whether the job was rescheduled. An error means
// that the delivery is not settled.
func (q *Queue) Postpone(ctx context.Context, d *Delivery, wait time.Duration) (rescheduled bool, err error) {
	if HoldFor(wait) != Reschedule {
		return false, d.GiveBack(wait)
	}
	err = q.Reschedule(ctx, d.Job, time.Now().Add(wait))
	if errors.Is(err, ErrScheduleFull) || errors.Is(err, ErrTooLarge) {
		return false, d.GiveBack(MaxHold)
	}
	if err != nil {
		return false, err
	}
	return true, d.Ack()
}
