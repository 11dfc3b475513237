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
	anything := []string{"create", "connect", "get", "list", "pause", "kill", "timeout", "start", "start", "read", "write", "stat"}
	return map[string]expert{
		"sandbox-dies":     c.killBox,
		"e2b-freeze":       c.freezeBoxes,
		"e2b-stall-stream": c.stallStreams,
		"e2b-5xx": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, anything...), Action: "status", Code: []int{500, 502, 503, 504}[f.Arg%4], Count: 1 + f.Arg%4}
		}),
		"e2b-rate": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "connect", "get", "start"), Action: "status", Code: 429, RetryAfter: time.Second, Count: 1 + f.Arg%3}
		}),
		"e2b-quota": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "create", "connect"), Action: "status", Code: 429, Count: 1 + f.Arg%2}
		}),
		"e2b-lost-answer": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "connect", "pause", "kill", "start", "start", "write", "timeout"), Action: "lost", Count: 1 + f.Arg%2}
		}),
		"e2b-lost-create": c.trouble(func(*plan.Fault) rig.Trouble { return rig.Trouble{Op: "create", Action: "lost", Count: 1} }),
		"e2b-late-effect": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "connect", "pause", "kill"), Action: "late", After: time.Duration(100+f.Arg%1200) * time.Millisecond, Count: 1}
		}),
		"e2b-hang": c.trouble(func(f *plan.Fault) rig.Trouble {
			return rig.Trouble{Op: pick(f.Target, "create", "connect", "get", "start", "read", "pause"), Action: "hang", Count: 1 + f.Arg%2}
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

// trouble arms a fault of the sandbox server and waits for it to meet a call. One
// that meets none was none.
func (c *Campaign) trouble(of func(*plan.Fault) rig.Trouble) expert {
	return func(ctx context.Context, f *plan.Fault) hit {
		t := of(f)
		target := fmt.Sprintf("%s (%s)", t.Op, t.Action)
		id, err := c.rig.Boxes.Arm(ctx, t)
		if err != nil {
			return failed(target, err)
		}
		over := time.Now().Add(f.For)
		for time.Now().Before(over) && ctx.Err() == nil {
			pause(ctx, 50*time.Millisecond)
			if met, err := c.rig.Boxes.Met(ctx, id); err == nil && met >= t.Count && t.Action != "hang" {
				break
			}
		}
		met, err := c.rig.Boxes.Disarm(context.WithoutCancel(ctx), id)
		if err != nil {
			return failed(target, err)
		}
		return hit{target: target, effective: met > 0, note: fmt.Sprintf("(met %d)", met)}
	}
}

// killBox ends a sandbox as if its machine had died.
func (c *Campaign) killBox(ctx context.Context, f *plan.Fault) hit {
	boxes, err := c.rig.Boxes.Journal(ctx)
	if err != nil {
		return failed("sandbox", err)
	}
	var there []string
	for _, b := range boxes {
		if b.Gone.IsZero() && b.Running {
			there = append(there, b.ID)
		}
	}
	if len(there) == 0 {
		return hit{target: "sandbox", note: "none runs"}
	}
	id := there[f.Target%len(there)]
	was, err := c.rig.Boxes.KillOne(ctx, id)
	if err != nil {
		return failed(id, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed[id] = true
	return hit{target: id, effective: was}
}

// freezeBoxes stops the sandbox server; what runs in the sandboxes runs on.
func (c *Campaign) freezeBoxes(ctx context.Context, f *plan.Fault) hit {
	h := hit{target: "e2b", effective: c.rig.Boxes.Freeze()}
	pause(ctx, f.For)
	c.rig.Boxes.Thaw()
	return h
}

// stallStreams lets nothing through from the sandbox server to one worker, and
// closes nothing.
func (c *Campaign) stallStreams(ctx context.Context, f *plan.Fault) hit {
	w := c.worker(f)
	undo, err := w.E2B.Slow(rig.Toxic{Type: "timeout", Stream: "downstream", Attributes: map[string]int{"timeout": 0}})
	if err != nil {
		return failed(w.Life(), err)
	}
	pause(ctx, f.For)
	undo()
	return hit{target: w.Life(), effective: true}
}
