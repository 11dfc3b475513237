package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
)

// bucket is the object store that files travel through.
func (c *conn) bucket(ctx context.Context) (jetstream.ObjectStore, error) {
	name := c.ns.Stream(events.BucketArtifact)
	b, err := c.js.ObjectStore(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("%w: %s; start a worker, it makes it", err, name)
	}
	if err != nil {
		return nil, fmt.Errorf("object bucket %s: %w", name, err)
	}
	return b, nil
}

// drop removes an object that only served one transfer. What stays behind is
// no reason to fail: the bucket's age limit takes it.
func (a *App) drop(ctx context.Context, cmd *cli.Command, b jetstream.ObjectStore, object string) {
	if cmd.String("object") != "" {
		return
	}
	if err := b.Delete(ctx, object); err != nil {
		a.note("remove object %s: %s", object, firstLine(err))
	}
}

// meter counts bytes for the status line.
type meter struct {
	console     *console
	what        string
	done, total int64
	shown       time.Time
}

// newMeter shows progress towards total bytes; -1 if that is not known.
func (a *App) newMeter(what string, total int64) *meter {
	return &meter{console: a.console, what: what, total: total}
}

// Write counts p. It never fails.
func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	if now := time.Now(); now.Sub(m.shown) >= 100*time.Millisecond {
		m.shown = now
		m.console.Status(m.String())
	}
	return len(p), nil
}

// String is the status line.
func (m *meter) String() string {
	if m.total <= 0 {
		return fmt.Sprintf("%s, %s", m.what, size(m.done))
	}
	return fmt.Sprintf("%s, %s of %s (%d%%)", m.what, size(m.done), size(m.total), m.done*100/m.total)
}

// size is a number of bytes as people say it.
func size(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/step, "KMGT"
	for f >= step && len(units) > 1 {
		f, units = f/step, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}
