package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/chaos/rig"
)

// tending is held by who kills or starts a worker's process, so that nobody else
// starts one of the same name, and by who breaks a way or the sandbox server, so
// that nobody else mends it meanwhile.
var tending sync.Map // *rig.Worker, *rig.Way or *rig.Boxes -> *sync.Mutex

func tend(what any) (done func()) {
	m, _ := tending.LoadOrStore(what, &sync.Mutex{})
	m.(*sync.Mutex).Lock()
	return m.(*sync.Mutex).Unlock
}

func (c *Campaign) worker(f *plan.Fault) *rig.Worker {
	return c.rig.Workers[f.Target%len(c.rig.Workers)]
}

// living is the fault's worker, or the next one that has a process.
func (c *Campaign) living(f *plan.Fault) *rig.Worker {
	all := c.rig.Workers
	for i := range all {
		if w := all[(f.Target+i)%len(all)]; w.Process().Alive() {
			return w
		}
	}
	return c.worker(f)
}

func (c *Campaign) workerFaults() map[string]expert {
	return map[string]expert{
		"worker-kill":    c.killWorker,
		"worker-freeze":  c.freezeWorker,
		"worker-restart": c.restartWorker,
	}
}

func (c *Campaign) killWorker(ctx context.Context, f *plan.Fault) hit {
	w := c.worker(f)
	defer tend(w)()
	h := hit{target: w.Life(), from: time.Now(), effective: w.Process().Alive()}
	w.Process().Kill()
	pause(ctx, f.For)
	c.revive(ctx, w)
	return h
}

// freezeWorker stops a worker for longer than AckWait and lets it go on, as a
// zombie.
func (c *Campaign) freezeWorker(ctx context.Context, f *plan.Fault) hit {
	w := c.worker(f)
	defer tend(w)()
	h := hit{target: w.Life(), from: time.Now()}
	h.effective = w.Process().Alive() && w.Process().Freeze()
	pause(ctx, f.For)
	w.Process().Thaw()
	return h
}

// restartWorker is what a deploy does.
func (c *Campaign) restartWorker(ctx context.Context, f *plan.Fault) hit {
	w := c.worker(f)
	defer tend(w)()
	h := hit{target: w.Life(), from: time.Now(), effective: w.Process().Alive()}
	if err := w.Process().Stop(25 * time.Second); err != nil {
		h.note = err.Error()
	}
	pause(ctx, f.For)
	c.revive(ctx, w)
	return h
}

// revive starts the worker's process until one stays: a worker that finds no NATS
// at its start ends, and whoever runs it starts it again.
func (c *Campaign) revive(ctx context.Context, w *rig.Worker) {
	for ctx.Err() == nil {
		err := w.Start()
		if err == nil {
			if err = w.Ready(60 * time.Second); err == nil {
				return
			}
		}
		if p := w.Process(); p != nil && p.Alive() {
			p.Kill()
		}
		pause(ctx, 300*time.Millisecond)
	}
}

// supervise starts workers again that ended by themselves, and writes it down:
// none should.
func (c *Campaign) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		for _, w := range c.rig.Workers {
			done := tend(w)
			if !w.Process().Alive() && ctx.Err() == nil {
				c.mu.Lock()
				c.exits = append(c.exits, w.Life()+": "+w.Process().Tail(300))
				c.mu.Unlock()
				c.say("worker %s ended by itself: %s", w.Life(), w.Process().Tail(300))
				c.revive(ctx, w)
			}
			done()
		}
		pause(ctx, 500*time.Millisecond)
	}
}
