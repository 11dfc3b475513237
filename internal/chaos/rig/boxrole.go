package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
)

// boxConfig is what the sandbox server's process is told.
type boxConfig struct {
	Addr, Control, Key, Dir string
	MaxRunning              int
}

// e2bRole is the sandbox server's process: the local server, and beside it a
// control through which it is made to fail and says what it had.
func e2bRole(ctx context.Context, body []byte) error {
	var c boxConfig
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := local.Start(ctx, local.Config{Addr: c.Addr, APIKey: c.Key, DataDir: c.Dir, MaxRunning: c.MaxRunning, Log: log})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Control)
	if err != nil {
		return err
	}
	d := &desk{srv: s, armed: map[int]*trouble{}, boxes: map[string]*Box{}}
	h := &http.Server{Handler: d.routes(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	fmt.Println(readyWord)
	d.watch(ctx)
	return nil
}

// desk is the control of the sandbox server.
type desk struct {
	srv *local.Server

	mu    sync.Mutex
	last  int
	armed map[int]*trouble
	order []string
	boxes map[string]*Box
}

type trouble struct {
	mu     sync.Mutex
	met    []time.Time
	remove func()
}

func (t *trouble) meets() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.met = append(t.met, time.Now())
}

func (t *trouble) times() []time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.met)
}

func (d *desk) routes() http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux.HandleFunc("POST /fault", func(w http.ResponseWriter, r *http.Request) {
		var t Trouble
		if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, d.arm(t))
	})
	fault := func(w http.ResponseWriter, r *http.Request) {
		id, _ := strconv.Atoi(r.URL.Query().Get("id"))
		d.mu.Lock()
		t := d.armed[id]
		d.mu.Unlock()
		if t == nil {
			http.Error(w, "no such fault", http.StatusNotFound)
			return
		}
		if r.Method == http.MethodDelete {
			t.remove()
		}
		answer(w, t.times())
	}
	mux.HandleFunc("GET /fault", fault)
	mux.HandleFunc("DELETE /fault", fault)
	mux.HandleFunc("POST /kill", func(w http.ResponseWriter, r *http.Request) {
		answer(w, d.srv.KillSandbox(r.URL.Query().Get("id")))
	})
	mux.HandleFunc("GET /calls", func(w http.ResponseWriter, _ *http.Request) {
		n := map[string]int{}
		for _, op := range Ops() {
			n[op] = d.srv.Faults().Count(op)
		}
		answer(w, n)
	})
	mux.HandleFunc("GET /journal", func(w http.ResponseWriter, _ *http.Request) {
		d.look()
		d.mu.Lock()
		defer d.mu.Unlock()
		out := make([]Box, 0, len(d.order))
		for _, id := range d.order {
			out = append(out, *d.boxes[id])
		}
		answer(w, out)
	})
	return mux
}

func (d *desk) arm(t Trouble) int {
	tr := &trouble{}
	tr.remove = d.srv.Faults().Add(local.Fault{
		Op: t.Op, Sandbox: t.Sandbox, Skip: t.Skip, Count: t.Count, Action: t.action(), Met: tr.meets,
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	d.armed[d.last] = tr
	return d.last
}

func (t Trouble) action() local.Action {
	switch t.Action {
	case "status":
		return local.Status{Code: t.Code, RetryAfter: t.RetryAfter}
	case "hang":
		return local.Hang{}
	case "cut":
		return local.CutAfter{Bytes: t.Bytes, After: t.After}
	case "lost":
		return local.LostAnswer{}
	case "late":
		return local.LateEffect(t.After)
	}
	return local.Delay(t.After)
}

// lookEvery is how often the journal is brought up to date: more often than a
// sandbox can come and go.
const lookEvery = 20 * time.Millisecond

func (d *desk) watch(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			d.look()
		}
	}
}

// look writes down what has come and gone.
func (d *desk) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, there := time.Now(), map[string]bool{}
	for _, s := range d.srv.Sandboxes() {
		there[s.SandboxID] = true
		b := d.boxes[s.SandboxID]
		if b == nil {
			b = &Box{ID: s.SandboxID, Metadata: s.Metadata, Born: now}
			d.boxes[b.ID] = b
			d.order = append(d.order, b.ID)
		}
		b.Running = s.State == e2b.StateRunning
	}
	for _, b := range d.boxes {
		if !there[b.ID] && b.Gone.IsZero() {
			b.Gone, b.Running = now, false
		}
	}
}
