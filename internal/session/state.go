package session

import "fmt"

// State is where a session is in its life.
//
//	provisioning ──> active ──> pausing ──> paused
//	      │            ^  ^────────┐           │
//	      │            └─ resuming <┼───────────┘
//	      v               (pausing may fall back to active)
//	 error, lost, destroying ──> destroyed
type State string

// The states of a session.
const (
	None         State = ""             // no record yet
	Provisioning State = "provisioning" // a sandbox is being made
	Active       State = "active"       // the sandbox runs
	Pausing      State = "pausing"
	Paused       State = "paused" // disk and memory are kept, nothing runs
	Resuming     State = "resuming"
	Destroying   State = "destroying"
	Destroyed    State = "destroyed"
	Lost         State = "lost"  // the sandbox is gone, or came back without its work
	Error        State = "error" // a transition failed for good; Reason says why
)

// transitions is the whole state machine. A state may always be written again
// over itself: that is how a record is amended and how an abandoned transition
// is taken over.
var transitions = map[State][]State{
	None:         {Provisioning},
	Provisioning: {Active, Error, Lost, Destroying},
	Active:       {Pausing, Paused, Destroying, Lost, Error},
	Pausing:      {Paused, Active, Lost, Error, Destroying},
	Paused:       {Resuming, Active, Destroying, Lost},
	Resuming:     {Active, Paused, Lost, Error, Destroying},
	Destroying:   {Destroyed, Error},
	Destroyed:    {Provisioning},
	Lost:         {Provisioning, Destroying, Destroyed},
	Error:        {Provisioning, Active, Paused, Destroying, Destroyed, Lost},
}

// States lists all states, in the order of a life.
func States() []State {
	return []State{Provisioning, Active, Pausing, Paused, Resuming, Destroying, Destroyed, Lost, Error}
}

// May reports whether a session may go from one state to the other.
func May(from, to State) bool {
	if from == to && from != None {
		return true
	}
	for _, s := range transitions[from] {
		if s == to {
			return true
		}
	}
	return false
}

// Transitional reports whether s is left by the one who entered it, and so
// carries a deadline.
func (s State) Transitional() bool {
	switch s {
	case Provisioning, Pausing, Resuming, Destroying:
		return true
	}
	return false
}

// HasSandbox reports whether a session in s has a sandbox at E2B.
func (s State) HasSandbox() bool {
	switch s {
	case Active, Pausing, Paused, Resuming:
		return true
	}
	return false
}

// Running reports whether a session in s takes one of E2B's running slots.
func (s State) Running() bool {
	switch s {
	case Provisioning, Active, Pausing, Resuming:
		return true
	}
	return false
}

// To returns a copy of r in state s, or an error if the machine does not allow
// it. Generation, deadlines and times stay the caller's to set.
func (r Record) To(s State) (Record, error) {
	if !May(r.State, s) {
		return r, fmt.Errorf("session %s: %s may not become %s", r.Session, r.State, s)
	}
	r.State = s
	return r, nil
}
