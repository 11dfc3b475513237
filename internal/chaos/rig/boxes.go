package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

// BoxOptions says how the sandbox server behaves by itself.
type BoxOptions struct {
	MaxRunning int // sandboxes that run at once; 0 = no bound
}

// Boxes is the sandbox server, seen from outside.
type Boxes struct {
	*Child
	Key string

	addr    string // of E2B's wire
	control string // of ours
	log     string
	cfg     boxConfig
	http    http.Client
}

// Trouble is a fault of the sandbox server.
type Trouble struct {
	Op         string // as local.Faults names operations
	Sandbox    string
	Skip       int
	Count      int
	Action     string // status, hang, cut, lost or late
	Code       int
	RetryAfter time.Duration
	Bytes      int64
	After      time.Duration
}

// Box is a sandbox, as the server's own journal has it.
type Box struct {
	ID       string
	Metadata map[string]string
	Born     time.Time
	Gone     time.Time // zero while it is there
	Running  bool
}

func startBoxes(dir string, o BoxOptions) (*Boxes, error) {
	b := &Boxes{Key: "e2b_chaos0000000000000000000000000000000000", log: filepath.Join(dir, "e2b.log")}
	b.http.Timeout = 20 * time.Second
	for _, to := range []*string{&b.addr, &b.control} {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		*to = addr
	}
	b.cfg = boxConfig{Addr: b.addr, Control: b.control, Key: b.Key, Dir: filepath.Join(dir, "e2b"), MaxRunning: o.MaxRunning}
	c, err := role("e2b", "e2b", b.log, b.cfg)
	if err != nil {
		return nil, err
	}
	b.Child = c
	return b, c.said(readyWord, 0, 30*time.Second)
}

// URL is where the server itself listens.
func (b *Boxes) URL() string { return "http://" + b.addr }

// call asks the server's own control.
func (b *Boxes) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+b.control+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := b.http.Do(req)
	if err != nil {
		return fmt.Errorf("sandbox server: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 400))
		return fmt.Errorf("sandbox server: %s %s: %s: %s", method, path, res.Status, text)
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// Arm arms a fault and returns its number.
func (b *Boxes) Arm(ctx context.Context, t Trouble) (id int, err error) {
	err = b.call(ctx, http.MethodPost, "/fault", t, &id)
	return id, err
}

// Ops are the operations that a workload makes, by the names of local.Faults.
func Ops() []string {
	return []string{"create", "connect", "get", "list", "pause", "kill", "timeout", "start", "process.list", "signal", "read", "write", "stat", "remove"}
}

// Met says when a fault has met calls.
func (b *Boxes) Met(ctx context.Context, id int) (at []time.Time, err error) {
	err = b.call(ctx, http.MethodGet, fmt.Sprintf("/fault?id=%d", id), nil, &at)
	return at, err
}

// Disarm takes a fault out and says when it has met calls.
func (b *Boxes) Disarm(ctx context.Context, id int) (at []time.Time, err error) {
	err = b.call(ctx, http.MethodDelete, fmt.Sprintf("/fault?id=%d", id), nil, &at)
	return at, err
}

// Calls says how often each operation was called so far.
func (b *Boxes) Calls(ctx context.Context) (n map[string]int, err error) {
	err = b.call(ctx, http.MethodGet, "/calls", nil, &n)
	return n, err
}

// Journal is every sandbox that there ever was.
func (b *Boxes) Journal(ctx context.Context) (all []Box, err error) {
	err = b.call(ctx, http.MethodGet, "/journal", nil, &all)
	return all, err
}

// KillOne ends a sandbox as if its machine had died, and reports whether it was
// there.
func (b *Boxes) KillOne(ctx context.Context, id string) (was bool, err error) {
	err = b.call(ctx, http.MethodPost, "/kill?id="+id, nil, &was)
	return was, err
}

func (b *Boxes) close() {
	if b.Child != nil {
		_ = b.Stop(20 * time.Second)
	}
}
