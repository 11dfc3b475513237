package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"

	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/worker"
)

// running is a worker in this process. A nil *running is no worker.
type running struct {
	app    *worker.App
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done closes
}

// startWorker starts a worker and waits until it takes jobs.
func startWorker(ctx context.Context, getenv func(string) string, log *slog.Logger) (*running, error) {
	cfg, err := worker.ConfigFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	cfg.Environ = os.Environ()
	w, err := worker.New(cfg, log)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{app: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = w.Run(life, context.WithoutCancel(ctx))
	}()
	select {
	case <-w.Ready():
		return r, nil
	case <-r.done:
		cancel()
		return nil, fmt.Errorf("worker: %w", r.err)
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), r.stop())
	}
}

// wait returns when ctx ends, or with an error when the worker ends before.
func (r *running) wait(ctx context.Context) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-r.done:
		return errors.New("the worker has stopped by itself")
	}
}

// stop lets the worker go in good order and returns what it ended with.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		return fmt.Errorf("worker: %w", r.err)
	}
	return nil
}

// small are caps for a laptop: JetStream reserves them, and refuses streams for
// which the disk has no room.
var small = map[string]string{
	"WORKER_EVENTS_CAP": "1GiB", "WORKER_JOBS_CAP": "256MiB", "WORKER_SCHEDULES_CAP": "256MiB",
	"WORKER_DEAD_CAP": "128MiB", "WORKER_SESSIONS_CAP": "64MiB", "WORKER_ARTIFACTS_CAP": "1GiB",
}

// workerEnv is the environment of a worker on this stack: the stack's own
// addresses, those of its git server, and of the outer environment what does not say
// where things are.
func workerEnv(s *stack.Stack, git map[string]string, httpAddr string, outer func(string) string) func(string) string {
	vars := map[string]string{"WORKER_HTTP_ADDR": httpAddr, "WORKER_START_TIMEOUT": "1m"}
	maps.Copy(vars, git)
	for _, v := range s.Env() {
		vars[v.Name] = v.Value
	}
	return func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		for _, prefix := range []string{"NATS_", "REDIS_", "E2B_"} {
			if strings.HasPrefix(name, prefix) {
				return ""
			}
		}
		return cmp.Or(outer(name), small[name])
	}
}
