package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/wire"
)

// source is who our CloudEvents come from.
const source = "/sandjet/publisher"

// connectPatience is how long a person waits to read that NATS is not there,
// unless --timeout says otherwise.
const connectPatience = 3 * time.Second

// noticeable is how long something may take before it needs a word.
const noticeable = 200 * time.Millisecond

// conn is everything a command may talk to.
type conn struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	ns      wire.Namespace
	owner   string        // as whom we publish and ask; empty is an operator
	timeout time.Duration // for one answer

	ask  *query.Client
	jobs *jobs.Publisher
	log  *events.Log

	publisher *natsx.Publisher
}

// connect connects as the global flags say.
func (a *App) connect(ctx context.Context, cmd *cli.Command, log *slog.Logger) (*conn, error) {
	// run has a --timeout of its own; the root's is the one for answers.
	timeout := cmd.Root().Duration("timeout")
	patience := connectPatience
	if cmd.Root().IsSet("timeout") {
		patience = timeout
	}
	dialCtx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no server within %s", patience))
	defer cancel()
	nc, err := natsx.Connect(dialCtx, natsx.Config{
		URL:     a.server(cmd),
		Context: cmd.String("context"),
		Creds:   cmd.String("creds"),
		NKey:    cmd.String("nkey"),
		CA:      cmd.String("ca"),
		Cert:    cmd.String("cert"),
		Key:     cmd.String("key"),
		Name:    "sandjet publisher " + cmd.Name,

		InboxPrefix: inboxOf(cmd),
	}, log)
	if err != nil {
		return nil, err
	}
	c := &conn{nc: nc, ns: wire.Namespace(cmd.String("namespace")), owner: cmd.String("as"), timeout: timeout}
	if err := c.open(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// inboxOf is where an owner's answers go: below the usual place, where NATS permissions
// can keep others from reading them. A context says itself where.
func inboxOf(cmd *cli.Command) string {
	owner := cmd.String("as")
	if owner == "" || cmd.String("context") != "" {
		return ""
	}
	return nats.InboxPrefix + owner
}

// server is where to connect. A context's own URL gives way to --server and to
// NATS_URL, but not to a NATS_URL that was there before somebody asked for
// --context on the command line.
func (a *App) server(cmd *cli.Command) string {
	if a.fromEnv["NATS_URL"] && cmd.String("context") != "" && !a.fromEnv["NATS_CONTEXT"] {
		return ""
	}
	return cmd.String("server")
}

func (c *conn) open() (err error) {
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(c.timeout)); err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	if c.publisher, err = natsx.NewPublisher(c.nc); err != nil {
		return err
	}
	if c.log, err = events.Open(c.nc, c.publisher, c.ns, source); err != nil {
		return err
	}
	c.jobs = jobs.NewPublisher(c.publisher, c.ns)
	c.ask = query.NewClient(c.nc, c.ns, c.timeout).As(c.owner)
	return nil
}

// Close ends the connection; what was published has been acknowledged before.
func (c *conn) Close() {
	if c.log != nil {
		_ = c.log.Close()
	}
	if c.publisher != nil {
		_ = c.publisher.Close()
	}
	c.nc.Close()
}

// connected makes an action out of f that runs with a connection.
func (a *App) connected(f func(context.Context, *cli.Command, *conn) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		c, err := a.dial(ctx, cmd)
		if err != nil {
			return err
		}
		defer c.Close()
		return f(ctx, cmd, c)
	}
}

// dial says so when connecting takes long enough to be noticed.
func (a *App) dial(ctx context.Context, cmd *cli.Command) (*conn, error) {
	said := make(chan struct{})
	slow := time.AfterFunc(noticeable, func() {
		a.console.Status("connecting")
		close(said)
	})
	defer func() {
		if !slow.Stop() {
			<-said
		}
		a.console.Status("")
	}()
	return a.connect(ctx, cmd, a.logger())
}
