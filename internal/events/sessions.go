package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

func (l *Log) stateSubject(id string) string {
	return l.subject(Job{id, wire.ReservedJob}, SessionState)
}

// PutSession writes a session's record over the one with sequence prev, 0 for the
// first. ErrStale: another record than prev is there; read it and decide again. A
// lost answer is resolved: nil means that the record was stored, ErrStale that it
// never was.
func (l *Log) PutSession(ctx context.Context, rec session.Record, prev uint64) (uint64, error) {
	if err := wire.CheckID("session", rec.Session); err != nil {
		return 0, err
	}
	seq, err := l.putSession(ctx, rec, prev)
	if err != nil {
		return 0, fmt.Errorf("put session %s: %w", rec.Session, err)
	}
	return seq, nil
}

func (l *Log) putSession(ctx context.Context, rec session.Record, prev uint64) (uint64, error) {
	e := l.envelope(Job{rec.Session, wire.ReservedJob}, SessionState, nuid.Next())
	defer e.free()
	if err := e.payload(SessionState, rec); err != nil {
		return 0, err
	}
	if rec.State == session.Destroyed {
		ttl, err := l.forgetAfter(ctx)
		if err != nil {
			return 0, err
		}
		e.set(slotTTL, ttl)
	}
	expect := prev
	for try := 0; ; try++ {
		e.set(slotExpectSeq, strconv.FormatUint(expect, 10))
		ack, err := l.pub.Publish(ctx, point.Of("session", string(rec.State)), &e.msg)
		switch {
		case err == nil:
			return ack.Seq, nil
		case errors.Is(err, natsx.ErrStale):
			var seq uint64
			if expect, seq, err = l.staleSession(ctx, rec.Session, e.id(), prev, err); err != nil || seq != 0 {
				return seq, err
			}
		case !errors.Is(err, natsx.ErrBusy):
			return 0, err
		}
		if err := backoff(ctx, try); err != nil {
			return 0, err
		}
	}
}

// staleSession finds out why a record was refused: an earlier send of it is stored
// (seq is its sequence), the record it replaces has left EVENTS and lives on in
// SESSIONS (expect is what to expect then), or somebody else was faster (cause).
func (l *Log) staleSession(ctx context.Context, session, id string, prev uint64, cause error) (expect, seq uint64, err error) {
	subject := l.stateSubject(session)
	// The first record after prev decides: if it is not ours, ours was refused.
	s, err := l.leader(ctx, l.stream, request{Seq: prev + 1, NextFor: subject})
	switch {
	case err == nil && s.Header.Get(headerMsgID) == id:
		return 0, s.Seq, nil
	case err == nil:
		return 0, 0, cause
	case !errors.Is(err, ErrNotFound):
		return 0, 0, err
	}
	s, err = l.leader(ctx, l.stream, request{LastFor: subject})
	switch {
	case err == nil && s.Seq == prev:
		return prev, 0, nil // a new leader that has not caught up
	case err == nil:
		return 0, 0, cause // prev is a sequence that never was a record of this session
	case !errors.Is(err, ErrNotFound):
		return 0, 0, err
	}
	s, err = l.leader(ctx, l.states, request{LastFor: subject})
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	case origin(s) != prev:
		return 0, 0, cause
	}
	return 0, 0, nil
}

// forgetAfter is how long SESSIONS keeps a destroyed session: a little longer than
// EVENTS does, so that no older record comes to light there.
func (l *Log) forgetAfter(ctx context.Context) (string, error) {
	if ttl := l.ttl.Load(); ttl != nil {
		return *ttl, nil
	}
	js, err := jetstream.New(l.nc)
	if err != nil {
		return "", err
	}
	s, err := js.Stream(ctx, l.stream)
	if err != nil {
		return "", fmt.Errorf("look up stream %s: %w", l.stream, err)
	}
	var ttl string
	if cfg := s.CachedInfo().Config; cfg.MaxAge > 0 && cfg.AllowMsgTTL {
		ttl = strconv.Itoa(int((cfg.MaxAge+time.Hour)/time.Second)) + "s"
	}
	l.ttl.Store(&ttl)
	return ttl, nil
}

// Session reads a session's record and its sequence, for PutSession, from the
// leader. ErrNotFound: there is no such session, or it was destroyed long ago. What
// somebody else has published on the session's subject and cannot be its record
// counts as not written: the record is the last that can be read, or ErrNotFound,
// and the sequence is still the one to write over. ErrUnreadable beside ErrNotFound
// says that something is there.
func (l *Log) Session(ctx context.Context, id string) (session.Record, uint64, error) {
	if err := wire.CheckID("session", id); err != nil {
		return session.Record{}, 0, err
	}
	subject := l.stateSubject(id)
	s, err := l.leader(ctx, l.stream, request{LastFor: subject})
	if errors.Is(err, ErrNotFound) {
		// A session that has not changed for longer than EVENTS keeps events.
		s, err = l.leader(ctx, l.states, request{LastFor: subject})
	}
	if err != nil {
		return session.Record{}, 0, fmt.Errorf("session %s: %w", id, err)
	}
	f, err := l.record(ctx, id, s)
	if err != nil {
		err = fmt.Errorf("session %s: %w", id, err)
	}
	return f.Value, f.Seq, err
}

// record reads the session's record out of the newest message on its subject, or
// out of the newest before it that can be read.
func (l *Log) record(ctx context.Context, id string, newest stored) (Fact[session.Record], error) {
	f, err := sessionFact(id, newest)
	if err == nil {
		return f, nil
	}
	last := Fact[session.Record]{Seq: f.Seq, Time: f.Time}
	found := false
	for s, err := range l.scan(ctx, l.stateSubject(id), 1, f.Seq) {
		if err != nil {
			return last, err
		}
		if old, err := sessionFact(id, s); err == nil {
			last.Value, found = old.Value, true
		}
	}
	if !found {
		return last, fmt.Errorf("%w: %w: %w", ErrNotFound, ErrUnreadable, err)
	}
	return last, nil
}

// Sessions yields the last record of every session: those in SESSIONS, through one
// consumer, and then what EVENTS has that had not come there. The copy takes moments,
// and a replica that was cut off may be behind by more. A session may come twice, the
// newer record later, so those that were destroyed are to be minded too. Seq is the
// record's sequence in EVENTS. What cannot be a record is passed over as in Session.
func (l *Log) Sessions(ctx context.Context) iter.Seq2[Fact[session.Record], error] {
	return func(yield func(Fact[session.Record], error) bool) {
		on, copied := true, uint64(0)
		give := func(s stored) bool {
			copied = max(copied, origin(s))
			f, err := l.record(ctx, l.sessionIn(s.Subject), s)
			if errors.Is(err, ErrNotFound) {
				return true // nothing of it can be read
			}
			on = yield(f, err) && err == nil
			return on
		}
		newest, err := l.newestState(ctx)
		if err == nil {
			err = l.readStates(ctx, give)
		}
		if err == nil && on {
			for s, scanErr := range l.scan(ctx, l.stateSubject("*"), copied+1, newest) {
				if err = scanErr; err != nil || !give(s) {
					break
				}
			}
		}
		if err != nil && on {
			yield(Fact[session.Record]{}, fmt.Errorf("sessions: %w", err))
		}
	}
}

// newestState is the sequence of the newest session.state event, 0 if there is none.
func (l *Log) newestState(ctx context.Context) (uint64, error) {
	s, err := l.leader(ctx, l.stream, request{LastFor: l.stateSubject("*")})
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return s.Seq, err
}

// sessionIn is the session of a state's subject.
func (l *Log) sessionIn(subject string) string {
	rest, _ := l.ns.Trim(subject)
	id, _, _ := strings.Cut(strings.TrimPrefix(rest, "event."), ".")
	return id
}

// statesAhead is how many states are on their way while others are dealt with.
const statesAhead = 5000

// readStates gives do the last message on every session's subject, and what is stored
// while it reads.
func (l *Log) readStates(ctx context.Context, do func(stored) bool) error {
	return l.readAll(ctx, l.states, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{l.stateSubject("*")},
		DeliverPolicy:  jetstream.DeliverLastPerSubjectPolicy,
	}, do)
}

// readAll gives do what a stream holds, through one ordered consumer, until do has
// enough.
func (l *Log) readAll(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig, do func(stored) bool) error {
	js, err := jetstream.New(l.nc)
	if err != nil {
		return err
	}
	cfg.InactiveThreshold = time.Minute // of one that could not be dropped
	cons, err := js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", stream, err)
	}
	defer func() { l.drop(ctx, js, stream, cons) }()
	if cons.CachedInfo().NumPending == 0 {
		return nil // a reader would wait for the first one
	}
	msgs, err := cons.Messages(jetstream.PullMaxMessages(statesAhead))
	if err != nil {
		return fmt.Errorf("read stream %s: %w", stream, err)
	}
	defer msgs.Stop()
	for {
		m, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("read stream %s: %w", stream, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read stream %s: %w", stream, err)
		}
		s := stored{Subject: m.Subject(), Seq: meta.Sequence.Stream, Time: meta.Timestamp, Header: m.Headers(), Data: m.Data()}
		if !do(s) || meta.NumPending == 0 {
			return nil
		}
	}
}

// drop takes a consumer away that has served: a stream takes a thousand, so that who
// reads often would find no place for the next.
func (l *Log) drop(ctx context.Context, js jetstream.JetStream, stream string, cons jetstream.Consumer) {
	if info := cons.CachedInfo(); info != nil && ctx.Err() == nil {
		_ = js.DeleteConsumer(ctx, stream, info.Name) // else it goes by itself
	}
}

// WatchSession waits until the session has a record newer than the sequence after,
// and returns it.
func (l *Log) WatchSession(ctx context.Context, id string, after uint64) (session.Record, uint64, error) {
	if err := wire.CheckID("session", id); err != nil {
		return session.Record{}, 0, err
	}
	h := newHints()
	sub, err := l.nc.Subscribe(l.stateSubject(id), func(m *nats.Msg) { h.add(m.Header.Get(headerMsgID)) })
	if err != nil {
		return session.Record{}, 0, fmt.Errorf("watch session %s: %w", id, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	for look, try := firstLook, 0; ; {
		rec, seq, err := l.Session(ctx, id)
		if err == nil && seq > after || err != nil && !errors.Is(err, ErrNotFound) {
			return rec, seq, err
		}
		if h.pending() {
			err, try = backoff(ctx, try), try+1
		} else {
			err, try = h.wait(ctx, look), 0
			look = min(2*look, lastLook)
		}
		if err != nil {
			return session.Record{}, 0, fmt.Errorf("watch session %s: %w", id, err)
		}
	}
}

// wait waits for a message to pass by, or for d.
func (h *hints) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-h.wake:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// sessionFact reads a message as the session's record. The sequence and the time
// are given also if it is none.
func sessionFact(id string, s stored) (Fact[session.Record], error) {
	f := Fact[session.Record]{Seq: origin(s), Time: s.Time}
	var r session.Record
	switch err := json.Unmarshal(s.Data, &r); {
	case err != nil:
		return f, fmt.Errorf("session record %d: %w", f.Seq, err)
	case r.Session != id:
		return f, fmt.Errorf("session record %d: it is of session %q", f.Seq, r.Session)
	case !slices.Contains(session.States(), r.State):
		return f, fmt.Errorf("session record %d: there is no state %q", f.Seq, r.State)
	}
	f.Value = r
	return f, nil
}

// origin is the sequence in EVENTS of a message that the server may have copied to
// SESSIONS. The copy says in a header where it is from: "<stream> <sequence> …".
func origin(s stored) uint64 {
	if src := strings.Fields(s.Header.Get("Nats-Stream-Source")); len(src) > 1 {
		if n, err := strconv.ParseUint(src[1], 10, 64); err == nil {
			return n
		}
	}
	return s.Seq
}
