package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/chaos/rig"
)

func (c *Campaign) boxFaults() map[string]expert {
	pick := func(n int, of ...string) string { return of[n%len(of)] }
	// The calls that a workload makes most are met most.
	anything := []string{"create", "get", "get", "list", "pause", "kill", "connect", "start", "start", "start", "read", "read", "write"}
	return map[string]expert{
		"sandbox-dies":     c.killBox,
		"e2b-freeze":       c.freezeBoxes,
		"e2b-stall-stream": c.stallStreams,
		"e2b-5xx": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, anything...), Action: "status", Code: []int{500, 502, 503, 504}[f.Arg%4], Count: 1 + f.Arg%4}
		}),
		"e2b-rate": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "get", "start"), Action: "status", Code: 429, RetryAfter: time.Second, Count: 1 + f.Arg%3}
		}),
		"e2b-quota": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "create", "create", "connect"), Action: "status", Code: 429, Count: 1 + f.Arg%2}
		}),
		"e2b-lost-answer": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "connect", "pause", "kill", "start", "start", "start", "write", "write"), Action: "lost", Count: 1 + f.Arg%2}
		}),
		"e2b-lost-create": c.trouble(func(*plan.Fault) rig.Trouble { return rig.Trouble{Op: "create", Action: "lost", Count: 1} }),
		"e2b-late-effect": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "create", "kill", "pause", "connect"), Action: "late", After: time.Duration(100+f.Arg%1200) * time.Millisecond, Count: 1}
		}),
		"e2b-hang": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "get", "start", "start", "read", "pause"), Action: "hang", Count: 1 + f.Arg%2}
		}),
		"e2b-cut-stream": c.trouble(func(f *plan.Fault) rig.Trouble {
			t := rig.Trouble{Op: pick(f.Target, "start", "start", "start", "read"), Action: "cut", Count: 1 + f.Arg%4, Bytes: int64(f.Arg % 20000)}
			if f.Arg%3 == 0 {
				t.After = time.Duration(50+f.Arg%1500) * time.Millisecond
			}
			return t
		}),
	}
}

// meetLimit is how long a fault of the sandbox server may wait for a call. When no
// job is left to make one it waits no longer.
const meetLimit = 30 * time.Second

// trouble arms a fault of the sandbox server and waits for it to meet calls. It
// lasts from the first that it meets; one that meets none was none.
func (c *Campaign) trouble(of func(*plan.Fault) rig.Trouble) expert {
	return func(ctx context.Context, f *plan.Fault) hit {
		t := of(f)
		h := hit{target: fmt.Sprintf("%s (%s)", t.Op, t.Action)}
		id, err := c.rig.Boxes.Arm(ctx, t)
		if err != nil {
			return failed(h.target, err)
		}
		for over := time.Now().Add(meetLimit); time.Now().Before(over) && ctx.Err() == nil && !c.board.over(); pause(ctx, 50*time.Millisecond) {
			met, err := c.rig.Boxes.Met(ctx, id)
			if err != nil || len(met) == 0 {
				continue
			}
			if len(met) >= t.Count && t.Action != "hang" || time.Since(met[0]) > f.For {
				break
			}
		}
		met, err := c.rig.Boxes.Disarm(context.WithoutCancel(ctx), id)
		if err != nil {
			return failed(h.target, err)
		}
		if h.effective = len(met) > 0; h.effective {
			h.from = met[0]
		}
		h.note = fmt.Sprintf("(met %d)", len(met))
		return h
	}
}

// running are the sandboxes that run, once there are some.
func (c *Campaign) running(ctx context.Context) (there []string, err error) {
	for over := time.Now().Add(meetLimit); len(there) == 0 && err == nil && time.Now().Before(over) && !c.board.over(); pause(ctx, 20*time.Millisecond) {
		var boxes []rig.Box
		boxes, err = c.rig.Boxes.Journal(ctx)
		for _, b := range boxes {
			if b.Gone.IsZero() && b.Running {
				there = append(there, b.ID)
			}
		}
	}
	return there, err
}

// killBox ends a sandbox as if its machine had died.
func (c *Campaign) killBox(ctx context.Context, f *plan.Fault) hit {
	there, err := c.running(ctx)
	if err != nil || len(there) == 0 {
		return hit{target: "sandbox", note: fmt.Sprint("none runs ", err)}
	}
	id := there[f.Target%len(there)]
	from := time.Now()
	was, err := c.rig.Boxes.KillOne(ctx, id)
	if err != nil {
		return failed(id, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed[id] = true
	return hit{target: id, from: from, effective: was}
}

// freezeBoxes stops the sandbox server; what runs in the sandboxes runs on.
func (c *Campaign) freezeBoxes(ctx context.Context, f *plan.Fault) hit {
	defer tend(c.rig.Boxes)()
	h := hit{target: "e2b", from: time.Now(), effective: c.rig.Boxes.Freeze()}
	pause(ctx, f.For)
	c.rig.Boxes.Thaw()
	return h
}

// stallStreams lets nothing through from the sandbox server to one worker, and
// closes nothing.
func (c *Campaign) stallStreams(ctx context.Context, f *plan.Fault) hit {
	w := c.living(f)
	defer tend(w.E2B)()
	h := hit{target: w.Life(), from: time.Now(), effective: w.Process().Alive()}
	undo, err := w.E2B.Slow(rig.Toxic{Type: "timeout", Stream: "downstream", Attributes: map[string]int{"timeout": 0}})
	if err != nil {
		return failed(h.target, err)
	}
	pause(ctx, f.For)
	undo()
	return h
}
