//go:build faultpoints

package point

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fault is what happens at a point.
type fault string

const (
	crashing fault = "crash"
	failing  fault = "error"
	losing   fault = "lost"
	pausing  fault = "pause"
)

// early reports whether the fault strikes before the effect.
func (f fault) early() bool { return f == failing || f == pausing }

// rule is one fault that waits for its pass.
type rule struct {
	point string
	fault fault
	pause time.Duration
	pass  int
}

// String is the rule as it is written.
func (r *rule) String() string {
	s := r.point + "=" + string(r.fault)
	if r.pause > 0 {
		s += ":" + r.pause.String()
	}
	return s + "@" + strconv.Itoa(r.pass)
}

// plan is all rules, and how often their points were passed.
type plan struct {
	rules []*rule

	mu     sync.Mutex
	passes map[string]int // "<point" before the effect, ">point" after it
}

var pointName = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)+$`)

// parsePlan reads SANDJET_POINTS.
func parsePlan(s string) (*plan, error) {
	p := &plan{passes: map[string]int{}}
	for _, word := range words(s) {
		r, err := parseRule(word)
		if err != nil {
			return nil, fmt.Errorf("SANDJET_POINTS: %q: %w", word, err)
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

func parseRule(word string) (*rule, error) {
	name, rest, ok := strings.Cut(word, "=")
	if !ok || !pointName.MatchString(name) {
		return nil, fmt.Errorf("want <point>=<fault>[:<duration>][@<pass>]")
	}
	r := &rule{point: name, pass: 1}
	rest, pass, counted := strings.Cut(rest, "@")
	if counted {
		n, err := strconv.Atoi(pass)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want a pass from 1, not %q", pass)
		}
		r.pass = n
	}
	kind, pause, timed := strings.Cut(rest, ":")
	r.fault = fault(kind)
	if !slices.Contains([]fault{crashing, failing, losing, pausing}, r.fault) {
		return nil, fmt.Errorf("want crash, error, lost or pause, not %q", kind)
	}
	if timed != (r.fault == pausing) {
		return nil, fmt.Errorf("a duration goes with pause, and with nothing else")
	}
	if timed {
		d, err := time.ParseDuration(pause)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("want a duration such as 5s, not %q", pause)
		}
		r.pause = d
	}
	return r, nil
}

// parseOff reads SANDJET_OFF.
func parseOff(s string) (map[Switch]bool, error) {
	off := map[Switch]bool{}
	for _, word := range words(s) {
		if !slices.Contains(Switches(), Switch(word)) {
			return nil, fmt.Errorf("SANDJET_OFF: %q is no mechanism: want some of %v", word, Switches())
		}
		off[Switch(word)] = true
	}
	return off, nil
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func (p *plan) before(name string) *rule { return p.strike("<", name, true) }
func (p *plan) after(name string) *rule  { return p.strike(">", name, false) }

// strike counts a pass and returns the rule whose pass this is.
func (p *plan) strike(side, name string, early bool) *rule {
	if len(p.rules) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passes[side+name]++
	for _, r := range p.rules {
		if r.point == name && r.fault.early() == early && r.pass == p.passes[side+name] {
			return r
		}
	}
	return nil
}
