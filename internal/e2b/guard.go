package e2b

import "time"

// guard ends a context when one wait takes too long. Only waits count: a
// reader of ours that is slow for an hour is no sign of a dead link.
type guard struct {
	limit time.Duration
	timer *time.Timer
}

// newGuard returns a guard at rest; fire is called if a wait outlasts limit.
func newGuard(limit time.Duration, fire func()) *guard {
	g := &guard{limit: limit, timer: time.AfterFunc(limit, fire)}
	g.timer.Stop()
	return g
}

// begin starts a wait, end ends it. They are called in turn.
func (g *guard) begin() { g.timer.Reset(g.limit) }
func (g *guard) end()   { g.timer.Stop() }
