package policy

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
)

// Network is what a sandbox may reach, as a job says it.
type Network struct {
	AllowInternet *bool // true when absent
	AllowOut      []string
}

// Egress is what the sandboxes of an owner may reach at most.
type Egress struct {
	// Allow lists the only destinations, if Internet is false: domain names, also
	// with *. before them, addresses and CIDR blocks.
	Internet bool
	Allow    []string

	line int
}

// Egress returns what an owner's sandboxes may reach; nil if the policy does not
// say. A sandbox whose job does not say either is to be made with it.
func (p *Policy) Egress(owner string) *Egress {
	if r := p.rule(owner); r != nil {
		return r.egress
	}
	return nil
}

func (p *Policy) checkEgress(r *Rule, q Request) error {
	if r.egress == nil || r.egress.Internet || q.Network == nil {
		return nil
	}
	if q.Network.AllowInternet == nil || *q.Network.AllowInternet {
		return p.refuse(r, r.egress.line, "/network/allow_internet", "the whole internet is not allowed: set allow_internet to false and list what is needed in allow_out")
	}
	for _, to := range q.Network.AllowOut {
		if !r.egress.covers(to) {
			return p.refuse(r, r.egress.line, "/network/allow_out", "%q is not among what may be reached: want %s", to, orNothing(r.egress.Allow))
		}
	}
	return nil
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// covers reports whether all of a destination is allowed.
func (e *Egress) covers(to string) bool {
	block, isBlock := parseBlock(to)
	for _, a := range e.Allow {
		allowed, ok := parseBlock(a)
		switch {
		case ok != isBlock:
		case isBlock:
			if allowed.Bits() <= block.Bits() && allowed.Contains(block.Addr()) {
				return true
			}
		case coversDomain(a, to):
			return true
		}
	}
	return false
}

// coversDomain reports whether all names that to stands for are among those of a.
func coversDomain(a, to string) bool {
	a, to = domain(a), domain(to)
	if rest, ok := strings.CutPrefix(a, "*"); ok {
		return strings.HasSuffix(to, rest)
	}
	return a == to
}

func domain(s string) string { return strings.ToLower(strings.TrimSuffix(s, ".")) }

// parseBlock reads an address or a CIDR block.
func parseBlock(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p, true
	}
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	return netip.Prefix{}, false
}

var domainRegexp = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.?$`)

// checkDestination returns an error if s is none.
func checkDestination(s string) error {
	if _, ok := parseBlock(s); ok || domainRegexp.MatchString(s) {
		return nil
	}
	return errors.New(`want a domain such as "api.example.com" or "*.example.com", an address, or a CIDR block`)
}
