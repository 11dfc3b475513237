package ops

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/store"
)

func (s *Service) deadList(ctx context.Context, who asker, req query.DeadListRequest) (query.DeadListReply, error) {
	if n, err := strconv.ParseUint(req.Cursor, 10, 64); req.Cursor != "" && (err != nil || n == 0) {
		return query.DeadListReply{}, store.ErrCursor
	}
	return page(s, req.Limit, func(limit int) (query.DeadListReply, error) {
		found, err := s.Queue.DeadList(ctx, jobs.DeadFilter{
			Kind: jobs.Kind(req.Kind), Class: jobs.Class(req.Class), Proven: string(who), Limit: limit, Cursor: req.Cursor,
		})
		out := query.DeadListReply{Letters: []query.DeadLetter{}, Next: found.Next}
		for _, l := range found.Letters {
			out.Letters = append(out.Letters, letter(l))
		}
		return out, err
	})
}

func letter(l jobs.Letter) query.DeadLetter {
	return query.DeadLetter{
		Seq: l.Seq, Time: l.Time, Kind: string(l.Kind), Job: l.Job, Session: l.Session, Subject: l.Subject,
		Reason: l.Reason, Class: string(l.Class), Attempts: l.Attempts, Body: string(l.Body),
	}
}

// letterOf reads a letter that the asker may know of. All else is not there, whatever
// was to be done with it.
func (s *Service) letterOf(ctx context.Context, who asker, seq uint64) (jobs.Letter, error) {
	l, err := s.Queue.DeadGet(ctx, seq)
	if err == nil && !who.may(l.Proven) {
		err = fmt.Errorf("dead letter %d: %w", seq, jobs.ErrNoLetter)
	}
	return l, err
}

func (s *Service) deadGet(ctx context.Context, who asker, req query.DeadRequest) (query.DeadLetter, error) {
	l, err := s.letterOf(ctx, who, req.Seq)
	if err != nil {
		return query.DeadLetter{}, err
	}
	out := letter(l)
	if !s.fitting(out) {
		return query.DeadLetter{}, &query.Error{Code: query.CodeConflict, Description: fmt.Sprintf(
			"the body of dead letter %d, %d bytes, does not fit into an answer: read it with nats stream get %s %d",
			l.Seq, l.Size, s.Namespace.Stream(jobs.StreamDead), l.Seq)}
	}
	return out, nil
}

func (s *Service) deadReplay(ctx context.Context, who asker, req query.DeadRequest) (query.DeadReplayReply, error) {
	if _, err := s.letterOf(ctx, who, req.Seq); err != nil {
		return query.DeadReplayReply{}, err
	}
	p, err := s.Queue.DeadReplay(ctx, req.Seq)
	if err != nil {
		return query.DeadReplayReply{}, err
	}
	return query.DeadReplayReply{Subject: p.Subject, StreamSeq: p.StreamSeq, Job: p.Job}, nil
}

func (s *Service) deadDiscard(ctx context.Context, who asker, req query.DeadRequest) (query.DeadDiscardReply, error) {
	if _, err := s.letterOf(ctx, who, req.Seq); err != nil {
		return query.DeadDiscardReply{}, err
	}
	return query.DeadDiscardReply(req), s.Queue.DeadDiscard(ctx, req.Seq)
}
