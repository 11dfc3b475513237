package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Options says how large the rig is.
type Options struct {
	Dir       string // for data and logs
	Nodes     int    // NATS servers; 3
	Workers   int
	AckWait   time.Duration
	Idle      time.Duration // default idle timeout of sessions
	Off       string        // the mechanism that the workers go without
	WorkerEnv []string      // more of the workers' environment
	Binary    string        // the worker; empty compiles one
	Boxes     BoxOptions
}

// Rig is everything that runs.
type Rig struct {
	Options
	Nodes   []*Node
	Redis   *Redis
	Boxes   *Boxes
	Workers []*Worker
	Ledger  *Ledger

	net *network
	bin string
}

// Build compiles the worker into a directory and returns its path.
func Build(dir string) (string, error) { return build(dir) }

// Start starts everything. What was started is stopped again if it fails.
func Start(o Options) (*Rig, error) {
	r := &Rig{Options: o, net: newNetwork(), bin: o.Binary}
	if err := r.start(); err != nil {
		r.Stop()
		return nil, fmt.Errorf("start the rig: %w", err)
	}
	return r, nil
}

func (r *Rig) start() error {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	var err error
	if r.bin == "" {
		if r.bin, err = build(r.Dir); err != nil {
			return err
		}
	}
	if r.Ledger, err = newLedger(); err != nil {
		return err
	}
	if r.Redis, err = startRedis(filepath.Join(r.Dir, "redis")); err != nil {
		return err
	}
	if r.Boxes, err = startBoxes(r.Dir, r.Options.Boxes); err != nil {
		return err
	}
	if err := r.startCluster(max(1, r.Options.Nodes)); err != nil {
		return err
	}
	return nil
}

// StartWorkers starts the workers, once what they need can be used.
func (r *Rig) StartWorkers() error { return r.startWorkers(r.Options.Workers) }

// Stop ends everything at once.
func (r *Rig) Stop() {
	for _, w := range r.Workers {
		if p := w.Process(); p != nil {
			p.Kill()
		}
	}
	if r.Boxes != nil {
		r.Boxes.close()
	}
	for _, n := range r.Nodes {
		if n.Child != nil {
			n.Kill()
		}
	}
	if r.Redis != nil {
		r.Redis.close()
	}
	if r.Ledger != nil {
		r.Ledger.close()
	}
	r.net.close()
}
