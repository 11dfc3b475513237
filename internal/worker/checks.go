package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/store"
)

// Version is a semantic version; the build sets it.
var Version = "0.1.0-dev"

// minServer is the first NATS server with message schedules.
const minServer = "2.12.0"

// checkNATS says in one line what the server lacks.
func checkNATS(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error {
	if v := nc.ConnectedServerVersion(); !atLeast(v, 2, 12) {
		return fmt.Errorf("NATS_URL: the server is %s: want %s or newer, which can schedule messages", v, minServer)
	}
	ctx, cancel := within(ctx)
	defer cancel()
	_, err := js.AccountInfo(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return errors.New("NATS_URL: JetStream is off for this account: start nats-server with -js, or enable it for the account")
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("NATS_URL: JetStream does not answer: %w", err)
}

func atLeast(version string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

// checkE2B proves the key with a free read. An outage does not keep the worker
// from starting: jobs wait for its end.
func checkE2B(ctx context.Context, client *e2b.Client, log *slog.Logger) error {
	short, cancel := within(ctx)
	defer cancel()
	err := client.Ping(short)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, e2b.ErrUnauthorized), errors.Is(err, e2b.ErrForbidden):
		return fmt.Errorf("E2B_API_KEY: E2B refuses the key: %w", err)
	case ctx.Err() != nil:
		return fmt.Errorf("E2B_API_URL: %w", context.Cause(ctx))
	case errors.Is(err, e2b.ErrUnavailable), errors.Is(err, e2b.ErrRateLimited), short.Err() != nil:
		log.Warn("e2b does not answer; jobs will wait", "err", err)
		return nil
	}
	return fmt.Errorf("E2B_API_URL: %w", err)
}

// openView opens Redis. The error shows no password.
func openView(ctx context.Context, cfg Config) (*store.Store, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	view, err := store.Open(ctx, cfg.RedisURL, cfg.Namespace,
		store.WithSlots(cfg.SandboxLimit, cfg.OwnerSandboxLimit), store.WithJobs(cfg.ViewJobs, cfg.ViewForget))
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return view, nil
}
