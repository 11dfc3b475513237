package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsConfig is what a NATS server's process is told.
type natsConfig struct {
	Name, Dir                string
	Client, Cluster, Monitor string // host:port
	Routes                   []string
	Alone                    bool // a server without a cluster
}

// natsRole is a NATS server's process. It tells clients of no other server, and
// other servers an address where nobody is: all ways lead through the proxies.
func natsRole(ctx context.Context, body []byte) error {
	var c natsConfig
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: c.Name, StoreDir: c.Dir, JetStream: true, NoSigs: true, LogFile: c.Dir + ".server.log", Logtime: true,
		JetStreamMaxStore: 64 << 30, JetStreamMaxMemory: 1 << 30,
	}
	o.Host, o.Port = split(c.Client)
	o.HTTPHost, o.HTTPPort = split(c.Monitor)
	if !c.Alone {
		o.Cluster = server.ClusterOpts{Name: "chaos", NoAdvertise: true, Advertise: "127.0.0.1:1"}
		o.Cluster.Host, o.Cluster.Port = split(c.Cluster)
		for _, r := range c.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: r})
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return errors.New("not ready within 20 s")
	}
	fmt.Println(readyWord)
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func split(addr string) (host string, port int) {
	h, p, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(p)
	return h, n
}

// Node is one NATS server.
type Node struct {
	*Child
	cfg  natsConfig
	log  string
	ways []*Way // of its routes, in both directions
}

// URL is where the server itself listens.
func (n *Node) URL() string { return "nats://" + n.cfg.Client }

// ServerName is what the server calls itself.
func (n *Node) ServerName() string { return n.cfg.Name }

// Monitor is the server's monitoring address.
func (n *Node) Monitor() string { return "http://" + n.cfg.Monitor }

// Start starts the server again, on the same files and addresses.
func (n *Node) Start() error {
	from := sizeOf(n.log)
	c, err := role(n.cfg.Name, "nats", n.log, n.cfg)
	if err != nil {
		return err
	}
	n.Child = c
	return c.said(readyWord, from, 30*time.Second)
}

// Cut takes the server's ways to the others away; Join gives them back.
func (n *Node) Cut() {
	for _, w := range n.ways {
		w.Cut()
	}
}

// Join ends Cut.
func (n *Node) Join() error {
	var errs []error
	for _, w := range n.ways {
		errs = append(errs, w.Heal())
	}
	return errors.Join(errs...)
}

// startCluster starts n servers, joined through proxies.
func (r *Rig) startCluster(n int) error {
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		node := &Node{log: filepath.Join(r.Dir, name+".log"), cfg: natsConfig{
			Name: name, Dir: filepath.Join(r.Dir, name), Alone: n == 1,
		}}
		for _, to := range []*string{&node.cfg.Client, &node.cfg.Cluster, &node.cfg.Monitor} {
			addr, err := freeAddr()
			if err != nil {
				return err
			}
			*to = addr
		}
		r.Nodes = append(r.Nodes, node)
	}
	for i, from := range r.Nodes {
		for j, to := range r.Nodes {
			if i == j {
				continue
			}
			w, err := r.net.way("route-"+from.cfg.Name+"-"+to.cfg.Name, to.cfg.Cluster)
			if err != nil {
				return err
			}
			from.cfg.Routes = append(from.cfg.Routes, w.Addr)
			from.ways, to.ways = append(from.ways, w), append(to.ways, w)
		}
	}
	for _, node := range r.Nodes {
		if err := node.Start(); err != nil {
			return err
		}
	}
	return nil
}

// NATSURL names all servers, without a proxy between.
func (r *Rig) NATSURL() string {
	var urls []string
	for _, n := range r.Nodes {
		urls = append(urls, n.URL())
	}
	return strings.Join(urls, ",")
}
