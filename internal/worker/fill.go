package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/store"
)

// Closing gaps: what JOBS holds of a stretch of deliveries, put into the lanes.

// mendLease is how long one worker reads for all; it is renewed on the way.
const mendLease = 10 * time.Second

// placer collects places and sends them together.
type placer struct {
	view *store.Store
	ctx  context.Context // of the one who places, for the length of one call
	some []store.Place
	n    int
	each func(context.Context) error // done with every batch
}

const placeBatch = 256

func (p *placer) add(place *store.Place) error {
	if place == nil {
		return nil
	}
	p.some = append(p.some, *place)
	if len(p.some) < placeBatch {
		return nil
	}
	return p.flush()
}

func (p *placer) flush() error {
	_, err := p.view.Place(p.ctx, p.some...)
	p.n += len(p.some)
	p.some = p.some[:0]
	if err == nil && p.each != nil {
		err = p.each(p.ctx)
	}
	return err
}

// mend closes a gap in a consumer's deliveries behind a sequence: it places every
// job that JOBS holds of what the server has delivered. Some have their places and
// keep them.
func (t *tide) mend(ctx context.Context, durable string, from uint64) error {
	lease := "tide-" + durable
	if _, ok, err := t.view.Lease(ctx, lease, t.name, mendLease); err != nil || !ok {
		return err // or another one is at it
	}
	defer func() { _ = t.view.ReleaseLease(context.WithoutCancel(ctx), lease, t.name) }()
	all, err := t.queue.Positions(ctx)
	if err != nil {
		return err
	}
	for _, pos := range all {
		if pos.Durable != durable {
			continue
		}
		p := &placer{view: t.view, ctx: ctx}
		err := t.queue.Underway(ctx, from, pos.Stream, func(j *jobs.Job) error {
			if j.Priority.Durable() != durable {
				return nil
			}
			return p.add(placeOf(j))
		})
		if err == nil {
			err = p.flush()
		}
		if err == nil {
			err = t.view.MarkUpto(ctx, durable, store.Mark{Consumer: pos.Consumer, Stream: pos.Stream})
		}
		if err != nil {
			return err
		}
		t.log.Info("gap in the deliveries closed", "consumer", durable, "behind", from, "upto", pos.Stream, "jobs", p.n)
	}
	if err := t.mark(ctx, durable); err != nil {
		return err
	}
	t.mu.Lock()
	upto := t.shore(durable).upto
	t.mu.Unlock()
	t.call(durable, upto)
	return nil
}

// known returns the filling by which the lanes are known, and waits for one while
// they are not.
func (t *tide) known(ctx context.Context) (string, error) {
	for {
		if v := t.view.Lanes(); v != "" {
			return v, nil
		}
		t.mu.Lock()
		filled := t.filled
		t.mu.Unlock()
		t.know()
		timer := time.NewTimer(250 * time.Millisecond)
		select {
		case <-filled:
		case <-timer.C:
			if err := t.view.Ping(ctx); err != nil {
				timer.Stop()
				return "", fmt.Errorf("look at the lanes: %w", err)
			}
		case <-ctx.Done():
			timer.Stop()
			return "", context.Cause(ctx)
		}
		timer.Stop()
	}
}

// fillAgain is how long after a try in vain the next one comes.
const fillAgain = 250 * time.Millisecond

// know has the lanes filled if they are not known: Redis has just been wiped, or
// begun. It does not block.
func (t *tide) know() {
	if t.view.Lanes() != "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.filling || t.parted.Err() != nil {
		return
	}
	t.filling = true
	go func() {
		ctx, cancel := context.WithTimeout(t.parted, time.Minute)
		defer cancel()
		t.lost()
		if err := t.fill(ctx); err != nil && t.parted.Err() == nil {
			t.log.Warn("lanes not filled, trying again", "err", err)
		}
		if t.view.Lanes() == "" { // who waits for them asks for it at once
			_ = sleep(t.parted, jobs.Jitter(fillAgain))
		}
		t.mu.Lock()
		t.filling = false
		t.mu.Unlock()
		t.refreshed()
	}()
}

// refresh looks whether the lanes are known by now.
func (t *tide) refresh() {
	go func() {
		ctx, cancel := context.WithTimeout(t.parted, 10*time.Second)
		defer cancel()
		if err := t.view.Ping(ctx); err == nil {
			t.refreshed()
		}
	}()
}

func (t *tide) refreshed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.filled)
	t.filled = make(chan struct{})
}

// fill gives every job that waits its place, beside live traffic: those of JOBS that
// were delivered, for the others will be; and those in the schedules. What a job
// has told Redis meanwhile stays. One worker at a time does it.
func (t *tide) fill(ctx context.Context) error {
	begun := time.Now()
	filling, ok, err := t.view.BeginLanes(ctx, t.name, mendLease)
	if err != nil || !ok {
		return err
	}
	if t.view.Lanes() != "" { // another one was quicker
		return t.view.DropLanes(ctx, t.name)
	}
	all, err := t.queue.Positions(ctx)
	if err != nil {
		return err
	}
	delivered, last := map[string]uint64{}, uint64(0)
	for _, pos := range all {
		delivered[pos.Durable] = pos.Stream
		last = max(last, pos.Stream)
	}
	p := &placer{view: t.view, ctx: ctx, each: func(ctx context.Context) error {
		_, _, err := t.view.BeginLanes(ctx, t.name, mendLease)
		return err
	}}
	// First JOBS: what leaves it for the schedules meanwhile is found there.
	err = t.queue.Underway(ctx, 0, last, func(j *jobs.Job) error {
		if j.StreamSeq > delivered[j.Priority.Durable()] {
			return nil
		}
		return p.add(placeOf(j))
	})
	if err == nil {
		err = t.queue.Scheduled(ctx, func(w jobs.Waiting) error { return p.add(scheduledPlace(w)) })
	}
	if err == nil {
		err = p.flush()
	}
	if err != nil {
		return err
	}
	for _, pos := range all {
		if err := t.view.MarkUpto(ctx, pos.Durable, store.Mark{Consumer: pos.Consumer, Stream: pos.Stream}); err != nil {
			return err
		}
	}
	if ok, err = t.view.EndLanes(ctx, filling, t.name); err != nil || !ok {
		return err
	}
	t.log.Info("lanes filled", "jobs", p.n, "ms", time.Since(begun).Milliseconds())
	for _, pos := range all {
		if err := t.mark(ctx, pos.Durable); err != nil {
			return err
		}
		t.call(pos.Durable, pos.Stream)
	}
	t.call(lanesCall, 0)
	return nil
}

// scheduledPlace is the place of a job in the schedules.
func scheduledPlace(w jobs.Waiting) *store.Place {
	p := placeOf(w.Job)
	if p != nil && !w.At.IsZero() {
		p.For, p.Away = max(time.Until(w.At), 0), w.Lane
	}
	return p
}
