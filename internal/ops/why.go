package ops

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
)

// maxSays bounds one sentence of the chain, in bytes.
const maxSays = 4096

func (s *Service) why(ctx context.Context, who asker, req query.JobRequest) (query.JobWhyReply, error) {
	h, err := s.locate(ctx, who, req)
	if err != nil {
		return query.JobWhyReply{}, err
	}
	if h.Last == 0 {
		return query.JobWhyReply{}, unseen(req)
	}
	out := query.JobWhyReply{Session: h.Job.Session, Job: h.Job.ID, Chain: []query.WhyLink{}}
	var last events.Kind
	for e, err := range s.Facts.Chain(ctx, h.Job) {
		if err != nil {
			return out, err
		}
		l := link(e)
		out.Chain = append(out.Chain, l)
		// A cancel may come after the end: the end is still what counts.
		if !e.Kind.Output() && !last.Terminal() {
			last, out.Summary = e.Kind, l.Says
		}
	}
	s.shorten(&out)
	return out, nil
}

func link(e events.Event) query.WhyLink {
	l := query.WhyLink{Seq: e.Seq, Time: e.Time, Kind: string(e.Kind), Says: clip(events.Says(e), maxSays)}
	if data := bytes.TrimSpace(e.Data); bytes.HasPrefix(data, []byte("{")) && json.Valid(data) {
		l.Data = data
	}
	return l
}

// shorten makes a chain fit into one message: first without the payloads, then
// without what lies in its middle.
func (s *Service) shorten(out *query.JobWhyReply) {
	if s.fitting(out) {
		return
	}
	for i := range out.Chain {
		out.Chain[i].Data = nil
	}
	for n := len(out.Chain); n > 2 && !s.fitting(out); n = len(out.Chain) {
		out.Chain = append(out.Chain[:n/4:n/4], out.Chain[n/2:]...)
	}
}
