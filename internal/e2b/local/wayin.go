package local

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sandjet/sandjet/internal/e2b"
)

// wayIn is the part of a network that says who reaches the ports of a sandbox,
// and how. It is as its create says.
type wayIn struct {
	Public     *bool  `json:"allowPublicTraffic"`
	MaskHost   string `json:"maskRequestHost"` // the Host header of every request; ${PORT} is its port
	HTTPSPorts []int  `json:"httpsPorts"`      // what listens there speaks TLS
}

// wayInMembers are those of a network that an update leaves as they are.
var wayInMembers = []string{"allowPublicTraffic", "maskRequestHost", "httpsPorts"}

func (r *record) wayIn() (in wayIn, err error) {
	if len(r.Network) > 0 {
		err = json.Unmarshal(r.Network, &in)
	}
	return in, err
}

func (in wayIn) check() error {
	for _, port := range in.HTTPSPorts {
		if port < 1 || port > 65535 || strconv.Itoa(port) == envdPort {
			return failf(http.StatusBadRequest, "Invalid httpsPorts: %d: want ports from 1 to 65535 other than %s", port, envdPort)
		}
	}
	if in.MaskHost == "" {
		return nil
	}
	host := in.host("1")
	if u, err := url.Parse("http://" + host); err != nil || u.Host != host {
		return failf(http.StatusBadRequest, "Invalid maskRequestHost: %.200q: want a host, or a host and a port", in.MaskHost)
	}
	return nil
}

// host is the Host header of requests to a port; empty leaves it as it came.
func (in wayIn) host(port string) string { return strings.ReplaceAll(in.MaskHost, "${PORT}", port) }

func (in wayIn) scheme(port int) string {
	if slices.Contains(in.HTTPSPorts, port) {
		return "https"
	}
	return "http"
}

// checkPlaceholders refuses headers that stand for something that only E2B's proxy
// knows: sent as they are, they would be a secret that nobody accepts.
func checkPlaceholders(network json.RawMessage) error {
	var n struct {
		Rules map[string][]e2b.NetworkRule `json:"rules"`
	}
	if json.Unmarshal(network, &n) != nil {
		return nil // said by who reads the rules
	}
	for host, rules := range n.Rules {
		for _, rule := range rules {
			for name, value := range rule.Transform.Headers {
				if strings.Contains(value, "${e2b.") {
					return failf(http.StatusBadRequest, "network rule for %s, header %s: this server has no secrets and identities "+
						"that a ${e2b...} could stand for; write the value", host, name)
				}
			}
		}
	}
	return nil
}
