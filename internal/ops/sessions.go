package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

const (
	// viewLimit bounds what an answer may wait for Redis when it can do without.
	viewLimit = time.Second
	// sandboxLimit bounds the question to E2B inside an answer: who asked waits
	// for ten seconds and shall see the rest.
	sandboxLimit = 5 * time.Second
	// statsScan bounds how many sessions stats counts.
	statsScan = 20_000
)

// session answers from the stream: the truth, also while Redis is away.
func (s *Service) session(ctx context.Context, who asker, req query.SessionRequest) (session.Record, error) {
	rec, _, err := s.Facts.Session(ctx, req.Session)
	if errors.Is(err, events.ErrNotFound) || err == nil && (req.Owner != "" && rec.Owner != req.Owner || !who.maySession(rec)) {
		return session.Record{}, notFound("session %s is not found", req.Session)
	}
	if err != nil {
		return session.Record{}, err
	}
	return s.live(ctx, rec), nil
}

// live fills in the idle deadline, which every job moves in Redis alone. The
// record has the one of when the session became active; without Redis that one
// has to do.
func (s *Service) live(ctx context.Context, rec session.Record) session.Record {
	if rec.State != session.Active {
		return rec
	}
	ctx, cancel := context.WithTimeout(ctx, viewLimit)
	defer cancel()
	if at, err := s.View.DeadlineOf(ctx, store.Idle, rec.Session); err == nil {
		rec.IdleAt = at
	}
	return rec
}

// sessions lists what Redis knows. After a loss of Redis that is not all until
// a worker has filled it again from the stream.
func (s *Service) sessions(ctx context.Context, who asker, req query.SessionListRequest) (query.SessionListReply, error) {
	f := store.Filter{State: session.State(req.State), Owner: req.Owner, Proven: string(who), Template: req.Template, Label: req.Label}
	return page(s, req.Limit, func(limit int) (query.SessionListReply, error) {
		found, next, err := s.View.Sessions(ctx, f, req.Cursor, limit)
		if found == nil {
			found = []session.Record{}
		}
		return query.SessionListReply{Sessions: found, Next: next}, err
	})
}

func (s *Service) status(ctx context.Context, who asker, req query.SessionRequest) (query.SessionStatusReply, error) {
	rec, err := s.session(ctx, who, req)
	if err != nil {
		return query.SessionStatusReply{}, err
	}
	out := query.SessionStatusReply{Session: rec}
	running, queued, err := s.View.Busy(ctx, req.Session)
	if err != nil {
		return out, err
	}
	out.Running, out.Queued = len(running), queued
	if rec.SandboxID == "" || rec.State == session.Destroyed {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sandboxLimit)
	defer cancel()
	if out.Sandbox, err = s.Sandbox(ctx, rec.SandboxID); err != nil {
		out.Sandbox, out.SandboxError = nil, clip(err.Error(), maxDescription)
	}
	return out, nil
}

func (s *Service) stats(ctx context.Context, _ struct{}) (query.StatsReply, error) {
	out := query.StatsReply{Worker: s.Worker, Version: s.Version, Sessions: map[string]int{}}
	depth, err := s.Queue.Depth(ctx)
	if err != nil {
		return out, fmt.Errorf("queue: %w", err)
	}
	out.Queued, out.Running, out.Waiting, out.Dead = depth.Queued, depth.Pending, depth.Waiting, depth.Dead
	stream, err := s.JS.Stream(ctx, s.Namespace.Stream(events.StreamEvents))
	if err != nil {
		return out, fmt.Errorf("events: %w", err)
	}
	out.Events = stream.CachedInfo().State.Msgs
	slots, err := s.View.Slots(ctx)
	if err != nil {
		return out, err
	}
	out.Slots = query.Slots{Used: len(slots.Slots) + slots.Granted, Limit: s.SlotLimit, Waiting: slots.Waiting}
	if slots.Allowed >= 0 {
		out.Slots.Allowed = &slots.Allowed
	}
	if s.Breakers != nil {
		out.Breakers = s.Breakers()
	}
	return out, s.count(ctx, out.Sessions)
}

// count counts sessions by state.
func (s *Service) count(ctx context.Context, by map[string]int) error {
	cursor := ""
	for seen := 0; seen < statsScan; {
		found, next, err := s.View.Sessions(ctx, store.Filter{}, cursor, 1000)
		if err != nil {
			return err
		}
		for _, r := range found {
			by[string(r.State)]++
		}
		if seen += len(found); next == "" {
			break
		}
		cursor = next
	}
	return nil
}
