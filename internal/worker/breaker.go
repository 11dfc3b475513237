package worker

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/jobs"
)

const (
	// tripAfter is after how many failures without a success between them a class
	// of calls is held back.
	tripAfter = 5
	// tripSandboxes is in how many sandboxes calls to envd must have failed: one
	// sick sandbox is no outage.
	tripSandboxes = 2
	// breakerRest is how long a class is held back before one call may try again.
	breakerRest = 5 * time.Second
	// probeRest is how long who is held back waits while that call is under way.
	probeRest = time.Second
)

// breakers hold back the calls to E2B that are bound to fail, by class. Each
// worker has its own: what keeps one from E2B need not keep the others.
//
//	closed ──5 failures in a row──> open ──5 s──> half-open: one call tries
//	  ^                               ^────fails────┤
//	  └───────────succeeds──────────────────────────┘
//
// A failure is a 5xx, a timeout, or a connection that breaks. Any other answer,
// a refusal, a quota or a rate limit too, shows that E2B answers.
type breakers struct {
	classes map[e2b.Class]*breaker
	// closed is told when a class is let through again; nil for nobody. It must
	// not block, nor call back.
	closed func()
}

type breaker struct {
	class e2b.Class
	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	until atomic.Int64 // ns: end of the rest

	mu      sync.Mutex
	failing map[string]bool // sandboxes with failures since the last success
}

func newBreakers(log *slog.Logger, m *metrics) *breakers {
	b := &breakers{classes: map[e2b.Class]*breaker{}}
	for _, class := range e2b.Classes() {
		b.classes[class] = b.one(class, log, m)
	}
	return b
}

func (b *breakers) one(class e2b.Class, log *slog.Logger, m *metrics) *breaker {
	one := &breaker{class: class, failing: map[string]bool{}}
	gauge := m.breakers.WithLabelValues(string(class))
	gauge.Set(0)
	one.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: string(class), MaxRequests: 1, Timeout: breakerRest,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= tripAfter && (class != e2b.ClassData || one.sick() >= tripSandboxes)
		},
		IsSuccessful: func(err error) bool { return !downs(class, err) },
		IsExcluded:   oursAlone,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			gauge.Set(float64(to))
			switch to {
			case gobreaker.StateOpen:
				one.until.Store(time.Now().Add(breakerRest).UnixNano())
				if from == gobreaker.StateClosed {
					log.Warn("e2b does not answer, calls are held back", "class", class)
				}
			case gobreaker.StateClosed:
				log.Info("e2b answers again", "class", class)
				if b.closed != nil {
					b.closed()
				}
			}
		},
	})
	return one
}

// downs reports whether a call's end says that E2B is not well.
func downs(class e2b.Class, err error) bool {
	var api *e2b.Error
	if !errors.As(err, &api) {
		return false
	}
	if class == e2b.ClassData && api.Status == http.StatusBadGateway {
		return false // E2B's own word on one sandbox
	}
	return api.Kind == e2b.ErrUnavailable || api.Kind == e2b.ErrStalled
}

// oursAlone reports whether a call ended for a reason of ours, which says nothing
// about E2B.
func oursAlone(err error) bool {
	var api *e2b.Error
	return errors.As(err, &api) && api.Kind == nil
}

// admit is e2b.Admit.
func (b *breakers) admit(class e2b.Class, sandbox string) (done func(error), wait time.Duration) {
	one := b.classes[class]
	told, err := one.cb.Allow()
	if err != nil {
		return nil, max(one.wait(), 100*time.Millisecond)
	}
	return func(err error) {
		one.note(sandbox, err)
		told(err)
	}, 0
}

// wait returns for how long calls of a class are held back; 0 if one may try.
func (b *breakers) wait(class e2b.Class) time.Duration { return b.classes[class].wait() }

func (b *breaker) wait() time.Duration {
	switch b.cb.State() {
	case gobreaker.StateOpen:
		return max(time.Until(time.Unix(0, b.until.Load())), time.Millisecond)
	case gobreaker.StateHalfOpen:
		if c := b.cb.Counts(); c.Requests > c.TotalExclusions {
			return probeRest
		}
	}
	return 0
}

// note remembers in which sandboxes calls fail.
func (b *breaker) note(sandbox string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !downs(b.class, err):
		clear(b.failing)
	case len(b.failing) < tripSandboxes:
		b.failing[sandbox] = true
	}
}

func (b *breaker) sick() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.failing)
}

// states tells the state of each class.
func (b *breakers) states() map[string]string {
	out := map[string]string{}
	for class, one := range b.classes {
		out[string(class)] = one.cb.State().String()
	}
	return out
}

// heldBack is the fault of a job that needs calls of a class that are held back.
func (b *breakers) heldBack(class e2b.Class) error {
	wait := b.wait(class)
	if wait == 0 {
		return nil
	}
	return &fault{class: jobs.ClassUnavailable, after: wait, reason: "E2B does not answer, " + string(class) + " calls are held back", err: e2b.ErrHeldBack}
}
