package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nuid"

	"github.com/sandjet/sandjet/internal/natsx"
)

// Wait records why a job that the caller has not claimed does not run yet. prev is
// the newest claim the caller knows of, 0 for none: if another one is there, the job
// is in other hands, nothing is written and the error is ErrLost. So a late Wait
// never follows a terminal event. A holder uses Claim.Publish instead.
func (l *Log) Wait(ctx context.Context, j Job, w Waiting, prev uint64) error {
	if err := j.check(); err != nil {
		return err
	}
	e := l.envelope(j, KindWaiting, "waiting.", nuid.Next())
	defer e.free()
	if err := e.payload(KindWaiting, w); err != nil {
		return err
	}
	e.set(slotExpectSeq, strconv.FormatUint(prev, 10))
	e.set(slotExpectSubject, l.subject(j, KindClaimed))
	for try := 0; ; try++ {
		_, err := l.pub.Publish(ctx, at(KindWaiting), &e.msg)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, natsx.ErrStale):
			return fmt.Errorf("job %s waits: %w: another claim than %d is there", j, ErrLost, prev)
		case errors.Is(err, natsx.ErrBusy):
			err = backoff(ctx, try)
		}
		if err != nil {
			return fmt.Errorf("job %s waits: %w", j, err)
		}
	}
}
