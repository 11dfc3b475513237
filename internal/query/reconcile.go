package query

import "time"

// ReconcileRequest asks a worker to compare E2B's sandboxes with the sessions
// now. A dry run changes nothing.
type ReconcileRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
}

// What a sandbox is found to be.
const (
	VerdictOwned      = "owned"      // its session knows it
	VerdictMaking     = "making"     // a session is about to know it: its creation is under way
	VerdictBusy       = "busy"       // no session knows it, but a running job says that it works there
	VerdictSuspect    = "suspect"    // no session knows it; too early to tell
	VerdictOrphan     = "orphan"     // no session knows it, seen so twice and for longer than the grace
	VerdictNewer      = "newer"      // of a generation that its session has not reached
	VerdictForeign    = "foreign"    // of another namespace
	VerdictUnmarked   = "unmarked"   // not made by Sandjet
	VerdictUnclear    = "unclear"    // marked as ours, but not as Sandjet marks
	VerdictUnreadable = "unreadable" // its session could not be read
)

// ReconcileReply accounts for every sandbox that E2B has.
type ReconcileReply struct {
	Worker     string    `json:"worker"` // who did it
	DryRun     bool      `json:"dry_run"`
	At         time.Time `json:"at"`
	DurationMS int64     `json:"duration_ms"`
	// Complete says that everything could be read. Otherwise nothing was killed,
	// and Problems say why.
	Complete bool     `json:"complete"`
	Problems []string `json:"problems,omitempty"`

	Counts    map[string]int      `json:"counts"` // sandboxes by verdict
	Sandboxes []ReconciledSandbox `json:"sandboxes"`
	// LeftOut is how many entries of Sandboxes and Sessions do not fit into one
	// message; the counts have them.
	LeftOut int `json:"left_out,omitempty"`
	// Sessions are those whose record was not what E2B says, or whose
	// transition nobody finished.
	Sessions []ReconciledSession `json:"sessions"`
}

// ReconciledSandbox is what one sandbox was found to be.
type ReconciledSandbox struct {
	Sandbox    string    `json:"sandbox"`
	State      string    `json:"state"` // E2B's word
	Verdict    string    `json:"verdict"`
	Why        string    `json:"why"`
	Done       string    `json:"done"` // what was done about it
	Session    string    `json:"session,omitempty"`
	Generation int       `json:"generation,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
}

// ReconciledSession is a session that was put right.
type ReconciledSession struct {
	Session string `json:"session"`
	State   string `json:"state"` // before
	Why     string `json:"why"`
	Done    string `json:"done"`
}
