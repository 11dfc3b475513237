package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandjet/sandjet/internal/point"
)

// flusher sends the commands of concurrent callers in shared pipelines. With
// nothing in flight a call goes out at once, alone; while one flush is under way
// the calls that come pile up and make the next. One flush is in flight at any
// time, so calls take effect in the order in which they were queued.
type flusher struct {
	client redis.UniversalClient
	max    int    // commands a flush
	idle   string // key of the idle deadlines
	queue  chan *call
	// watch adds the store's own look to each flush.
	watch func(ctx context.Context, p redis.Pipeliner) (seen func() (lanes string))

	stop chan struct{}
	done chan struct{}
	once sync.Once
}

// call is what one caller waits for.
type call struct {
	commands []command
	one      [1]command // room for the common case
	touch    touch      // if it has a session
	lanes    string     // what the flush saw of the lanes
	err      error      // why it was not sent; errors of a command are in the command
	done     chan struct{}
}

// at names the boundary around a call by its first command.
func (c *call) at() point.At {
	first := c.commands[0]
	if first.script != nil {
		return point.Of("redis", first.script.name)
	}
	return point.Of("redis", first.Name())
}

// touch moves a session's idle deadline. Every job does so at its end, and one
// command of a flush does it for all.
type touch struct {
	session string
	idle    time.Duration
}

func newFlusher(c redis.UniversalClient, queue, max int, idle string, watch func(context.Context, redis.Pipeliner) func() string) *flusher {
	f := &flusher{
		client: c, max: max, idle: idle, watch: watch,
		queue: make(chan *call, queue),
		stop:  make(chan struct{}), done: make(chan struct{}),
	}
	go f.run()
	return f
}

// close stops the flusher after the flush under way. What is still queued ends
// with ErrClosed.
func (f *flusher) close() {
	f.once.Do(func() { close(f.stop) })
	<-f.done
}

// do sends commands and waits until Redis has answered all of them or ctx ends;
// in that case they may still take effect. The first error of a command is
// returned, redis.Nil left out.
func (f *flusher) do(ctx context.Context, commands ...command) error {
	c := &call{commands: commands, done: make(chan struct{})}
	return f.wait(ctx, c)
}

// do1 is do for one command without a slice of its own.
func (f *flusher) do1(ctx context.Context, cmd command) error { return f.touch(ctx, cmd, touch{}) }

// seen is do1 that also returns what the command's flush saw of the lanes.
func (f *flusher) seen(ctx context.Context, cmd command) (lanes string, err error) {
	c := &call{done: make(chan struct{})}
	c.one[0] = cmd
	c.commands = c.one[:]
	if err = f.wait(ctx, c); err != nil {
		return "", err // a caller that left may not look: the flush is under way
	}
	return c.lanes, nil
}

// touch is do1 that also moves an idle deadline.
func (f *flusher) touch(ctx context.Context, cmd command, t touch) error {
	c := &call{done: make(chan struct{}), touch: t}
	c.one[0] = cmd
	c.commands = c.one[:]
	return f.wait(ctx, c)
}

func (f *flusher) wait(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if point.Built {
		if err := point.Before(ctx, c.at()); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	select {
	case f.queue <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.stop:
		return ErrClosed
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.done:
		// The loop is over; it may have answered this very call before.
		select {
		case <-c.done:
		default:
			return ErrClosed
		}
	}
	if point.Built {
		if err := point.After(ctx, c.at()); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	if c.err != nil {
		return c.err
	}
	for _, cmd := range c.commands {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// run is the flusher's only goroutine.
func (f *flusher) run() {
	defer close(f.done)
	var batch []*call
	for {
		select {
		case c := <-f.queue:
			batch = f.pile(append(batch[:0], c))
		case <-f.stop:
			return
		}
		err := f.flush(batch)
		finish(batch)
		for err != nil {
			// Whoever queued behind a dead connection would wait for the next
			// timeout as well, one flush after the other: they fail together.
			if batch = f.drain(batch[:0]); len(batch) == 0 {
				break
			}
			for _, c := range batch {
				c.err = err
			}
			finish(batch)
		}
		clear(batch[:cap(batch)])
	}
}

// pile adds to batch what waits in the queue, up to max commands.
func (f *flusher) pile(batch []*call) []*call {
	n := len(batch[0].commands)
	for n < f.max {
		select {
		case c := <-f.queue:
			batch = append(batch, c)
			n += len(c.commands)
		default:
			return batch
		}
	}
	return batch
}

// drain takes what waits in the queue now.
func (f *flusher) drain(into []*call) []*call {
	for range cap(f.queue) {
		select {
		case c := <-f.queue:
			into = append(into, c)
		default:
			return into
		}
	}
	return into
}

func finish(batch []*call) {
	for _, c := range batch {
		close(c.done)
	}
}

// flush sends one pipeline, and a second one with what was cut off or what
// Redis had no script for. Every command ends with a result or an error; the
// error returned is set only if no command at all was answered.
func (f *flusher) flush(batch []*call) error {
	// No caller's context: each leaves when its own ends, the others stay. The
	// timeouts are those of the connection.
	ctx := context.Background()
	p := f.client.Pipeline()
	if touches := f.touches(ctx, batch); touches != nil {
		n := len(batch)
		batch = append(batch, touches)
		defer func() { share(touches, batch[:n]) }()
	}
	for _, c := range batch {
		for _, cmd := range c.commands {
			_ = p.Process(ctx, cmd.Cmd)
		}
	}
	seen := f.watch(ctx, p)
	_, err := p.Exec(ctx)
	if err != nil {
		if later := f.again(ctx, batch); later != nil {
			seen = later
		}
	}
	lanes := seen()
	for _, c := range batch {
		c.lanes = lanes
	}
	if err == nil {
		return nil
	}
	return lost(batch)
}

// touches makes one call of all the touches in batch, or nil.
func (f *flusher) touches(ctx context.Context, batch []*call) *call {
	args := []string{f.idle, "GT"}
	for _, c := range batch {
		if c.touch.session != "" {
			args = append(args, signed(c.touch.idle), c.touch.session)
		}
	}
	if len(args) == 2 {
		return nil
	}
	return &call{commands: []command{dueSetScript.eval(ctx, 1, args...)}}
}

// share gives the result of touches to those that had one.
func share(touches *call, batch []*call) {
	for _, c := range batch {
		if c.touch.session != "" {
			c.err = touches.commands[0].Err()
		}
	}
}

// again repeats, with the whole script in place of its hash, the commands that
// a restart or a failover of Redis may have hit. It returns the look that went
// with them, or nil if there were none.
func (f *flusher) again(ctx context.Context, batch []*call) (seen func() (lanes string)) {
	var failed, repeated []command
	p := f.client.Pipeline()
	for _, c := range batch {
		for _, cmd := range c.commands {
			if err := cmd.Err(); err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") && !broken(err) {
				continue
			}
			r := cmd.again(ctx)
			_ = p.Process(ctx, r.Cmd)
			failed, repeated = append(failed, cmd), append(repeated, r)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	seen = f.watch(ctx, p)
	_, _ = p.Exec(ctx) // each command has its own error
	for i, cmd := range failed {
		cmd.SetVal(repeated[i].Val())
		cmd.SetErr(repeated[i].Err())
	}
	return seen
}

// lost returns the first command's error if no command of batch was answered
// by Redis.
func lost(batch []*call) error {
	for _, c := range batch {
		for _, cmd := range c.commands {
			var re redis.Error
			if err := cmd.Err(); err == nil || errors.As(err, &re) {
				return nil
			}
		}
	}
	return batch[0].commands[0].Err()
}
