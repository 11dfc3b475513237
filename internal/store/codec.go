package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

// stored is a session.Record as Redis holds it: JSON with short names and times
// as nanoseconds, half the size, because a million of them lie there. The
// session's id is in the key. A test fills every field of a Record and fails if
// one does not come back.
type stored struct {
	Proven      string            `json:"p,omitempty"` // the owner if he is proven; comes first: enter.lua reads it
	State       session.State     `json:"s"`
	Generation  int               `json:"g,omitempty"`
	SandboxID   string            `json:"b,omitempty"`
	Owner       string            `json:"o,omitempty"`
	Template    string            `json:"t,omitempty"`
	Ephemeral   bool              `json:"e,omitempty"`
	Metadata    map[string]string `json:"m,omitempty"`
	Env         map[string]string `json:"v,omitempty"`
	Secrets     map[string]string `json:"x,omitempty"`
	Labels      map[string]string `json:"l,omitempty"`
	Network     *session.Network  `json:"n,omitempty"`
	IdleTimeout time.Duration     `json:"it,omitempty"`
	MaxAge      time.Duration     `json:"ma,omitempty"`
	CreatedAt   nanos             `json:"c,omitempty"`
	UpdatedAt   nanos             `json:"u,omitempty"`
	IdleAt      nanos             `json:"ia,omitempty"`
	StaleAt     nanos             `json:"sa,omitempty"`
	PausedAt    nanos             `json:"pa,omitempty"`
	Canary      string            `json:"ca,omitempty"`
	Reason      string            `json:"r,omitempty"`
	Attempt     string            `json:"a,omitempty"`
	Worker      string            `json:"w,omitempty"`
	Job         string            `json:"j,omitempty"`
	Deadline    nanos             `json:"d,omitempty"`
}

// nanos is a time since 1970; 0 is the zero time.
type nanos int64

func toNanos(t time.Time) nanos {
	if t.IsZero() {
		return 0
	}
	return nanos(t.UnixNano())
}

func (n nanos) time() time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n)).UTC()
}

func encodeRecord(r session.Record) ([]byte, error) {
	proven := ""
	if r.OwnerProven {
		proven = r.Owner
	}
	return json.Marshal(stored{
		Proven: proven, State: r.State, Generation: r.Generation, SandboxID: r.SandboxID, Owner: r.Owner, Template: r.Template,
		Ephemeral: r.Ephemeral, Metadata: r.Metadata, Env: r.Env, Secrets: r.Secrets, Labels: r.Labels, Network: r.Network,
		IdleTimeout: r.IdleTimeout.D(), MaxAge: r.MaxAge.D(),
		CreatedAt: toNanos(r.CreatedAt), UpdatedAt: toNanos(r.UpdatedAt), IdleAt: toNanos(r.IdleAt), StaleAt: toNanos(r.StaleAt), PausedAt: toNanos(r.PausedAt), Canary: r.Canary,
		Reason: r.Reason, Attempt: r.Attempt, Worker: r.Worker, Job: r.Job, Deadline: toNanos(r.Deadline),
	})
}

// decodeRecord reads "<seq> <record>".
func decodeRecord(id, value string) (session.Record, uint64, error) {
	head, body, _ := strings.Cut(value, " ")
	seq, err := strconv.ParseUint(head, 10, 64)
	if err != nil {
		return session.Record{}, 0, fmt.Errorf("record of session %s: no sequence", id)
	}
	var s stored
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return session.Record{}, 0, fmt.Errorf("record of session %s: %w", id, err)
	}
	return session.Record{
		Session: id, State: s.State, Generation: s.Generation, SandboxID: s.SandboxID, Owner: s.Owner, OwnerProven: s.Proven != "", Template: s.Template,
		Ephemeral: s.Ephemeral, Metadata: s.Metadata, Env: s.Env, Secrets: s.Secrets, Labels: s.Labels, Network: s.Network,
		IdleTimeout: wire.Duration(s.IdleTimeout), MaxAge: wire.Duration(s.MaxAge),
		CreatedAt: s.CreatedAt.time(), UpdatedAt: s.UpdatedAt.time(), IdleAt: s.IdleAt.time(), StaleAt: s.StaleAt.time(), PausedAt: s.PausedAt.time(), Canary: s.Canary,
		Reason: s.Reason, Attempt: s.Attempt, Worker: s.Worker, Job: s.Job, Deadline: s.Deadline.time(),
	}, seq, nil
}
