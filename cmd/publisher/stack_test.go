package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/worker"
)

// whole is a whole deployment: NATS, Redis, the local sandbox server and a
// worker. It starts with the first script that wants it and serves them all;
// scripts keep out of each other's way by the names of their sessions.
type whole struct {
	once    sync.Once
	url     string
	err     error
	cleanup []func()
}

// use points a script at the deployment.
func (w *whole) use(ts *testscript.TestScript, _ bool, _ []string) {
	w.once.Do(func() { w.err = w.start() })
	ts.Check(w.err)
	ts.Setenv("NATS_URL", w.url)
}

func (w *whole) start() error {
	ctx := context.Background()
	s, err := stack.Start(ctx, stack.Options{})
	if err != nil {
		return err
	}
	w.cleanup = append(w.cleanup, func() { _ = s.Stop(ctx) })
	w.url = s.NATSURL()
	env := map[string]string{"WORKER_HTTP_ADDR": "127.0.0.1:0", "WORKER_START_TIMEOUT": "1m"}
	for _, v := range s.Env() {
		env[v.Name] = v.Value
	}
	cfg, err := worker.ConfigFromEnv(func(k string) string { return env[k] })
	if err != nil {
		return err
	}
	app, err := worker.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	life, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- app.Run(life, ctx) }()
	select {
	case <-app.Ready():
	case err := <-done:
		cancel()
		return fmt.Errorf("worker ended at once: %w", err)
	}
	w.cleanup = append(w.cleanup, func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "worker:", err)
		}
	})
	return nil
}

// stop ends what was started, last first.
func (w *whole) stop() {
	for i := len(w.cleanup) - 1; i >= 0; i-- {
		w.cleanup[i]()
	}
}
