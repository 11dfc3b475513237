package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/query"
)

// listen takes the port of the probes, if there shall be one.
func (a *App) listen() (net.Listener, error) {
	if a.cfg.HTTPAddr == "off" {
		return nil, nil
	}
	l, err := net.Listen("tcp", a.cfg.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("WORKER_HTTP_ADDR: %w", err)
	}
	return l, nil
}

// serve answers questions and, on listener, probes. stop ends the answers; the
// HTTP server ends with ctx.
func (a *App) serve(ctx context.Context, listener net.Listener, servers *errgroup.Group) (stop func(), err error) {
	a.health = &ops.Health{Checks: []ops.Check{
		{Name: "nats", Probe: func(context.Context) error {
			if status := a.nc.Status(); status != nats.CONNECTED {
				return errors.New(status.String())
			}
			return nil
		}},
		{Name: "redis", Probe: a.w.view.Ping},
	}}
	svc := &ops.Service{
		Namespace: a.cfg.Namespace, Worker: a.cfg.Name, Version: Version, SlotLimit: a.cfg.SandboxLimit,
		JS: a.js, Facts: a.w.facts, Queue: a.w.queue, View: a.w.view, Sandbox: a.w.sessions.describe, Reconciler: a.w.reconcile, Breakers: a.brakes.states, Doctor: a.doctor.examine, Log: a.log,
	}
	stop, err = svc.Start(a.nc)
	if err != nil || listener == nil {
		return stop, err
	}
	a.log.Info("serving health and metrics", "url", "http://"+listener.Addr().String())
	server := &http.Server{Handler: ops.Handler(a.health, a.reg), ReadHeaderTimeout: 5 * time.Second}
	servers.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	servers.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return stop, nil
}

// describe asks E2B about a sandbox, for people.
func (s *sessions) describe(ctx context.Context, id string) (*query.Sandbox, error) {
	d, err := s.e2b.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &query.Sandbox{
		ID: d.SandboxID, State: string(d.State), Template: d.TemplateID, StartedAt: d.StartedAt, EndAt: d.EndAt,
		CPUCount: d.CPUCount, MemoryMB: d.MemoryMB, DiskMB: d.DiskSizeMB,
	}
	samples, err := s.e2b.Metrics(ctx, id, time.Time{}, time.Time{})
	if err != nil || len(samples) == 0 {
		return out, nil // figures are a courtesy
	}
	last := samples[len(samples)-1]
	out.CPUPct, out.MemUsed, out.DiskUsed = last.CPUUsedPct, last.MemUsed, last.DiskUsed
	return out, nil
}
