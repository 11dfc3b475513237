package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/store"
)

// locate finds a job's history. Without a session it is the one the view knows,
// or the job's own.
func (s *Service) locate(ctx context.Context, req query.JobRequest) (events.History, error) {
	key := events.Job{Session: req.Session, ID: req.Job}
	if key.Session == "" {
		found, err := s.View.FindJob(ctx, req.Job)
		switch {
		case err == nil && len(found) == 1:
			key.Session = found[0].Session
		case err == nil && len(found) > 1:
			return events.History{}, &query.Error{Code: query.CodeConflict, Description: fmt.Sprintf(
				"%d sessions have a job %s: name one of %s", len(found), req.Job, strings.Join(sessionsOf(found), ", "))}
		default:
			key.Session = req.Job
		}
	}
	h, err := s.Facts.History(ctx, key)
	if err != nil {
		return h, err
	}
	if req.Owner != "" && (!h.Accepted.OK() || h.Accepted.Value.Owner != req.Owner) {
		return events.History{Job: key}, nil
	}
	return h, nil
}

func sessionsOf(found []store.JobView) []string {
	var out []string
	for _, v := range found {
		out = append(out, v.Session)
	}
	return out
}

func (s *Service) job(ctx context.Context, req query.JobRequest) (query.Job, error) {
	h, err := s.locate(ctx, req)
	if err != nil {
		return query.Job{}, err
	}
	if h.Last == 0 {
		return query.Job{}, notFound("job %s is not found; one that no worker has taken up yet has no events", req.Job)
	}
	return jobOf(h), nil
}

// jobOf reads a job's state off its history.
func jobOf(h events.History) query.Job {
	j := query.Job{Session: h.Job.Session, Job: h.Job.ID, State: string(h.Terminal), AcceptedAt: h.Accepted.Time}
	if h.Accepted.OK() {
		a := h.Accepted.Value
		j.Kind, j.Owner, j.Labels = a.Kind, a.Owner, a.Labels
	}
	if h.Claimed.OK() {
		j.Worker, j.Attempt = h.Claimed.Value.Worker, h.Claimed.Value.Attempt
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

func (s *Service) jobs(ctx context.Context, req query.JobListRequest) (query.JobListReply, error) {
	f := store.JobFilter{State: req.State, Kind: req.Kind, Session: req.Session, Owner: req.Owner, Class: req.Class}
	page, next, err := s.View.Jobs(ctx, f, req.Cursor, orDefault(req.Limit, 100))
	if err != nil {
		return query.JobListReply{}, err
	}
	out := query.JobListReply{Jobs: []query.Job{}, Next: next}
	for _, v := range page {
		out.Jobs = append(out.Jobs, query.Job{
			Session: v.Session, Job: v.Job, Kind: v.Kind, State: v.State, Owner: v.Owner, Labels: v.Labels,
			Worker: v.Worker, Attempt: v.Attempt, Waiting: v.Waiting, AcceptedAt: v.AcceptedAt, UpdatedAt: v.UpdatedAt,
			Class: v.Class, Outcome: v.Outcome,
		})
	}
	return out, nil
}

// cancel writes the wish down. It works for a job that nobody has taken up yet
// too, if its session is named: the wish is there when somebody does.
func (s *Service) cancel(ctx context.Context, req query.JobCancelRequest) (query.JobCancelReply, error) {
	h, err := s.locate(ctx, req.JobRequest)
	if err != nil {
		return query.JobCancelReply{}, err
	}
	out := query.JobCancelReply{Session: h.Job.Session, Job: h.Job.ID, State: "requested"}
	if h.Ended() {
		out.State = string(h.Terminal)
		return out, nil
	}
	if h.Last == 0 && (req.Session == "" || req.Owner != "") {
		return out, notFound("job %s is not found; to cancel one that no worker has taken up yet, name its session", req.Job)
	}
	by := req.Owner
	return out, s.Facts.Cancel(ctx, h.Job, events.CancelRequested{Reason: req.Reason, By: by})
}

func (s *Service) why(ctx context.Context, req query.JobRequest) (query.JobWhyReply, error) {
	h, err := s.locate(ctx, req)
	if err != nil {
		return query.JobWhyReply{}, err
	}
	if h.Last == 0 {
		return query.JobWhyReply{}, notFound("job %s is not found; one that no worker has taken up yet has no events", req.Job)
	}
	out := query.JobWhyReply{Session: h.Job.Session, Job: h.Job.ID, Chain: []query.WhyLink{}}
	for e, err := range s.Facts.Chain(ctx, h.Job) {
		if errors.Is(err, events.ErrNotFound) {
			break
		}
		if err != nil {
			return out, err
		}
		link := query.WhyLink{Seq: e.Seq, Time: e.Time, Kind: string(e.Kind), Says: events.Says(e)}
		if !e.Kind.Output() && json.Valid(e.Data) {
			link.Data = e.Data
		}
		out.Chain = append(out.Chain, link)
		if !e.Kind.Output() {
			out.Summary = link.Says
		}
	}
	return out, nil
}
