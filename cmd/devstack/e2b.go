package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/stack"
)

type e2bOptions struct {
	dataDir, addr, envFile, logLevel string
	faultFile, recordFile            string
	latency                          time.Duration
	insecure                         bool
	memory                           int64 // MiB
	processes                        int
	disk                             int64 // MiB
	network, egressCA                string
	templates                        string
	strict                           bool
}

// server opens what the options name. The returned func closes it.
func (o e2bOptions) server() (e stack.E2BOptions, closeAll func() error, err error) {
	e = stack.E2BOptions{Insecure: o.insecure, Latency: o.latency}
	closeAll = func() error { return nil }
	if o.memory == 0 || o.memory < -1 || o.memory > 1<<40 {
		return e, closeAll, fmt.Errorf("--memory %d: want MiB, or -1 for no limit", o.memory)
	}
	if o.processes == 0 || o.processes < -1 {
		return e, closeAll, fmt.Errorf("--processes %d: want a number, or -1 for no limit", o.processes)
	}
	if (o.disk < 16 && o.disk != -1) || o.disk > 1<<24 {
		return e, closeAll, fmt.Errorf("--disk %d: want MiB, from 16 to %d, or -1 for no limit", o.disk, 1<<24)
	}
	if o.network != "none" && o.network != "host" {
		return e, closeAll, fmt.Errorf("--network %q: want none or host", o.network)
	}
	if _, _, err := net.SplitHostPort(o.addr); err != nil && o.addr != "" {
		return e, closeAll, fmt.Errorf("--e2b-addr %q: want HOST:PORT, as 127.0.0.1:3000", o.addr)
	}
	e.NoNetwork, e.EgressCA = o.network == "none", o.egressCA
	e.Limits = local.Limits{Memory: o.memory << 20, Processes: o.processes, Disk: max(o.disk<<20, -1)}
	if o.strict && o.templates == "" {
		return e, closeAll, errors.New("--strict-templates: there are none without --templates DIR")
	}
	e.Templates, e.StrictTemplates = o.templates, o.strict
	if o.latency < 0 {
		return e, closeAll, fmt.Errorf("--latency %s: want no less than 0", o.latency)
	}
	if o.faultFile != "" {
		if e.Faults, err = local.LoadFaults(o.faultFile); err != nil {
			return e, closeAll, fmt.Errorf("--fault: %w", err)
		}
	}
	if o.recordFile != "" {
		f, err := os.OpenFile(o.recordFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return e, closeAll, fmt.Errorf("--record: %w", err)
		}
		e.Record, closeAll = f, f.Close
	}
	return e, closeAll, nil
}

// e2b starts the sandbox server alone and keeps it until ctx ends. Its
// variables go to stdout too: an SDK in the next terminal needs nothing else.
func (a app) e2b(ctx context.Context, o e2bOptions) (err error) {
	log, err := a.logger(o.logLevel)
	if err != nil {
		return err
	}
	server, closeAll, err := o.server()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	s, err := stack.StartE2B(ctx, stack.Options{DataDir: o.dataDir, E2BAddr: o.addr, Log: log, E2B: server})
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("--e2b-addr: %w; without it a free port is taken", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()

	fmt.Fprintf(a.stderr, "Sandjet sandbox server %s\n  %-10s %s\n  %-10s %s\n", versionString(),
		"address", s.E2BURL(), "data", dataLine(s))
	for _, h := range s.E2B.InForce() {
		fmt.Fprintf(a.stderr, "  %-10s %s\n", h.Name, h.How)
	}
	fmt.Fprintln(a.stderr)
	if err := stack.WriteEnv(a.stdout, s.E2BEnv()); err != nil {
		return err
	}
	if err := a.announce(o.envFile, s.E2BEnv()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
