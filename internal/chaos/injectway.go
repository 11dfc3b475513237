package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/chaos/rig"
)

func (c *Campaign) wayFaults() map[string]expert {
	redis := func(w *rig.Worker) []*rig.Way { return []*rig.Way{w.Redis} }
	boxes := func(w *rig.Worker) []*rig.Way { return []*rig.Way{w.E2B} }
	queue := func(w *rig.Worker) []*rig.Way { return w.NATS }
	return map[string]expert{
		"cut-worker-nats":   c.cutWays(queue),
		"cut-worker-redis":  c.cutWays(redis),
		"cut-worker-e2b":    c.cutWays(boxes),
		"slow-worker-nats":  c.slowWays(queue, latency),
		"slow-worker-redis": c.slowWays(redis, latency),
		"narrow-worker-e2b": c.slowWays(boxes, narrow),
	}
}

// latency is a way around the world.
func latency(f *plan.Fault) []rig.Toxic {
	ms := map[string]int{"latency": 20 + f.Arg%200, "jitter": f.Arg % 50}
	return []rig.Toxic{{Type: "latency", Stream: "upstream", Attributes: ms}, {Type: "latency", Stream: "downstream", Attributes: ms}}
}

// narrow is a way for some hundred KB a second.
func narrow(f *plan.Fault) []rig.Toxic {
	return []rig.Toxic{{Type: "bandwidth", Stream: "downstream", Attributes: map[string]int{"rate": 100 + f.Arg%400}}}
}

// cutWays cuts a worker off from one of the others.
func (c *Campaign) cutWays(of func(*rig.Worker) []*rig.Way) expert {
	return func(ctx context.Context, f *plan.Fault) hit {
		w := c.living(f)
		defer tend(of(w)[0])()
		h := hit{target: w.Life(), from: time.Now(), effective: w.Process().Alive()}
		for _, way := range of(w) {
			way.Cut()
		}
		pause(ctx, f.For)
		var errs []error
		for _, way := range of(w) {
			errs = append(errs, way.Heal())
		}
		if err := errors.Join(errs...); err != nil {
			return failed(h.target, err)
		}
		return h
	}
}

// slowWays makes a worker's ways to one of the others slow.
func (c *Campaign) slowWays(of func(*rig.Worker) []*rig.Way, how func(*plan.Fault) []rig.Toxic) expert {
	return func(ctx context.Context, f *plan.Fault) hit {
		w := c.living(f)
		defer tend(of(w)[0])()
		h := hit{target: w.Life(), from: time.Now(), effective: w.Process().Alive()}
		var undo []func()
		for _, way := range of(w) {
			if u, err := way.Slow(how(f)...); err == nil {
				undo = append(undo, u)
			} else {
				h.note, h.effective = err.Error(), false
			}
		}
		pause(ctx, f.For)
		begun := time.Now()
		for _, u := range undo {
			u()
		}
		if took := time.Since(begun); took > 2*time.Second {
			h.note += " took long to undo"
		}
		return h
	}
}
