package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/proxy"
)

// networkConfig is what the API says of a sandbox's network, as far as it is
// about the way out.
type networkConfig struct {
	AllowOut []string `json:"allowOut"`
	DenyOut  []string `json:"denyOut"`
	Rules    map[string][]struct {
		Transform struct {
			Headers map[string]string `json:"headers"`
		} `json:"transform"`
	} `json:"rules"`
	EgressProxy *struct {
		Address  string `json:"address"`
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"egressProxy"`
}

// egressRules are a sandbox's network rules as its proxy asks them. They do not
// change: new rules are a new value, with connections of its own.
type egressRules struct {
	wall        bool // what is not of the internet must be named
	allow, deny []netip.Prefix
	names       []string // that are allowed
	rewrites    []rewrite
	socks       proxy.ContextDialer // nil goes out directly
	transport   *http.Transport
}

// rewrite is the headers of requests to one host, or to those of a pattern.
type rewrite struct {
	host    string
	headers http.Header
}

// errDenied is an address that the rules do not let through.
var errDenied = errors.New("the sandbox's network rules deny it")

// ruleHost is how a rule names hosts: a name, or all below one.
var ruleHost = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// newEgressRules reads the rules of a sandbox. What is wrong with them is the
// caller's error; it names no header's value.
func newEgressRules(network json.RawMessage, internet *bool, wall bool, t *trust) (*egressRules, error) {
	var cfg networkConfig
	if len(network) > 0 {
		if err := json.Unmarshal(network, &cfg); err != nil {
			return nil, failf(http.StatusBadRequest, "Error when parsing request: %v", err)
		}
	}
	r := &egressRules{wall: wall}
	for _, s := range cfg.AllowOut {
		if p, ok := parsePrefix(s); ok {
			r.allow = append(r.allow, p)
		} else if name := canonicalHost(s); ruleHost.MatchString(name) {
			r.names = append(r.names, name)
		} else {
			return nil, failf(http.StatusBadRequest, "allowOut: %q is no CIDR block, IP address or domain", s)
		}
	}
	if internet != nil && !*internet {
		cfg.DenyOut = append(cfg.DenyOut, allTraffic)
	}
	for _, s := range cfg.DenyOut {
		p, ok := parsePrefix(s)
		if !ok {
			return nil, failf(http.StatusBadRequest, "denyOut: %q is no CIDR block or IP address", s)
		}
		r.deny = append(r.deny, p)
		if s == allTraffic { // all, whatever the way: the cloud has no other
			r.deny = append(r.deny, netip.MustParsePrefix("::/0"))
		}
	}
	if err := r.readRewrites(cfg); err != nil {
		return nil, err
	}
	if p := cfg.EgressProxy; p != nil {
		var auth *proxy.Auth
		if p.Username != "" {
			auth = &proxy.Auth{User: p.Username, Password: p.Password}
		}
		if _, _, err := net.SplitHostPort(p.Address); err != nil || len(p.Username) > 255 || len(p.Password) > 255 {
			return nil, failf(http.StatusBadRequest, "egressProxy: want an address as host:port, and at most 255 bytes each of username and password")
		}
		d, err := proxy.SOCKS5("tcp", p.Address, auth, &net.Dialer{Timeout: dialTimeout})
		if err != nil {
			return nil, failf(http.StatusBadRequest, "egressProxy: %v", err)
		}
		r.socks = d.(proxy.ContextDialer)
	}
	r.transport = &http.Transport{
		DialContext: r.dial, TLSClientConfig: t.upstream(), TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true,
		DisableCompression: true, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second,
	}
	return r, nil
}

// allTraffic is the block that stands for every address.
const allTraffic = "0.0.0.0/0"

const dialTimeout = 30 * time.Second

func (r *egressRules) readRewrites(cfg networkConfig) error {
	for host, rules := range cfg.Rules {
		name := canonicalHost(host)
		if _, ok := parsePrefix(host); !ok && !ruleHost.MatchString(name) {
			return failf(http.StatusBadRequest, "rules: %q is no domain; a rule holds for all ports of one", host)
		}
		headers := make(http.Header)
		for _, rule := range rules {
			for k, v := range rule.Transform.Headers {
				if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
					return failf(http.StatusBadRequest, "rules: %q: header %q is none that HTTP can carry", host, k)
				}
				headers.Set(k, v)
			}
		}
		if len(headers) > 0 {
			r.rewrites = append(r.rewrites, rewrite{name, headers})
		}
	}
	// The nearest pattern has the last word.
	slices.SortFunc(r.rewrites, func(a, b rewrite) int {
		return cmp.Or(nearness(a.host)-nearness(b.host), strings.Compare(a.host, b.host))
	})
	return nil
}

// nearness says how closely a pattern names a host: a name beats what is above it.
func nearness(pattern string) int {
	if strings.HasPrefix(pattern, "*.") {
		return len(pattern)
	}
	return math.MaxInt16
}

func parsePrefix(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), true
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), true
}

// canonicalHost is a host as rules compare it.
func canonicalHost(host string) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// matches says whether a rule for pattern is one for host.
func matches(pattern, host string) bool {
	if rest, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, rest) && len(host) > len(rest)
	}
	if p, ok := parsePrefix(pattern); ok {
		a, err := netip.ParseAddr(host)
		return err == nil && p.Contains(a)
	}
	return pattern == host
}

// rewritten says whether requests to a host get headers.
func (r *egressRules) rewritten(host string) bool {
	host = canonicalHost(host)
	return slices.ContainsFunc(r.rewrites, func(w rewrite) bool { return matches(w.host, host) })
}

// rewrite puts the headers of the rules into a request to host.
func (r *egressRules) rewrite(req *http.Request, host string) {
	host = canonicalHost(host)
	for _, w := range r.rewrites {
		if !matches(w.host, host) {
			continue
		}
		for k, v := range w.headers {
			if k == "Host" {
				req.Host = v[0]
				continue
			}
			req.Header[k] = v
		}
	}
}

// notOfInternet is what stands for this machine and the networks around it.
var notOfInternet = parsePrefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "::/127", "64:ff9b::/96", "64:ff9b:1::/48",
	"fc00::/7", "fe80::/10", "ff00::/8", "2002::/16")

func parsePrefixes(list ...string) (p []netip.Prefix) {
	for _, s := range list {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

// permits says whether an address may be reached under a host's name.
//
// Behind a wall, this machine and the networks around it are no internet: a
// block or a name that says no more than "everything" does not mean them.
func (r *egressRules) permits(host string, a netip.Addr) bool {
	host, a = canonicalHost(host), a.Unmap().WithZone("")
	byName, exact := false, false
	for _, n := range r.names {
		if matches(n, host) {
			byName, exact = true, exact || !strings.HasPrefix(n, "*")
		}
	}
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	if r.wall && !exact && (slices.ContainsFunc(notOfInternet, within) || ofThisMachine(a)) {
		return slices.ContainsFunc(r.allow, func(p netip.Prefix) bool { return p.Contains(a) && isNear(p) })
	}
	return byName || slices.ContainsFunc(r.allow, within) || !slices.ContainsFunc(r.deny, within)
}

// isNear says whether a block means a network that is not the internet's, or
// one address.
func isNear(p netip.Prefix) bool {
	return p.IsSingleIP() || slices.ContainsFunc(notOfInternet, func(n netip.Prefix) bool {
		return n.Bits() <= p.Bits() && n.Contains(p.Addr())
	})
}

func ofThisMachine(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, own := range addrs {
		if p, err := netip.ParsePrefix(own.String()); err == nil && p.Addr().Unmap() == a {
			return true
		}
	}
	return false
}

// namesLoopback says whether the rules are about host, a loopback address, on
// purpose. A deny of everything is not: a sandbox always reaches itself.
func (r *egressRules) namesLoopback(host string) bool {
	if r.rewritten(host) || slices.Contains(r.names, host) {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(slices.Concat(r.allow, r.deny), func(p netip.Prefix) bool {
		return p.Contains(a) && isNear(p)
	})
}

// resolve finds the addresses of a host that the rules let through.
func (r *egressRules) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(a netip.Addr) bool { return !r.permits(host, a) })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", host, errDenied)
	}
	return found, nil
}

// dial connects to host:port, if the rules let it. The address is asked about
// when it is known: a name may mean another one in a moment.
func (r *egressRules) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if r.socks != nil {
		return r.dialSocks(ctx, host, port)
	}
	d := net.Dialer{Timeout: dialTimeout, Control: func(_, to string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(to)
		if err != nil || !r.permits(host, a.Addr()) {
			return fmt.Errorf("%s: %w", host, errDenied)
		}
		return nil
	}}
	return d.DialContext(ctx, "tcp", addr)
}

// dialSocks leaves the name of a host that is allowed by name to the proxy.
func (r *egressRules) dialSocks(ctx context.Context, host, port string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if !slices.ContainsFunc(r.names, func(n string) bool { return matches(n, canonicalHost(host)) }) {
		found, err := r.resolve(ctx, host)
		if err != nil {
			return nil, err
		}
		host = found[0].String()
	}
	return r.socks.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}
