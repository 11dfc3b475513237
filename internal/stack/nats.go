// Package stack starts the outside systems Sandjet needs, inside one process:
// NATS with JetStream, Redis, the local sandbox server. Only cmd/devstack and
// tests may link it.
package stack

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// NATSOptions says how the embedded NATS server runs.
type NATSOptions struct {
	Addr     string // "127.0.0.1:4222"; empty picks a free port
	StoreDir string // JetStream's files; required
}

// StartNATS starts an embedded server with JetStream on file storage and waits
// until it takes connections. The caller ends it with Shutdown and
// WaitForShutdown. A second server on the same StoreDir has the first one's
// streams.
func StartNATS(o NATSOptions) (*server.Server, error) {
	host, port, err := splitAddr(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("nats address: %w", err)
	}
	if o.StoreDir == "" {
		return nil, errors.New("nats: no store directory")
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "sandjet",
		Host:       host,
		Port:       port,
		JetStream:  true,
		StoreDir:   o.StoreDir,
		NoLog:      true,
		NoSigs:     true,
	})
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		s.Shutdown()
		return nil, fmt.Errorf("nats: not ready within %s", patience)
	}
	return s, nil
}
