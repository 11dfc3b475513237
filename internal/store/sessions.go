package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sandjet/sandjet/internal/session"
)

var sessionPutScript = newScript("session_put")

// PutSession stores a record, unless the view has one of the same or a newer
// stream sequence. A destroyed session leaves the view after a while
// (one hour). Deadlines and slots are not touched.
func (s *Store) PutSession(ctx context.Context, rec session.Record, seq uint64) error {
	put, err := s.putSession(ctx, rec, seq)
	if err != nil {
		return err
	}
	return wrap("put session "+rec.Session, s.flush.do1(ctx, put))
}

// putSession is the command of PutSession. It is done if the record stands then.
func (s *Store) putSession(ctx context.Context, rec session.Record, seq uint64) (command, error) {
	body, err := encodeRecord(rec)
	if err != nil {
		return command{}, fmt.Errorf("put session %s: %w", rec.Session, err)
	}
	ttl := "0"
	if rec.State == session.Destroyed {
		ttl = ms(s.opts.forget)
	}
	return sessionPutScript.eval(ctx, 1, s.keys.record(rec.Session), strconv.FormatUint(seq, 10), string(body), ttl), nil
}

// Session returns a session's record and its stream sequence, or ErrNotFound.
func (s *Store) Session(ctx context.Context, id string) (session.Record, uint64, error) {
	cmd := plain(ctx, "get", s.keys.record(id))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return session.Record{}, 0, wrap("read session "+id, err)
	}
	if errors.Is(cmd.Err(), redis.Nil) {
		return session.Record{}, 0, fmt.Errorf("read session %s: %w", id, ErrNotFound)
	}
	return decodeRecord(id, text(cmd.Val()))
}

// DropSession takes a session's record and deadlines out of the view. Entries
// of its jobs and its slot stay: they end by themselves.
func (s *Store) DropSession(ctx context.Context, id string) error {
	return wrap("drop session "+id, s.flush.do(ctx,
		plain(ctx, "del", s.keys.record(id), s.keys.session(id).idle),
		plain(ctx, "zrem", s.keys.due(Idle), id),
		plain(ctx, "zrem", s.keys.due(Stale), id),
		plain(ctx, "zrem", s.keys.due(Watch), id),
		plain(ctx, "zrem", s.keys.due(Transition), id),
	))
}
