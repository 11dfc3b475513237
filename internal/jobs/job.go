package jobs

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/wire"
)

// Headers of jobs. Those marked trusted count only on subjects that begin with
// "again.", which NATS permissions keep for workers.
const (
	HeaderJob         = "Sandjet-Job"          // trusted: the job's id
	HeaderSession     = "Sandjet-Session"      // trusted: its session
	HeaderOrigin      = "Sandjet-Origin"       // trusted: the sequence it was published with
	HeaderPublishedAt = "Sandjet-Published-At" // trusted: when that was, RFC 3339
	HeaderSubject     = "Sandjet-Subject"      // where it was published
	HeaderReplay      = "Sandjet-Replay"       // the dead letter that was put back to work
	HeaderWaits       = "Sandjet-Waits"        // in a schedule: the class of what it waits for, if somebody will call it
)

// Raw is a message as it came off a stream.
type Raw struct {
	Subject   string
	Header    nats.Header
	Data      []byte
	Stream    string
	StreamSeq uint64
	Delivered int       // how often the server has delivered it, this time included
	Time      time.Time // when it was stored
}

// Job is a message that has been read and, unless Decode said otherwise, found
// in order. It must not be changed.
type Job struct {
	// Common holds the common fields of the body with ID, Session and Owner
	// resolved.
	Common
	Kind     Kind
	Payload  Payload // *Provision, *Lifecycle, *Run, *File or *Git; nil if the body is not in order
	Priority Priority
	Subject  string // where it was published, also when it came back from a schedule

	OwnerProven bool // the owner stands in the subject, so NATS permissions vouch for it
	Ephemeral   bool // a task.run without a session: the session is its own and ends with it
	Rescheduled bool // it came back from a schedule

	Stream    string
	StreamSeq uint64 // of this message, in Stream
	Delivered int
	// Origin is the sequence in JOBS that the job was published with. It orders
	// the jobs of a session.
	Origin      uint64
	PublishedAt time.Time
	// Replay is the sequence of the dead letter that was put back to work, or 0.
	// Anyone who may publish jobs can set it.
	Replay uint64

	Body   []byte
	Header nats.Header
}

// DefaultTimeout is how long a command may run when its job does not say.
const DefaultTimeout = 5 * time.Minute

// Exclusive reports whether the job runs alone in its session, in order.
func (j *Job) Exclusive() bool { return j.Common.Exclusive == nil || *j.Common.Exclusive }

// MaxAttempts returns how often the job is tried.
func (j *Job) MaxAttempts() int {
	if j.Common.MaxAttempts > 0 {
		return j.Common.MaxAttempts
	}
	return DefaultMaxAttempts
}

// Timeout returns how long the job's command may run.
func (j *Job) Timeout() time.Duration {
	if r, ok := j.Payload.(*Run); ok {
		return r.Timeout.Or(DefaultTimeout)
	}
	return DefaultTimeout
}

// NotBefore returns when the job may run at the earliest: run_after, or delay
// from its publication. It is zero if the job does not say.
func (j *Job) NotBefore() time.Time {
	if !j.RunAfter.IsZero() {
		return j.RunAfter
	}
	if j.Common.Delay > 0 {
		return j.PublishedAt.Add(j.Common.Delay.D())
	}
	return time.Time{}
}

// ExpiresAt returns when the job has waited too long: expires_in from when it
// might have run first. It is zero if the job does not say.
func (j *Job) ExpiresAt() time.Time {
	if j.ExpiresIn == 0 {
		return time.Time{}
	}
	from := j.PublishedAt
	if nb := j.NotBefore(); nb.After(from) {
		from = nb
	}
	return from.Add(j.ExpiresIn.D())
}

// Expired reports whether the job has waited too long.
func (j *Job) Expired(now time.Time) bool {
	at := j.ExpiresAt()
	return !at.IsZero() && !now.Before(at)
}

// Decode reads a message. The job it returns is never nil: with an error it
// holds what could be told, id and session always, so that the message can be
// put off or shelved. The error is an *Invalid or a *NewerVersion.
//
// The id is the body's; else, for a job that came back from a schedule, the one
// it went with; else the header Nats-Msg-Id; else "j" and the sequence in JOBS.
func Decode(m Raw, ns wire.Namespace) (*Job, error) {
	j := &Job{
		Subject:     m.Subject,
		Stream:      m.Stream,
		StreamSeq:   m.StreamSeq,
		Origin:      m.StreamSeq,
		Delivered:   m.Delivered,
		PublishedAt: m.Time,
		Body:        m.Data,
		Header:      m.Header,
	}
	j.Replay, _ = strconv.ParseUint(m.Header.Get(HeaderReplay), 10, 64)
	addr, again, err := ParseSubject(ns, m.Subject)
	j.Kind, j.Priority, j.Rescheduled = addr.Kind, addr.Priority, again
	if again {
		j.Subject = homeSubject(ns, m.Subject)
	}
	if err != nil {
		j.guess()
		return j, invalid("", "%v", err)
	}
	if err := j.readBody(); err != nil {
		j.guess()
		j.own(addr.Owner)
		return j, err
	}
	j.own(addr.Owner)
	if err := j.resolve(); err != nil {
		j.guess()
		return j, err
	}
	*j.Payload.common() = j.Common
	return j, nil
}

// own sets the owner. The subject's wins: it is the one that NATS has checked.
func (j *Job) own(proven string) {
	if proven != "" {
		j.Owner, j.OwnerProven = proven, true
	}
}

// resolve fills in id, session, origin and time of a job whose body is in order.
func (j *Job) resolve() error {
	if j.Rescheduled {
		if err := j.readTrusted(); err != nil {
			return err
		}
	}
	if j.ID == "" {
		id := j.Header.Get(nats.MsgIdHdr)
		if id == "" {
			id = "j" + strconv.FormatUint(j.StreamSeq, 10)
		}
		if err := wire.CheckID("header "+nats.MsgIdHdr, id); err != nil {
			return invalid("", "%v; it is the job's id when the body has none", err)
		}
		j.ID = id
	}
	if j.ID == wire.ReservedJob {
		return invalid("/id", "%q is reserved: no job may be called so", wire.ReservedJob)
	}
	if j.Session == "" {
		j.Session, j.Ephemeral = j.ID, true
	}
	return j.checkTimes()
}

// readTrusted reads the headers that a job took with it into its schedule.
func (j *Job) readTrusted() error {
	h := j.Header
	if j.ID == "" {
		j.ID = h.Get(HeaderJob)
	}
	if err := wire.CheckID("header "+HeaderJob, j.ID); err != nil {
		return invalid("", "%v", err)
	}
	origin, err := strconv.ParseUint(h.Get(HeaderOrigin), 10, 64)
	if err != nil || origin == 0 {
		return invalid("", "header %s is not a sequence: only workers publish to again.>", HeaderOrigin)
	}
	at, err := time.Parse(time.RFC3339Nano, h.Get(HeaderPublishedAt))
	if err != nil {
		return invalid("", "header %s is not a time: only workers publish to again.>", HeaderPublishedAt)
	}
	j.Origin, j.PublishedAt = origin, at
	return nil
}

// guess fills in what can be told of a job that is not in order: its id and
// session are such that they can stand in a subject.
func (j *Job) guess() {
	h, peek := j.Header, peekBody(j.Body)
	ids := []string{j.ID, peek.ID, "", h.Get(nats.MsgIdHdr), "j" + strconv.FormatUint(j.StreamSeq, 10)}
	sessions := []string{j.Session, peek.Session, ""}
	if j.Rescheduled {
		ids[2], sessions[2] = h.Get(HeaderJob), h.Get(HeaderSession)
		if n, err := strconv.ParseUint(h.Get(HeaderOrigin), 10, 64); err == nil {
			j.Origin = n
		}
		if at, err := time.Parse(time.RFC3339Nano, h.Get(HeaderPublishedAt)); err == nil {
			j.PublishedAt = at
		}
	}
	j.ID = firstID(ids)
	j.Session = firstID(append(sessions, j.ID))
	j.Owner = firstID([]string{j.Owner, peek.Owner})
	j.Payload = nil
}

func firstID(ids []string) string {
	for _, id := range ids {
		if wire.ValidID(id) && id != wire.ReservedJob {
			return id
		}
	}
	return ""
}
