package jobs

import (
	"errors"
	"time"

	"github.com/sandjet/sandjet/internal/wire"
)

// Config is how the streams of a namespace are set up. The zero value is the
// default.
type Config struct {
	Namespace wire.Namespace
	Replicas  int // of each stream; 1

	JobsMaxBytes      int64 // JOBS refuses publishers beyond it; 1 GiB
	SchedulesMaxBytes int64 // Reschedule refuses beyond it; 1 GiB
	DeadMaxBytes      int64 // DEAD drops its oldest beyond it; 1 GiB
	DeadMaxAge        time.Duration
	Duplicates        time.Duration // JOBS' window for message ids; 2 min

	// AckWait is how long the server waits for a sign of life before it delivers
	// a job again; 30 s. Beat at a third of it.
	AckWait time.Duration
	// MaxDeliver bounds deliveries, -1 (the default) does not: the worker
	// decides. When an operator bounds them, the advisories feed DEAD.
	MaxDeliver int
	// MaxAckPending bounds the jobs of one consumer that are delivered and not
	// acknowledged, in the whole fleet; 10,000.
	MaxAckPending int
}

func (c Config) withDefaults() Config {
	set(&c.Replicas, 1)
	set(&c.JobsMaxBytes, 1<<30)
	set(&c.SchedulesMaxBytes, 1<<30)
	set(&c.DeadMaxBytes, 1<<30)
	set(&c.DeadMaxAge, 30*day)
	set(&c.Duplicates, 2*time.Minute)
	set(&c.AckWait, 30*time.Second)
	set(&c.MaxDeliver, -1)
	set(&c.MaxAckPending, 10_000)
	return c
}

func (c Config) check() error {
	switch {
	case c.Replicas < 1 || c.Replicas > 5:
		return errors.New("replicas: want 1 to 5")
	case c.AckWait < 100*time.Millisecond:
		return errors.New("ack wait: want at least 100ms")
	case c.MaxAckPending < 1:
		return errors.New("max ack pending: want at least 1")
	}
	return nil
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
