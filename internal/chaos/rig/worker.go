package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Worker is a worker and its ways to the others.
type Worker struct {
	Name  string
	NATS  []*Way // to each server
	Redis *Way
	E2B   *Way

	rig *Rig
	log string

	mu    sync.Mutex
	child *Child
	lives int // how many processes have borne the name
}

// build compiles the worker, with the switches that a control turns.
func build(dir string) (string, error) {
	bin := filepath.Join(dir, "worker")
	args := []string{"build", "-buildvcs=false", "-tags", "faultpoints", "-o", bin, "github.com/sandjet/sandjet/cmd/worker"}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the worker: %w\n%s", err, out)
	}
	return bin, nil
}

// startWorkers starts n workers and waits until all take jobs.
func (r *Rig) startWorkers(n int) error {
	for i := range n {
		w := &Worker{Name: fmt.Sprintf("w%d", i+1), rig: r}
		w.log = filepath.Join(r.Dir, w.Name+".log")
		for _, node := range r.Nodes {
			way, err := r.net.way(w.Name+"-"+node.cfg.Name, node.cfg.Client)
			if err != nil {
				return err
			}
			w.NATS = append(w.NATS, way)
		}
		var err error
		if w.Redis, err = r.net.way(w.Name+"-redis", r.Redis.Addr()); err != nil {
			return err
		}
		if w.E2B, err = r.net.way(w.Name+"-e2b", r.Boxes.addr); err != nil {
			return err
		}
		r.Workers = append(r.Workers, w)
	}
	for i, w := range r.Workers {
		if err := w.Start(); err != nil {
			return err
		}
		if i == 0 {
			if err := w.Ready(90 * time.Second); err != nil {
				return err
			}
		}
	}
	for _, w := range r.Workers {
		if err := w.Ready(90 * time.Second); err != nil {
			return err
		}
	}
	return nil
}

// env is what the worker is told.
func (w *Worker) env(life string) []string {
	var urls []string
	for _, way := range w.NATS {
		urls = append(urls, "nats://"+way.Addr)
	}
	o := w.rig.Options
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.rig.Dir,
		// All share two cores with everything else.
		fmt.Sprintf("GOMAXPROCS=%d", min(2, runtime.NumCPU())),
		"WORKER_NAME=" + life,
		"NATS_URL=" + strings.Join(urls, ","), fmt.Sprintf("NATS_REPLICAS=%d", len(w.rig.Nodes)),
		"REDIS_URL=redis://" + w.Redis.Addr,
		"E2B_API_URL=http://" + w.E2B.Addr, "E2B_SANDBOX_URL=http://" + w.E2B.Addr, "E2B_API_KEY=" + w.rig.Boxes.Key,
		"WORKER_HTTP_ADDR=off", "LOG_FORMAT=json", "LOG_LEVEL=info",
		"WORKER_ACK_WAIT=" + o.AckWait.String(), "WORKER_IDLE_TIMEOUT=" + o.Idle.String(),
		"WORKER_EVENTS_CAP=8GiB", "WORKER_JOBS_CAP=256MiB", "WORKER_DRAIN_TIMEOUT=15s", "WORKER_START_TIMEOUT=1m", "WORKER_CONCURRENCY=32",
		"WORKER_WATCH_EVERY=5s", "WORKER_RECONCILE_EVERY=5s", "WORKER_ORPHAN_GRACE=10s",
	}
	if o.Off != "" {
		env = append(env, "SANDJET_OFF="+o.Off)
	}
	return append(env, o.WorkerEnv...)
}

// Start starts a process of the worker; Ready waits until it takes jobs.
func (w *Worker) Start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives++
	life := w.life()
	cmd := exec.Command(w.rig.bin)
	cmd.Env = w.env(life)
	c, err := start(life, fmt.Sprintf("%s.%d", w.log, w.lives), cmd)
	if err != nil {
		return err
	}
	w.child = c
	return nil
}

// Ready waits until the worker takes jobs.
func (w *Worker) Ready(limit time.Duration) error {
	return w.Process().said("worker takes jobs", 0, limit)
}

// Life is the name under which the process claims: it changes with each process,
// as that of a pod does.
func (w *Worker) Life() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life()
}

func (w *Worker) life() string { return fmt.Sprintf("%s-%d", w.Name, w.lives) }

// Process is the worker's process, the last one if it has none now.
func (w *Worker) Process() *Child {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.child
}
