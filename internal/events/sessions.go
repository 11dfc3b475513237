package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
// leader. ErrNotFound: there is no such session, or it was destroyed long ago.
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
	f, err := sessionFact(s)
	return f.Value, f.Seq, err
}

// Sessions yields the last record of every session, from SESSIONS, which follows
// EVENTS within moments. A session that changes meanwhile may come twice, the newer
// record later. Seq is the record's sequence in EVENTS.
func (l *Log) Sessions(ctx context.Context) iter.Seq2[Fact[session.Record], error] {
	return func(yield func(Fact[session.Record], error) bool) {
		for next := uint64(1); ; {
			msgs, err := l.get.fetch(ctx, l.states, request{Seq: next, Batch: followBatch, MaxBytes: followBytes})
			if err != nil {
				yield(Fact[session.Record]{}, fmt.Errorf("sessions: %w", err))
				return
			}
			if len(msgs) == 0 {
				return
			}
			for _, m := range msgs {
				f, err := sessionFact(m)
				if !yield(f, err) || err != nil {
					return
				}
				next = m.Seq + 1
			}
		}
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

func sessionFact(s stored) (Fact[session.Record], error) {
	f := Fact[session.Record]{Seq: origin(s), Time: s.Time}
	if err := json.Unmarshal(s.Data, &f.Value); err != nil {
		return f, fmt.Errorf("session record %d: %w", s.Seq, err)
	}
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
