package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/e2b"
)

// Version is a semantic version; the build sets it.
var Version = "0.1.0-dev"

// minServer is the first NATS server with message schedules.
const minServer = "2.12.0"

// checkNATS sees to it that the server can do what we need, before anything is
// made on it.
func checkNATS(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error {
	if v := nc.ConnectedServerVersion(); !atLeast(v, 2, 12) {
		return fmt.Errorf("NATS_URL: the server is %s: want %s or newer, which can schedule messages", v, minServer)
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return errors.New("NATS_URL: JetStream is off for this account: start nats-server with -js, or enable it for the account")
		}
		return fmt.Errorf("NATS_URL: JetStream does not answer: %w", err)
	}
	return nil
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
	err := client.Ping(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, e2b.ErrUnauthorized), errors.Is(err, e2b.ErrForbidden):
		return fmt.Errorf("E2B_API_KEY: E2B refuses the key: %w", err)
	case errors.Is(err, e2b.ErrUnavailable), errors.Is(err, e2b.ErrRateLimited):
		log.Warn("e2b does not answer; jobs will wait", "err", err)
		return nil
	}
	return fmt.Errorf("E2B_API_URL: %w", err)
}
