package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// locate finds a job's history. Without a session it is the one the view knows,
// or the job's own. To who is not its owner a job has no history.
func (s *Service) locate(ctx context.Context, who asker, req query.JobRequest) (events.History, error) {
	key := events.Job{Session: req.Session, ID: req.Job}
	var lost error
	if key.Session == "" {
		key.Session, lost = s.sessionOf(ctx, who, req)
		var e *query.Error
		if errors.As(lost, &e) {
			return events.History{}, lost
		}
	}
	h, err := s.Facts.History(ctx, key)
	if err != nil {
		return h, err
	}
	if req.Owner != "" && (!h.Accepted.OK() || h.Accepted.Value.Owner != req.Owner) || !who.may(Proven(s.Namespace, h)) {
		h = events.History{Job: key}
	}
	if h.Last == 0 && lost != nil {
		return h, fmt.Errorf("which session job %s is of is not known: name it: %w", req.Job, lost)
	}
	return h, nil
}

// sessionOf returns the session that the view knows the job in, else the job's
// own. If the view does not answer, that is only a guess, and err says why. What
// is a stranger's does not make a name ambiguous.
func (s *Service) sessionOf(ctx context.Context, who asker, req query.JobRequest) (string, error) {
	found, err := s.View.FindJob(ctx, req.Job)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return req.Job, err
	}
	var names []string
	for _, v := range found {
		if (req.Owner == "" || v.Owner == req.Owner) && who.mayView(v) {
			names = append(names, v.Session)
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return req.Job, nil
	case 1:
		return names[0], nil
	}
	return "", &query.Error{Code: query.CodeConflict, Description: fmt.Sprintf(
		"%d sessions have a job %s: name one of %s", len(names), req.Job, strings.Join(names[:min(len(names), 20)], ", "))}
}

// unseen is the answer about a job without a history.
func unseen(req query.JobRequest) error {
	hint := "one that no worker has taken up yet has no events"
	if req.Session == "" {
		hint += ", and one of which no worker has spoken for a day is found by its session alone"
	}
	return notFound("job %s is not found; %s", req.Job, hint)
}

func (s *Service) job(ctx context.Context, who asker, req query.JobRequest) (query.Job, error) {
	h, err := s.locate(ctx, who, req)
	if err != nil {
		return query.Job{}, err
	}
	if h.Last == 0 {
		return query.Job{}, unseen(req)
	}
	return JobOf(h), nil
}

// Proven is the owner whom the subject of a job proves, or "". The claim says so: of two
// publications with one id the other one may be accepted. One of an older worker does not
// say it; then its word is the accepted event's, if that is of the same publication.
func Proven(ns wire.Namespace, h events.History) string {
	claim, accepted := h.Claimed.Value, h.Accepted.Value
	if claim.Owner != "" || h.Claimed.OK() && claim.Origin != accepted.StreamSeq {
		return claim.Owner
	}
	if addr, _, err := jobs.ParseSubject(ns, accepted.Subject); err == nil {
		return addr.Owner
	}
	return ""
}

// JobOf reads a job's state off its history.
func JobOf(h events.History) query.Job {
	j := query.Job{Session: h.Job.Session, Job: h.Job.ID, State: string(h.Terminal), AcceptedAt: h.Accepted.Time}
	if h.Accepted.OK() {
		a := h.Accepted.Value
		j.Kind, j.Owner, j.Labels = a.Kind, a.Owner, a.Labels
	}
	if h.Claimed.OK() {
		j.Worker, j.Attempt = h.Claimed.Value.Worker, h.Claimed.Value.Attempt
		j.Owner = cmp.Or(h.Claimed.Value.Owner, j.Owner)
	}
	if h.Ended() {
		j.UpdatedAt = h.Outcome.Time
		j.Class = h.Outcome.Value.Class
		j.Outcome, _ = json.Marshal(h.Outcome.Value)
		return j
	}
	newest := uint64(0)
	for _, f := range []struct {
		kind events.Kind
		seq  uint64
		at   time.Time
	}{
		{events.KindAccepted, h.Accepted.Seq, h.Accepted.Time},
		{events.KindClaimed, h.Claimed.Seq, h.Claimed.Time},
		{events.KindWaiting, h.Waiting.Seq, h.Waiting.Time},
		{events.KindStarted, h.Started.Seq, h.Started.Time},
		{events.KindReattached, h.Reattached.Seq, h.Reattached.Time},
		{events.KindRetrying, h.Retrying.Seq, h.Retrying.Time},
		{events.KindInterrupted, h.Interrupted.Seq, h.Interrupted.Time},
		{events.KindCancelRequested, h.Cancel.Seq, h.Cancel.Time},
	} {
		if f.seq > newest {
			newest, j.State, j.UpdatedAt = f.seq, string(f.kind), f.at
		}
	}
	if j.State == string(events.KindWaiting) {
		j.Waiting = h.Waiting.Value.Why
	}
	return j
}

// jobs lists what Redis knows: the newest jobs, of about a day. api.job.get with a
// session asks the stream, which has them all.
func (s *Service) jobs(ctx context.Context, who asker, req query.JobListRequest) (query.JobListReply, error) {
	f := store.JobFilter{State: req.State, Kind: req.Kind, Session: req.Session, Owner: req.Owner, Proven: string(who), Class: req.Class}
	return page(s, req.Limit, func(limit int) (query.JobListReply, error) {
		found, next, err := s.View.Jobs(ctx, f, req.Cursor, limit)
		out := query.JobListReply{Jobs: []query.Job{}, Next: next}
		for _, v := range found {
			out.Jobs = append(out.Jobs, query.Job{
				Session: v.Session, Job: v.Job, Kind: v.Kind, State: v.State, Owner: v.Owner, Labels: v.Labels,
				Worker: v.Worker, Attempt: v.Attempt, Waiting: v.Waiting, AcceptedAt: v.AcceptedAt, UpdatedAt: v.UpdatedAt,
				Class: v.Class, Outcome: v.Outcome,
			})
		}
		return out, err
	})
}

// cancel writes the wish down. It works for a job that nobody has taken up yet
// too, if its session is named: the wish is there when somebody does. An owner
// may wish so in a session of theirs.
func (s *Service) cancel(ctx context.Context, who asker, req query.JobCancelRequest) (query.JobCancelReply, error) {
	h, err := s.locate(ctx, who, req.JobRequest)
	if err != nil {
		return query.JobCancelReply{}, err
	}
	out := query.JobCancelReply{Session: h.Job.Session, Job: h.Job.ID, State: "requested"}
	if h.Ended() {
		out.State = string(h.Terminal)
		return out, nil
	}
	if h.Last == 0 {
		if err := s.mayForestall(ctx, who, req.JobRequest); err != nil {
			return query.JobCancelReply{}, err
		}
	}
	return out, s.Facts.Cancel(ctx, h.Job, events.CancelRequested{Reason: req.Reason, By: cmp.Or(string(who), req.Owner)})
}

// mayForestall reports whether a job may be cancelled that has no history, or
// none that the asker may know of.
func (s *Service) mayForestall(ctx context.Context, who asker, req query.JobRequest) error {
	refusal := notFound("job %s is not found; to cancel one that no worker has taken up yet, name its session", req.Job)
	if req.Session == "" {
		return refusal
	}
	if who == operator && req.Owner == "" {
		return nil
	}
	h, err := s.Facts.History(ctx, events.Job{Session: req.Session, ID: req.Job})
	if err != nil {
		return err
	}
	rec, _, err := s.Facts.Session(ctx, req.Session)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return err
	}
	if h.Accepted.OK() || req.Owner != "" && rec.Owner != req.Owner || !who.maySession(rec) {
		return refusal
	}
	return nil
}
