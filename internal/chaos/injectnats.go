package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/chaos/rig"
	"github.com/sandjet/sandjet/internal/events"
)

func (c *Campaign) natsFaults() map[string]expert {
	return map[string]expert{
		"nats-kill":        c.killNATS,
		"nats-cut":         c.cutNATS,
		"nats-freeze":      c.freezeNATS,
		"nats-restart-all": c.restartNATS,
	}
}

// node is the fault's server: every other time the one that leads the events.
func (c *Campaign) node(ctx context.Context, f *plan.Fault) *rig.Node {
	if f.Arg%2 == 0 {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if s, err := c.js.Stream(ctx, events.StreamEvents); err == nil && s.CachedInfo().Cluster != nil {
			for _, n := range c.rig.Nodes {
				if n.ServerName() == s.CachedInfo().Cluster.Leader {
					return n
				}
			}
		}
	}
	return c.rig.Nodes[f.Target%len(c.rig.Nodes)]
}

func (c *Campaign) killNATS(ctx context.Context, f *plan.Fault) hit {
	n := c.node(ctx, f)
	h := hit{target: n.ServerName(), effective: true}
	n.Kill()
	pause(ctx, f.For)
	if err := n.Start(); err != nil {
		return failed(h.target, err)
	}
	h.note = c.healthy(ctx)
	return h
}

func (c *Campaign) freezeNATS(ctx context.Context, f *plan.Fault) hit {
	n := c.node(ctx, f)
	h := hit{target: n.ServerName(), effective: n.Freeze()}
	pause(ctx, f.For)
	n.Thaw()
	h.note = c.healthy(ctx)
	return h
}

// restartNATS ends all servers at once, as a machine room without power does.
func (c *Campaign) restartNATS(ctx context.Context, f *plan.Fault) hit {
	h := hit{target: "all", effective: true}
	for _, n := range c.rig.Nodes {
		n.Kill()
	}
	pause(ctx, f.For)
	for _, n := range c.rig.Nodes {
		if err := n.Start(); err != nil {
			return failed(h.target, err)
		}
	}
	h.note = c.healthy(ctx)
	return h
}

// cutNATS takes a server's ways to the others. It counts only if the cut is real:
// the server has no route left and takes no publish, while the majority does.
func (c *Campaign) cutNATS(ctx context.Context, f *plan.Fault) hit {
	n := c.node(ctx, f)
	h := hit{target: n.ServerName()}
	if len(c.rig.Nodes) < 3 {
		h.note = "there is no cluster"
		return h
	}
	over := time.Now().Add(f.For)
	n.Cut()
	routes, err := routesOf(ctx, n)
	if err == nil {
		err = c.refused(ctx, n)
	}
	if err == nil && routes > 0 {
		err = fmt.Errorf("the server has %d routes", routes)
	}
	if err == nil {
		err = c.taken(ctx, n)
	}
	pause(ctx, time.Until(over))
	if joinErr := n.Join(); joinErr != nil {
		err = errors.Join(err, joinErr)
	}
	h.effective = err == nil
	h.note = c.healthy(ctx)
	if err != nil {
		h.note += err.Error()
	}
	return h
}

// routesOf asks a server how many routes it has, until it has none.
func routesOf(ctx context.Context, n *rig.Node) (routes int, err error) {
	for range 40 {
		var z struct {
			NumRoutes int `json:"num_routes"`
		}
		if err = get(ctx, n.Monitor()+"/routez", &z); err == nil && z.NumRoutes == 0 {
			return 0, nil
		}
		routes = z.NumRoutes
		pause(ctx, 50*time.Millisecond)
	}
	return routes, err
}

// refused makes sure that the minority takes no publish.
func (c *Campaign) refused(ctx context.Context, n *rig.Node) error {
	err := probeAt(ctx, n, time.Second)
	if err == nil {
		return errors.New("the server that is cut off has taken a publish")
	}
	return nil
}

// taken makes sure that the majority takes one, once it has a leader.
func (c *Campaign) taken(ctx context.Context, cut *rig.Node) error {
	return until(ctx, 30*time.Second, func(ctx context.Context) error {
		for _, n := range c.rig.Nodes {
			if n != cut {
				return probeAt(ctx, n, 2*time.Second)
			}
		}
		return nil
	})
}

// probeAt publishes to the probe stream through one server.
func probeAt(ctx context.Context, n *rig.Node, limit time.Duration) error {
	nc, err := nats.Connect(n.URL(), nats.NoReconnect(), nats.Timeout(2*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err = js.Publish(ctx, "probe.x", nil, jetstream.WithRetryAttempts(0))
	return err
}

// healthy waits until all servers say that they are, so that the next fault of
// NATS finds a majority with everything. It says so if they do not.
func (c *Campaign) healthy(ctx context.Context) string {
	err := until(ctx, time.Minute, func(ctx context.Context) error {
		for _, n := range c.rig.Nodes {
			var z struct{ Status string }
			if err := get(ctx, n.Monitor()+"/healthz", &z); err != nil {
				return err
			}
			if z.Status != "ok" {
				return fmt.Errorf("server %s is %s", n.ServerName(), z.Status)
			}
		}
		return nil
	})
	if err != nil {
		return "not healthy again " + err.Error() + "; "
	}
	return ""
}

func get(ctx context.Context, url string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(out)
}
