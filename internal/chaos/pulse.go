package chaos

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/jobs"
)

// How often the machine's pulse is felt, from when on a beat is late, and how long the
// queue may take to answer before it counts as silent.
const (
	pulseEvery = 100 * time.Millisecond
	pulseLate  = 30 * time.Millisecond
	silent     = 500 * time.Millisecond
)

// pulse writes down how late the machine itself is: how long after its time a
// sleeper wakes, and how long the cluster takes to store a message. What a busy
// machine does to every process is not the product's doing.
func (c *Campaign) pulse(ctx context.Context) {
	for ctx.Err() == nil {
		from := time.Now()
		pause(ctx, pulseEvery)
		took := time.Since(from) - pulseEvery
		begun := time.Now()
		_, _ = c.js.Publish(ctx, "probe.pulse", nil, jetstream.WithRetryAttempts(0))
		if took = max(took, time.Since(begun)); took < pulseLate || ctx.Err() != nil {
			continue
		}
		c.mu.Lock()
		c.pulses = append(c.pulses, check.Pulse{At: from, Took: took})
		c.mu.Unlock()
	}
}

// hearQueue writes down when the queue did not answer: only the leader of its consumer
// does, and a beat that finds none is lost.
func (c *Campaign) hearQueue(ctx context.Context) {
	heard := time.Now()
	for ctx.Err() == nil {
		pause(ctx, pulseEvery)
		asked := time.Now()
		short, cancel := context.WithTimeout(ctx, silent)
		cons, err := c.js.Consumer(short, "JOBS", jobs.DurableNormal)
		cancel()
		// Before there is a leader others may tell what they know.
		if err != nil || cons.CachedInfo().Cluster != nil && cons.CachedInfo().Cluster.Leader == "" {
			continue
		}
		if gap := time.Since(heard); gap > silent+pulseEvery {
			c.mu.Lock()
			c.silences = append(c.silences, check.Pulse{At: heard, Took: gap})
			c.mu.Unlock()
		}
		heard = asked
	}
}
