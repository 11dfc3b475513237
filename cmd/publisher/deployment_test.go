package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

// deployment is a NATS server with our streams, and the log and the queue as a
// worker has them. What needs more than that waits for the whole stack.
type deployment struct {
	url   string
	js    jetstream.JetStream
	log   *events.Log
	queue *jobs.Queue
}

// deploy starts one. Its parts are closed by cleanup, last first.
func deploy(storeDir string, cleanup func(func())) (*deployment, error) {
	nc, url, err := serveNATS(storeDir, cleanup)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	pub, err := natsx.NewPublisher(nc)
	if err != nil {
		return nil, err
	}
	cleanup(func() { _ = pub.Close() })
	log, err := events.Open(nc, pub, "", "/sandjet/worker/test")
	if err != nil {
		return nil, err
	}
	cleanup(func() { _ = log.Close() })
	queue, err := jobs.Open(js, pub, jobs.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := errors.Join(events.Setup(ctx, js, events.Config{}), queue.Setup(ctx)); err != nil {
		return nil, err
	}
	return &deployment{url: url, js: js, log: log, queue: queue}, nil
}

func serveNATS(storeDir string, cleanup func(func())) (*nats.Conn, string, error) {
	var s *server.Server
	s, err := stack.StartNATS(stack.NATSOptions{StoreDir: storeDir})
	if err != nil {
		return nil, "", err
	}
	cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		return nil, "", err
	}
	cleanup(nc.Close)
	return nc, s.ClientURL(), nil
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d, err := deploy(t.TempDir(), t.Cleanup)
	require.NoError(t, err)
	return d
}
