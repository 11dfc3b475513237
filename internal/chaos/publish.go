package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
)

// publishLimit is how long a publication may take: longer than any fault of NATS.
const publishLimit = 3 * time.Minute

// work publishes the plan's jobs and has its faults done, and returns when all
// jobs are published and all faults over.
func (c *Campaign) work(ctx context.Context) error {
	if err := c.listen(ctx); err != nil {
		return err
	}
	var later sync.WaitGroup
	in := c.injector(ctx)
	faults, twice := c.plan.Faults, map[int][]*check.Job{}
	for n, p := range c.plan.Jobs {
		for ; len(faults) > 0 && faults[0].After <= n; faults = faults[1:] {
			in.hand(ctx, faults[0])
		}
		for _, j := range twice[n] {
			if err := c.again(ctx, j.Plan); err != nil {
				return err
			}
		}
		delete(twice, n)
		if err := c.board.room(ctx, c.o.Window); errors.Is(err, errStuck) {
			c.say("%v: the rest is not published", err)
			break
		} else if err != nil {
			return err
		}
		if c.o.Pace > 0 {
			pause(ctx, c.o.Pace)
		}
		j := &check.Job{Plan: p}
		c.board.add(j)
		if p.Twice > 0 {
			twice[n+p.Twice] = append(twice[n+p.Twice], j)
		}
		if p.Settled {
			later.Go(func() { c.publishSettled(ctx, j) })
			continue
		}
		at, err := c.publish(ctx, p)
		if err != nil {
			return err
		}
		c.acked(j, at)
		if p.Flavour == plan.Cancelled {
			later.Go(func() { c.cancelLater(ctx, j) })
		}
		if n%50 == 49 {
			under, ended, _ := c.board.state()
			c.say("%d of %d published, %d ended, %d under way", n+1, len(c.plan.Jobs), ended, under)
		}
	}
	for _, left := range twice {
		for _, j := range left {
			if err := c.again(ctx, j.Plan); err != nil {
				return err
			}
		}
	}
	c.board.close()
	for _, f := range faults {
		in.hand(ctx, f)
	}
	in.done()
	later.Wait()
	return ctx.Err()
}

func (c *Campaign) acked(j *check.Job, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.Acked = at
}

// publish publishes a job and returns when the queue had it.
func (c *Campaign) publish(ctx context.Context, p *plan.Job) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	if p.Payload == nil {
		m := nats.NewMsg(string(p.Kind))
		m.Header.Set(nats.MsgIdHdr, p.Session+"."+p.ID)
		m.Data = p.Body
		_, err := c.pub.Publish(ctx, point.Of("campaign", "publish"), m)
		return time.Now(), err
	}
	if _, err := c.jobs.Publish(ctx, p.Kind, c.payload(p), jobs.PublishOptions{}); err != nil {
		return time.Time{}, fmt.Errorf("publish %s: %w", p.ID, err)
	}
	return time.Now(), nil
}

// payload is the job's body; a command is told where the ledger is.
func (c *Campaign) payload(p *plan.Job) jobs.Payload {
	run, ok := p.Payload.(*jobs.Run)
	if !ok {
		return p.Payload
	}
	with := *run
	with.Env = map[string]string{"CHAOS_LEDGER": c.rig.Ledger.Port()}
	return &with
}

// again publishes a job a second time, in a way that the queue's own memory of
// message ids does not notice: as after a restart, or by another publisher.
func (c *Campaign) again(ctx context.Context, p *plan.Job) error {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	m := nats.NewMsg(string(p.Kind))
	m.Header.Set(nats.MsgIdHdr, "again."+p.Session+"."+p.ID)
	var err error
	if m.Data, err = json.Marshal(c.payload(p)); err != nil {
		return err
	}
	if _, err = c.pub.Publish(ctx, point.Of("campaign", "again"), m); err != nil {
		return fmt.Errorf("publish %s again: %w", p.ID, err)
	}
	return nil
}

// publishSettled publishes a job once the session's others have ended.
func (c *Campaign) publishSettled(ctx context.Context, j *check.Job) {
	if c.board.alone(ctx, j.Plan.Session, j.Plan.ID) != nil {
		return
	}
	if at, err := c.publish(ctx, j.Plan); err == nil {
		c.acked(j, at)
	} else if ctx.Err() == nil {
		c.say("%v", err)
	}
}

// cancelLater asks that a job end.
func (c *Campaign) cancelLater(ctx context.Context, j *check.Job) {
	select {
	case <-time.After(j.Plan.CancelAfter):
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	key := events.Job{Session: j.Plan.Session, ID: j.Plan.ID}
	if err := c.facts.Cancel(ctx, key, events.CancelRequested{Reason: "the plan says so", By: "campaign"}); err != nil {
		c.say("cancel %s: %v", key, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	j.Wanted = time.Now()
}

// listen takes jobs off the board as they end: by the events that pass by, and by
// a look at the history of those that take long, since an event may pass while
// the campaign's own connection is down.
func (c *Campaign) listen(ctx context.Context) error {
	for _, kind := range []events.Kind{events.Succeeded, events.Failed, events.Cancelled, events.Dead} {
		sub, err := c.nc.Subscribe("event.*.*."+string(kind), func(m *nats.Msg) {
			var k events.Job
			if t := tokens(m.Subject); len(t) == 4 {
				k = events.Job{Session: t[1], ID: t[2]}
			}
			c.board.end(k)
		})
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() })
	}
	c.beside.Go(func() { c.review(ctx) })
	c.beside.Go(func() { c.pulse(ctx) })
	c.beside.Go(func() { c.hearQueue(ctx) })
	return nil
}

// review looks at jobs that take long.
func (c *Campaign) review(ctx context.Context) {
	for ctx.Err() == nil {
		for _, k := range c.board.old(8 * time.Second) {
			c.look(ctx, k)
		}
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
}

// look takes a job off the board if its history says that it has ended.
func (c *Campaign) look(ctx context.Context, k events.Job) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if h, err := c.facts.History(ctx, k); err == nil && h.Ended() {
		c.board.end(k)
	}
}
