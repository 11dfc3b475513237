package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

// session answers from the stream: the truth, also while Redis is away.
func (s *Service) session(ctx context.Context, req query.SessionRequest) (session.Record, error) {
	rec, _, err := s.Facts.Session(ctx, req.Session)
	if errors.Is(err, events.ErrNotFound) || err == nil && req.Owner != "" && rec.Owner != req.Owner {
		return session.Record{}, notFound("session %s is not found", req.Session)
	}
	return rec, err
}

func (s *Service) sessions(ctx context.Context, req query.SessionListRequest) (query.SessionListReply, error) {
	f := store.Filter{State: session.State(req.State), Owner: req.Owner, Template: req.Template, Label: req.Label}
	page, next, err := s.View.Sessions(ctx, f, req.Cursor, orDefault(req.Limit, 100))
	if err != nil {
		return query.SessionListReply{}, err
	}
	if page == nil {
		page = []session.Record{}
	}
	return query.SessionListReply{Sessions: page, Next: next}, nil
}

func (s *Service) status(ctx context.Context, req query.SessionRequest) (query.SessionStatusReply, error) {
	rec, err := s.session(ctx, req)
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
	if out.Sandbox, err = s.Sandbox(ctx, rec.SandboxID); err != nil {
		out.Sandbox, out.SandboxError = nil, err.Error()
	}
	return out, nil
}

// statsScan bounds how many sessions stats counts.
const statsScan = 20_000

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
	out.Slots = query.Slots{Used: len(slots), Limit: s.SlotLimit}
	cursor := ""
	for seen := 0; seen < statsScan; {
		page, next, err := s.View.Sessions(ctx, store.Filter{}, cursor, 1000)
		if err != nil {
			return out, err
		}
		for _, r := range page {
			out.Sessions[string(r.State)]++
		}
		if seen += len(page); next == "" {
			break
		}
		cursor = next
	}
	return out, nil
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}
