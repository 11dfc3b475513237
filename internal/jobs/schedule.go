package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
)

// Reschedule puts a job into SCHEDULES, to come back at a time: nobody holds it
// until then. A job has one place there; a second call moves it. The caller
// acknowledges the delivery after it has returned nil. ErrScheduleFull and
// ErrTooLarge say that the message must be given back instead.
//
// The message id is that of the delivery and the time: when the worker dies
// before the ack, the message is delivered and rescheduled again to no effect,
// while another message of the same job is never taken for this one.
func (q *Queue) Reschedule(ctx context.Context, j *Job, at time.Time) error {
	return q.reschedule(ctx, j, at, "")
}

// LeaveLane is Reschedule for a job that waits for its turn in its session's lane:
// it comes back at that time unless somebody hastens it.
func (q *Queue) LeaveLane(ctx context.Context, j *Job, at time.Time) error {
	return q.reschedule(ctx, j, at, ClassLane)
}

func (q *Queue) reschedule(ctx context.Context, j *Job, at time.Time, why Class) error {
	m := nats.NewMsg(scheduleSubject(q.ns, j.Session, j.ID))
	m.Data = j.Body
	keepHeaders(m.Header, j.Header)
	h := m.Header
	h.Set(HeaderJob, j.ID)
	h.Set(HeaderSession, j.Session)
	h.Set(HeaderOrigin, strconv.FormatUint(j.Origin, 10))
	h.Set(HeaderPublishedAt, j.PublishedAt.UTC().Format(time.RFC3339Nano))
	h.Set(HeaderSubject, j.Subject)
	if j.Replay != 0 {
		h.Set(HeaderReplay, strconv.FormatUint(j.Replay, 10))
	}
	if why != "" {
		h.Set(HeaderWaits, string(why))
	}
	h.Set(jetstream.ScheduleHeader, scheduleAt(at))
	h.Set(jetstream.ScheduleTargetHeader, againSubject(q.ns, j.Subject))
	h.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%d.%d", j.Stream, j.StreamSeq, at.UnixNano()))
	if err := q.fits(m); err != nil {
		return fmt.Errorf("reschedule job %s: %w", j.ID, err)
	}
	if err := q.roomForSchedule(ctx, m.Size()); err != nil {
		return fmt.Errorf("reschedule job %s: %w", j.ID, err)
	}
	if _, err := q.pub.Publish(ctx, point.Of("jobs", "reschedule"), m); err != nil {
		return fmt.Errorf("reschedule job %s: %w", j.ID, err)
	}
	return nil
}

// Hasten makes a job that waits in SCHEDULES come back at once: its turn has
// come, or somebody has cancelled it. ok is false if it does not wait there.
func (q *Queue) Hasten(ctx context.Context, session, job string) (ok bool, err error) {
	s, err := q.js.Stream(ctx, q.ns.Stream(StreamSchedules))
	if err != nil {
		return false, fmt.Errorf("hasten job %s: %w", job, err)
	}
	subject := scheduleSubject(q.ns, session, job)
	old, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("hasten job %s: %w", job, err)
	}
	ok, err = q.hasten(ctx, old)
	if err != nil {
		return false, fmt.Errorf("hasten job %s: %w", job, err)
	}
	return ok, nil
}

// hasten stores a schedule again, due now, unless it has fired since it was read:
// then there is nothing left to hasten, and a second one would run the job again.
func (q *Queue) hasten(ctx context.Context, old *jetstream.RawStreamMsg) (ok bool, err error) {
	m := &nats.Msg{Subject: old.Subject, Header: maps.Clone(old.Header), Data: old.Data}
	m.Header.Set(jetstream.ScheduleHeader, scheduleAt(time.Now()))
	m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%d.hasten", q.ns.Stream(StreamSchedules), old.Sequence))
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(old.Sequence, 10))
	_, err = q.pub.Publish(ctx, point.Of("jobs", "hasten"), m)
	if errors.Is(err, natsx.ErrStale) {
		return false, nil
	}
	return err == nil, err
}

// scheduleAt writes the time in full: the client's own helper cuts it to whole
// seconds and so fires early.
func scheduleAt(at time.Time) string { return "@at " + at.UTC().Format(time.RFC3339Nano) }

// keepHeaders copies the headers a publisher gave. Those of JetStream and of
// ours belong to one message and are set anew.
func keepHeaders(dst, src nats.Header) {
	for k, v := range src {
		if !hasPrefixFold(k, "Nats-") && !hasPrefixFold(k, "Sandjet-") {
			dst[k] = slices.Clone(v)
		}
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// maxHeader is what JetStream takes.
const maxHeader = 64 << 10

// fits reports whether the server would take m.
func (q *Queue) fits(m *nats.Msg) error {
	if limit := q.nc.MaxPayload(); limit > 0 && int64(m.Size()) > limit {
		return fmt.Errorf("%w: %d of %d bytes", ErrTooLarge, m.Size(), limit)
	}
	if n := headerSize(m.Header); n > maxHeader {
		return fmt.Errorf("%w: headers of %d bytes, at most %d are taken", ErrTooLarge, n, maxHeader)
	}
	return nil
}

// headerSize is how long the headers are on the wire.
func headerSize(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(": ") + len(v) + len("\r\n")
		}
	}
	return n
}

// usage is the size of SCHEDULES as far as this worker knows.
type usage struct {
	bytes uint64 // as the server said, and what we have added since
	asked time.Time
}

// usageFresh is how old the server's word on the size may be: between two looks
// a worker sees only what it adds itself.
const usageFresh = time.Second

// roomForSchedule refuses when SCHEDULES is full.
func (q *Queue) roomForSchedule(ctx context.Context, n int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.schedules.asked) > usageFresh {
		s, err := q.js.Stream(ctx, q.ns.Stream(StreamSchedules))
		if err != nil {
			return fmt.Errorf("size of %s: %w", q.ns.Stream(StreamSchedules), err)
		}
		q.schedules = usage{bytes: s.CachedInfo().State.Bytes, asked: time.Now()}
	}
	const overhead = 64 // of a stored record
	if q.schedules.bytes+uint64(n)+overhead > uint64(q.cfg.SchedulesMaxBytes) {
		return ErrScheduleFull
	}
	q.schedules.bytes += uint64(n) + overhead
	return nil
}
