package ops

import (
	"context"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
)

func (s *Service) deadList(ctx context.Context, req query.DeadListRequest) (query.DeadListReply, error) {
	page, err := s.Queue.DeadList(ctx, jobs.DeadFilter{
		Kind: jobs.Kind(req.Kind), Class: jobs.Class(req.Class), Limit: req.Limit, Cursor: req.Cursor,
	})
	if err != nil {
		return query.DeadListReply{}, err
	}
	out := query.DeadListReply{Letters: []query.DeadLetter{}, Next: page.Next}
	for _, l := range page.Letters {
		out.Letters = append(out.Letters, letter(l))
	}
	return out, nil
}

func letter(l jobs.Letter) query.DeadLetter {
	return query.DeadLetter{
		Seq: l.Seq, Time: l.Time, Kind: string(l.Kind), Job: l.Job, Session: l.Session, Subject: l.Subject,
		Reason: l.Reason, Class: string(l.Class), Attempts: l.Attempts, Body: string(l.Body),
	}
}

func (s *Service) deadGet(ctx context.Context, req query.DeadRequest) (query.DeadLetter, error) {
	l, err := s.Queue.DeadGet(ctx, req.Seq)
	if err != nil {
		return query.DeadLetter{}, err
	}
	return letter(l), nil
}

func (s *Service) deadReplay(ctx context.Context, req query.DeadRequest) (query.DeadReplayReply, error) {
	p, err := s.Queue.DeadReplay(ctx, req.Seq)
	if err != nil {
		return query.DeadReplayReply{}, err
	}
	return query.DeadReplayReply{Subject: p.Subject, StreamSeq: p.StreamSeq, Job: p.Job}, nil
}

func (s *Service) deadDiscard(ctx context.Context, req query.DeadRequest) (query.DeadDiscardReply, error) {
	return query.DeadDiscardReply(req), s.Queue.DeadDiscard(ctx, req.Seq)
}
