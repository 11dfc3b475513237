package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/point"
)

// Headers of dead letters, beside HeaderJob, HeaderSession, HeaderSubject and
// HeaderOrigin.
const (
	HeaderReason   = "Sandjet-Reason"
	HeaderClass    = "Sandjet-Class"
	HeaderAttempts = "Sandjet-Attempts"
	HeaderPointer  = "Sandjet-Pointer"   // JSON pointer into the body, when that is at fault
	HeaderOwner    = "Sandjet-Owner"     // for people and filters; proves nothing
	HeaderCut      = "Sandjet-Body-Size" // the body's full size, when only a part of it fits
)

// DeadLetter is why a job cannot be run.
type DeadLetter struct {
	Job      *Job
	Class    Class
	Reason   string // for people
	Pointer  string
	Attempts int
}

// Letter is a job on the shelf. Seq names it.
type Letter struct {
	Seq      uint64
	Time     time.Time
	Kind     Kind
	Job      string
	Session  string
	Owner    string
	Proven   string // the owner that the subject proved
	Subject  string // where it was published
	Reason   string
	Pointer  string
	Class    Class
	Attempts int
	Origin   uint64
	Size     int    // of the body
	Body     []byte // as much of it as fitted; not from DeadList
	Header   nats.Header
}

// Cut reports whether the letter holds only a part of the body.
func (l *Letter) Cut() bool { return l.Body != nil && len(l.Body) < l.Size }

// Dead writes a dead letter: the job's body and headers, and why. Twice for the
// same attempt series is once, also much later. The caller acknowledges the
// delivery after it has returned nil.
func (q *Queue) Dead(ctx context.Context, l DeadLetter) error {
	j := l.Job
	subject := q.deadSubject(j.Kind, j.ID)
	if have, err := q.lastLetter(ctx, subject); err == nil && have.Session == j.Session && have.Origin == j.Origin {
		return nil
	}
	m := nats.NewMsg(subject)
	m.Data = j.Body
	keepHeaders(m.Header, j.Header)
	h := m.Header
	h.Set(HeaderJob, j.ID)
	h.Set(HeaderSession, j.Session)
	h.Set(HeaderSubject, j.Subject)
	h.Set(HeaderOrigin, strconv.FormatUint(j.Origin, 10))
	h.Set(HeaderReason, oneLine(l.Reason, 1024))
	h.Set(HeaderClass, string(l.Class))
	h.Set(HeaderAttempts, strconv.Itoa(l.Attempts))
	if l.Pointer != "" {
		h.Set(HeaderPointer, oneLine(l.Pointer, 256))
	}
	if j.Owner != "" {
		h.Set(HeaderOwner, j.Owner)
	}
	h.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%s.%d", j.Session, j.ID, j.Origin))
	q.cut(m)
	if _, err := q.pub.Publish(ctx, point.Of("jobs", "dead"), m); err != nil {
		return fmt.Errorf("dead letter of job %s: %w", j.ID, err)
	}
	return nil
}

// cut makes a letter fit that does not, beside our own headers, and says so. The
// publisher's headers go first when there are too many of them, then the end of
// the body.
func (q *Queue) cut(m *nats.Msg) {
	const room = 1024 // for what size does not count
	limit := int(q.nc.MaxPayload())
	if q.fits(m) == nil {
		return
	}
	if n := headerSize(m.Header); n+room > maxHeader || n+room > limit {
		for k := range m.Header {
			if !hasPrefixFold(k, "Sandjet-") && k != nats.MsgIdHdr {
				delete(m.Header, k)
			}
		}
	}
	if over := m.Size() + room - limit; over > 0 {
		m.Header.Set(HeaderCut, strconv.Itoa(len(m.Data)))
		m.Data = m.Data[:max(0, len(m.Data)-over)]
	}
}

// DeadFilter chooses dead letters; empty fields match all.
type DeadFilter struct {
	Kind   Kind
	Class  Class
	Owner  string
	Proven string // the owner, where the subject proved him
	Limit  int    // at most so many; 100
	Cursor string // Next of the page before
}

func (f DeadFilter) match(l *Letter) bool {
	return (f.Class == "" || f.Class == l.Class) && (f.Owner == "" || f.Owner == l.Owner) && (f.Proven == "" || f.Proven == l.Proven)
}

// DeadPage is some dead letters, oldest first.
type DeadPage struct {
	Letters []Letter
	Next    string // empty on the last page
}

// deadBudget is about how many letters are read for one page, so that looking for a rare
// one takes several calls, each of bounded cost.
const deadBudget = 2000

// DeadList returns a page of dead letters, without bodies. A page may be short, or
// empty, while Next is not.
func (q *Queue) DeadList(ctx context.Context, f DeadFilter) (DeadPage, error) {
	var page DeadPage
	seq := uint64(1)
	if f.Cursor != "" {
		n, err := strconv.ParseUint(f.Cursor, 10, 64)
		if err != nil || n == 0 {
			return page, fmt.Errorf("list dead letters: cursor %q is not one of ours", clip(f.Cursor, 40))
		}
		seq = n
	}
	set(&f.Limit, 100)
	s, err := q.deadStream(ctx)
	if err != nil {
		return page, fmt.Errorf("list dead letters: %w", err)
	}
	subject := q.ns.Subject(tokenDead, ">")
	if f.Kind != "" {
		subject = q.deadSubject(f.Kind, "*")
	}
	for read := 0; ; read++ {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return page, nil
		}
		if err != nil {
			return page, fmt.Errorf("list dead letters: %w", err)
		}
		seq = m.Sequence + 1
		l := q.letter(m)
		if read < q.deadBudget && !f.match(&l) {
			continue
		}
		if read >= q.deadBudget || len(page.Letters) == f.Limit {
			page.Next = strconv.FormatUint(m.Sequence, 10)
			return page, nil
		}
		l.Body = nil
		page.Letters = append(page.Letters, l)
	}
}

// DeadGet returns one dead letter with its body, or ErrNoLetter.
func (q *Queue) DeadGet(ctx context.Context, seq uint64) (Letter, error) {
	s, err := q.deadStream(ctx)
	if err != nil {
		return Letter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = ErrNoLetter
	}
	if err != nil {
		return Letter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	return q.letter(m), nil
}

// DeadDiscard drops a dead letter for good.
func (q *Queue) DeadDiscard(ctx context.Context, seq uint64) error {
	if _, err := q.DeadGet(ctx, seq); err != nil {
		return fmt.Errorf("discard: %w", err)
	}
	s, err := q.deadStream(ctx)
	if err == nil {
		err = drop(ctx, s, seq)
	}
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		err = ErrNoLetter
	}
	if err != nil {
		return fmt.Errorf("discard dead letter %d: %w", seq, err)
	}
	return nil
}

// drop deletes a message from a stream.
func drop(ctx context.Context, s jetstream.Stream, seq uint64) error {
	at := point.Of("jobs", "drop")
	if err := point.Before(ctx, at); err != nil {
		return err
	}
	if err := s.DeleteMsg(ctx, seq); err != nil {
		return err
	}
	return point.After(ctx, at)
}

// DeadReplay puts a job back to work: its body goes to the subject it was first
// published to, with a new series of attempts, under the id "<id>-r<seq>": the
// dead job keeps its one terminal event, the new one gets its own. Then the letter
// is taken off the shelf; should it die again, it gets a new one. Two replays of a
// letter at the same time are one.
func (q *Queue) DeadReplay(ctx context.Context, seq uint64) (Published, error) {
	l, err := q.DeadGet(ctx, seq)
	if err != nil {
		return Published{}, fmt.Errorf("replay: %w", err)
	}
	if l.Cut() {
		return Published{}, fmt.Errorf("replay dead letter %d: %w", seq, ErrCutLetter)
	}
	m := nats.NewMsg(l.Subject)
	job := replayID(l.Job, seq)
	m.Data = withJob(l.Body, job)
	keepHeaders(m.Header, l.Header)
	m.Header.Set(HeaderReplay, strconv.FormatUint(seq, 10))
	m.Header.Set(nats.MsgIdHdr, "replay."+strconv.FormatUint(seq, 10))
	ack, err := q.pub.Publish(ctx, point.Of("jobs", "replay"), m)
	if err != nil {
		return Published{}, fmt.Errorf("replay dead letter %d: %w", seq, err)
	}
	if err := q.DeadDiscard(ctx, seq); err != nil && !errors.Is(err, ErrNoLetter) {
		q.log.Warn("dead letter stays although its job is back at work", "seq", seq, "job_id", l.Job, "err", err)
	}
	session := l.Session
	if session == l.Job && peekBody(m.Data).Session == "" {
		session = job // a session of its own, as before
	}
	return Published{
		Session: session, Job: job, Subject: l.Subject,
		Stream: ack.Stream, StreamSeq: ack.Seq, Duplicate: ack.Duplicate,
	}, nil
}

// replayID names the job that takes a dead one's place.
func replayID(id string, seq uint64) string {
	mark := "-r" + strconv.FormatUint(seq, 10)
	return id[:min(len(id), 64-len(mark))] + mark
}

// withJob writes the job's id into a body.
func withJob(body []byte, id string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return body
	}
	fields["id"], _ = json.Marshal(id) // a string
	b, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return b
}

func (q *Queue) deadStream(ctx context.Context) (jetstream.Stream, error) {
	return q.js.Stream(ctx, q.ns.Stream(StreamDead))
}

func (q *Queue) deadSubject(k Kind, job string) string {
	if strings.Count(string(k), ".") != 1 {
		k = "unknown.kind"
	}
	return q.ns.Subject(tokenDead, string(k), job)
}

func (q *Queue) lastLetter(ctx context.Context, subject string) (Letter, error) {
	s, err := q.deadStream(ctx)
	if err != nil {
		return Letter{}, err
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return Letter{}, err
	}
	return q.letter(m), nil
}

func (q *Queue) letter(m *jetstream.RawStreamMsg) Letter {
	h := m.Header
	l := Letter{
		Seq:     m.Sequence,
		Time:    m.Time,
		Job:     h.Get(HeaderJob),
		Session: h.Get(HeaderSession),
		Owner:   h.Get(HeaderOwner),
		Subject: h.Get(HeaderSubject),
		Reason:  h.Get(HeaderReason),
		Pointer: h.Get(HeaderPointer),
		Class:   Class(h.Get(HeaderClass)),
		Size:    len(m.Data),
		Body:    m.Data,
		Header:  h,
	}
	if a, _, err := ParseSubject(q.ns, l.Subject); err == nil {
		l.Proven = a.Owner
	}
	rest, _ := q.ns.Trim(m.Subject)
	if t := strings.Split(rest, "."); len(t) == 4 {
		l.Kind = Kind(t[1] + "." + t[2])
	}
	l.Attempts, _ = strconv.Atoi(h.Get(HeaderAttempts))
	l.Origin, _ = strconv.ParseUint(h.Get(HeaderOrigin), 10, 64)
	if n, err := strconv.Atoi(h.Get(HeaderCut)); err == nil {
		l.Size = n
	}
	return l
}

// oneLine makes s fit for a header: no control characters, not too long.
func oneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.ToValidUTF8(clip(s, n), "")
}
