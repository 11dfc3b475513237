// Package query holds the questions that may be asked of a running Sandjet,
// and their answers: request/reply over NATS, one subject a question, served by
// any worker as the micro service "sandjet".
package query

import (
	"encoding/json"
	"time"

	"github.com/sandjet/sandjet/internal/session"
)

// ServiceName is the micro service's name.
const ServiceName = "sandjet"

// Subjects of the questions, before the namespace. With an owner's id as one more
// token (api.job.get.agent-7) they are that owner's questions: NATS permissions prove
// who asks, and the answer is about what a subject has proved to be his. To all else he
// hears what he would if it were not there.
const (
	SessionGet    = "api.session.get"
	SessionList   = "api.session.list"
	SessionStatus = "api.session.status"
	JobGet        = "api.job.get"
	JobList       = "api.job.list"
	JobCancel     = "api.job.cancel"
	JobWhy        = "api.job.why"
	DeadList      = "api.dead.list"
	DeadGet       = "api.dead.get"
	DeadReplay    = "api.dead.replay"
	DeadDiscard   = "api.dead.discard"
	Stats         = "api.stats"
	Reconcile     = "api.reconcile"
	Doctor        = "api.doctor"
)

// Error codes, in the micro error headers Nats-Service-Error-Code and
// Nats-Service-Error.
const (
	CodeInvalid     = "400"
	CodeForbidden   = "403"
	CodeNotFound    = "404"
	CodeConflict    = "409"
	CodeInternal    = "500"
	CodeUnavailable = "503"
)

// SessionRequest names one session. With Owner set, a session of somebody
// else is not found.
type SessionRequest struct {
	Session string `json:"session"`
	Owner   string `json:"owner,omitempty"`
}

// SessionListRequest filters sessions; empty fields match all.
type SessionListRequest struct {
	State    string `json:"state,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Label    string `json:"label,omitempty"` // "key" or "key=value"
	Template string `json:"template,omitempty"`
	Limit    int    `json:"limit,omitempty"` // 1 to 1000; 100
	Cursor   string `json:"cursor,omitempty"`
}

// SessionListReply is one page.
type SessionListReply struct {
	Sessions []session.Record `json:"sessions"`
	Next     string           `json:"next,omitempty"` // the next page's cursor; absent on the last
}

// SessionStatusReply is a session with what E2B says of its sandbox now.
type SessionStatusReply struct {
	Session session.Record `json:"session"`
	Running int            `json:"running"` // jobs in its sandbox now
	Queued  int            `json:"queued"`  // jobs in its lane, the running one included
	Sandbox *Sandbox       `json:"sandbox,omitempty"`
	// SandboxError says why E2B's side is missing.
	SandboxError string `json:"sandbox_error,omitempty"`
}

// Sandbox is E2B's view of a sandbox.
type Sandbox struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`
	Template  string    `json:"template,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndAt     time.Time `json:"end_at,omitzero"`
	CPUCount  int       `json:"cpu_count,omitempty"`
	MemoryMB  int       `json:"memory_mb,omitempty"`
	DiskMB    int       `json:"disk_mb,omitempty"`
	CPUPct    float64   `json:"cpu_pct,omitempty"`
	MemUsed   int64     `json:"mem_used,omitempty"`
	DiskUsed  int64     `json:"disk_used,omitempty"`
}

// JobRequest names one job. Session may be left out when the job id is unique
// among sessions, or when the session is the job's own.
type JobRequest struct {
	Session string `json:"session,omitempty"`
	Job     string `json:"job"`
	Owner   string `json:"owner,omitempty"`
}

// Job is what is known of one job.
type Job struct {
	Session    string            `json:"session"`
	Job        string            `json:"job"`
	Kind       string            `json:"kind,omitempty"`
	State      string            `json:"state"` // the last event's kind that says where the job is
	Owner      string            `json:"owner,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Worker     string            `json:"worker,omitempty"`
	Attempt    int               `json:"attempt,omitempty"`
	Waiting    string            `json:"waiting,omitempty"` // why it waits
	AcceptedAt time.Time         `json:"accepted_at,omitzero"`
	UpdatedAt  time.Time         `json:"updated_at,omitzero"`
	Class      string            `json:"class,omitempty"`
	Outcome    json.RawMessage   `json:"outcome,omitempty"` // the terminal event's payload
}

// JobListRequest filters jobs; empty fields match all.
type JobListRequest struct {
	State   string `json:"state,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Session string `json:"session,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Class   string `json:"class,omitempty"`
	Limit   int    `json:"limit,omitempty"` // 1 to 1000; 100
	Cursor  string `json:"cursor,omitempty"`
}

// JobListReply is one page, newest first.
type JobListReply struct {
	Jobs []Job  `json:"jobs"`
	Next string `json:"next,omitempty"`
}

// JobCancelRequest asks that a job end.
type JobCancelRequest struct {
	JobRequest
	Reason string `json:"reason,omitempty"`
}

// JobCancelReply says what the cancel met.
type JobCancelReply struct {
	Session string `json:"session"`
	Job     string `json:"job"`
	State   string `json:"state"` // "requested", or the terminal kind of a job that had ended
}

// JobWhyReply is the causal chain of a job: its events in order, output left
// out, each with one sentence for people.
type JobWhyReply struct {
	Session string    `json:"session"`
	Job     string    `json:"job"`
	Summary string    `json:"summary"`
	Chain   []WhyLink `json:"chain"`
}

// WhyLink is one event of the chain.
type WhyLink struct {
	Seq  uint64          `json:"seq"`
	Time time.Time       `json:"time"`
	Kind string          `json:"kind"`
	Says string          `json:"says"`
	Data json.RawMessage `json:"data,omitempty"`
}

// DeadListRequest filters dead letters; empty fields match all.
type DeadListRequest struct {
	Kind   string `json:"kind,omitempty"`
	Class  string `json:"class,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// DeadLetter is a job that ended as dead. Seq names it.
type DeadLetter struct {
	Seq      uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Job      string    `json:"job"`
	Session  string    `json:"session,omitempty"`
	Subject  string    `json:"subject"` // where it was published
	Reason   string    `json:"reason"`
	Class    string    `json:"class"`
	Attempts int       `json:"attempts"`
	Body     string    `json:"body,omitempty"` // only from api.dead.get
}

// DeadListReply is one page.
type DeadListReply struct {
	Letters []DeadLetter `json:"letters"`
	Next    string       `json:"next,omitempty"`
}

// DeadRequest names one dead letter.
type DeadRequest struct {
	Seq uint64 `json:"seq"`
}

// DeadReplayReply says where a replayed job went.
type DeadReplayReply struct {
	Subject   string `json:"subject"`
	StreamSeq uint64 `json:"stream_seq"`
	Job       string `json:"job"`
}

// DeadDiscardReply confirms a discard.
type DeadDiscardReply struct {
	Seq uint64 `json:"seq"`
}

// StatsReply is the fleet at a glance.
type StatsReply struct {
	Worker   string         `json:"worker"` // who answered
	Version  string         `json:"version"`
	Queued   uint64         `json:"queued"`  // in JOBS, not delivered
	Running  uint64         `json:"running"` // delivered, not acknowledged
	Waiting  uint64         `json:"waiting"` // scheduled for later
	Dead     uint64         `json:"dead"`
	Events   uint64         `json:"events"`
	Sessions map[string]int `json:"sessions"` // by state
	Slots    Slots          `json:"slots"`
	// Breakers is whether the worker that answered holds calls to E2B back, by
	// class: closed, half-open or open.
	Breakers map[string]string `json:"breakers,omitempty"`
}

// Slots is the use of E2B's running sandboxes.
type Slots struct {
	Used    int  `json:"used"`              // running, or about to
	Limit   int  `json:"limit"`             // that was configured; 0 for none
	Allowed *int `json:"allowed,omitempty"` // at present: less than the limit where E2B has said so
	Waiting int  `json:"waiting"`           // sessions in line
}
