package chaos

import (
	"context"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
)

func (c *Campaign) redisFaults() map[string]expert {
	return map[string]expert{
		"redis-kill":   func(ctx context.Context, f *plan.Fault) hit { return c.killRedis(ctx, f, false) },
		"redis-empty":  func(ctx context.Context, f *plan.Fault) hit { return c.killRedis(ctx, f, true) },
		"redis-wipe":   c.wipeRedis,
		"redis-freeze": c.freezeRedis,
	}
}

func (c *Campaign) killRedis(ctx context.Context, f *plan.Fault, empty bool) hit {
	c.rig.Redis.Kill()
	h := hit{target: "redis", effective: !c.rig.Redis.Answers(200 * time.Millisecond)}
	pause(ctx, f.For)
	if err := c.rig.Redis.Start(empty); err != nil {
		return failed(h.target, err)
	}
	return h
}

func (c *Campaign) wipeRedis(ctx context.Context, _ *plan.Fault) hit {
	was, err := c.rig.Redis.Wipe(ctx)
	if err != nil {
		return failed("redis", err)
	}
	return hit{target: "redis", effective: was}
}

func (c *Campaign) freezeRedis(ctx context.Context, f *plan.Fault) hit {
	c.rig.Redis.Freeze()
	h := hit{target: "redis", effective: !c.rig.Redis.Answers(200 * time.Millisecond)}
	pause(ctx, f.For)
	c.rig.Redis.Thaw()
	return h
}
