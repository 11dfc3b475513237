package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandjet/sandjet/internal/stack"
)

type e2bOptions struct {
	dataDir, addr, envFile, logLevel string
}

// e2b starts the sandbox server alone and keeps it until ctx ends. Its
// variables go to stdout too: an SDK in the next terminal needs nothing else.
func (a app) e2b(ctx context.Context, o e2bOptions) (err error) {
	log, err := a.logger(o.logLevel)
	if err != nil {
		return err
	}
	life := context.WithoutCancel(ctx)
	s, err := stack.StartE2B(life, stack.Options{DataDir: o.dataDir, E2BAddr: o.addr, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(life)) }()

	fmt.Fprintf(a.stderr, "Sandjet sandbox server %s\n  %-10s %s\n  %-10s %s\n  %-10s %s\n\n", versionString(),
		"address", s.E2BURL(), "isolation", s.E2B.Isolation(), "data", dataLine(s))
	if err := stack.WriteEnv(a.stdout, s.E2BEnv()); err != nil {
		return err
	}
	if err := a.announce(o.envFile, s.E2BEnv()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
