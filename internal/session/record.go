// Package session holds the session record and its state machine. It is pure:
// the record's truth are the session.state events, its hot view is in Redis,
// and both write exactly this type.
package session

import (
	"time"

	"github.com/sandjet/sandjet/internal/wire"
)

// Record is everything known about a session. It is the payload of a
// session.state event and the value in the Redis view. It holds no secret: the
// sandbox's access token is asked from E2B when needed.
type Record struct {
	Session    string `json:"session"`
	State      State  `json:"state"`
	Generation int    `json:"generation"` // goes up with each new sandbox; nothing of an older one counts
	SandboxID  string `json:"sandbox_id,omitempty"`

	Owner string `json:"owner,omitempty"`
	// OwnerProven says that the subject of the job that made the session named the owner:
	// the session is for jobs whose subject names him, and for no others.
	OwnerProven bool `json:"owner_proven,omitempty"`

	Template  string            `json:"template,omitempty"`
	Ephemeral bool              `json:"ephemeral,omitempty"` // destroyed when its job ends
	Metadata  map[string]string `json:"metadata,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Secrets   map[string]string `json:"secrets,omitempty"` // variable to reference, for every command
	Labels    map[string]string `json:"labels,omitempty"`
	Network   *Network          `json:"network,omitempty"`

	IdleTimeout wire.Duration `json:"idle_timeout,omitzero"`
	MaxAge      wire.Duration `json:"max_age,omitzero"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	IdleAt    time.Time `json:"idle_at,omitzero"`  // when an active session will be paused, if nothing comes
	StaleAt   time.Time `json:"stale_at,omitzero"` // when it is destroyed, whatever happens

	PausedAt time.Time `json:"paused_at,omitzero"` // when its sandbox was last known to be put to sleep
	// Canary is the nonce of a file that was left in the sandbox before its
	// pause, while nobody knows yet whether it comes back with it.
	Canary string `json:"canary,omitempty"`

	Reason  string `json:"reason,omitempty"`  // why it is in this state, for people
	Attempt string `json:"attempt,omitempty"` // id of the create call under way; E2B's metadata carries it
	Worker  string `json:"worker,omitempty"`  // who drives the transition
	Job     string `json:"job,omitempty"`     // the job that asked for it
	// Deadline is when a transitional state counts as abandoned; written before
	// the call it guards.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Network is what a sandbox may reach.
type Network struct {
	AllowInternet *bool    `json:"allow_internet,omitempty"`
	AllowOut      []string `json:"allow_out,omitempty"`
	DenyOut       []string `json:"deny_out,omitempty"`
}
