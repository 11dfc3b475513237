package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// network makes the proxies.
type network struct {
	srv  *toxiproxy.ApiServer
	mu   sync.Mutex
	ways []*Way
}

func newNetwork() *network {
	zerolog.SetGlobalLevel(zerolog.Disabled) // each broken connection would be a line
	return &network{srv: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
}

// Way is a TCP way from one process to another.
type Way struct {
	Addr string // where the one process goes to reach the other
	name string
	to   string
	net  *network

	mu    sync.Mutex
	proxy *toxiproxy.Proxy
}

// way makes a way to an address.
func (n *network) way(name, to string) (*Way, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	w := &Way{name: name, to: to, net: n, Addr: addr}
	if err := w.Heal(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways = append(n.ways, w)
	return w, nil
}

func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.ways {
		w.Cut()
	}
}

// Cut ends all connections on the way; new ones are refused until Heal.
func (w *Way) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proxy != nil {
		w.proxy.Stop()
		w.proxy = nil
	}
}

// Heal opens the way, without any slowness, unless it is open.
func (w *Way) Heal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open()
}

func (w *Way) open() error {
	if w.proxy != nil {
		return nil
	}
	// A new proxy each time: the old one may still be busy closing what it had.
	p := toxiproxy.NewProxy(w.net.srv, w.name, w.Addr, w.to)
	var err error
	for range 100 {
		if err = p.Start(); err == nil {
			w.proxy, w.Addr = p, p.Listen
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("way %s: %w", w.name, err)
}

// Toxic is a slowness, in toxiproxy's own words.
type Toxic struct {
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

// jammed is how long a proxy may take to become slow.
const jammed = 10 * time.Second

// Slow makes the way slow, for what comes on it from now on as well as for what
// is under way. The returned func takes it back.
func (w *Way) Slow(toxics ...Toxic) (undo func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.proxy
	if p == nil {
		return nil, errors.New("way " + w.name + " is cut")
	}
	for _, t := range toxics {
		body, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		added := make(chan error, 1)
		go func() {
			_, err := p.Toxics.AddToxicJson(bytes.NewReader(body))
			added <- err
		}()
		select {
		case err = <-added:
		case <-time.After(jammed):
			// A connection that ends in this moment may keep it for ever, and with it all
			// that are to come: they get a proxy of their own.
			go p.Stop()
			w.proxy, err = nil, errors.Join(errors.New("its proxy is jammed"), w.open())
		}
		if err != nil {
			return nil, fmt.Errorf("way %s: %w", w.name, err)
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.Toxics.ResetToxics(ctx)
	}, nil
}
