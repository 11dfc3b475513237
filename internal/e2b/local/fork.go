package local

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const maxForks = 100

// forkResult is what became of one of the copies that were asked for.
type forkResult struct {
	Sandbox any `json:"sandbox,omitempty"`
	Error   any `json:"error,omitempty"`
}

// fork answers POST /sandboxes/{id}/fork: copies of a running sandbox, with its
// files and settings and ids of their own. Each succeeds or fails alone.
func (s *Server) fork(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	q := struct {
		Timeout *int `json:"timeout"`
		Count   *int `json:"count"`
	}{}
	if err := decode(r, &q); err != nil {
		return err
	}
	life, count := timeoutV1, 1
	if q.Timeout != nil {
		life = seconds(*q.Timeout)
	}
	if q.Count != nil {
		count = *q.Count
	}
	if err := s.checkFork(life, count); err != nil {
		return err
	}
	snap, err := s.snapshotOf(r.Context(), sb, "", "forked")
	if err != nil {
		return err
	}
	defer func() { _ = snap.remove() }()
	writeJSON(w, http.StatusCreated, s.forkAll(r.Context(), sb.snapshot(), snap, life, count))
	return nil
}

func (s *Server) checkFork(life time.Duration, count int) error {
	switch {
	case count < 1:
		return failf(http.StatusBadRequest, "Count must be at least 1")
	case count > maxForks:
		return failf(http.StatusBadRequest, "Count cannot be greater than %d", maxForks)
	case s.cfg.MaxRunning > 0 && count >= s.cfg.MaxRunning: // the origin holds one place
		return failf(http.StatusBadRequest, "Count must be lower than the maximum number of concurrent sandboxes (%d)", s.cfg.MaxRunning)
	}
	return s.checkLife(life)
}

func (s *Server) forkAll(ctx context.Context, origin record, snap *snapshot, life time.Duration, count int) []forkResult {
	results := make([]forkResult, count)
	var forks sync.WaitGroup
	for i := range results {
		forks.Go(func() {
			rec := origin.fork(life)
			sb, err := s.begin(ctx, rec, snap)
			if err != nil {
				results[i].Error = errorBody(asAPIError(err))
				return
			}
			sb.boot(ctx)
			results[i].Sandbox = answer(sb.snapshot())
		})
	}
	forks.Wait()
	return results
}

// fork is the record of a copy: another id, tokens and time, the rest the same.
func (r record) fork(life time.Duration) record {
	now := time.Now()
	r.ID, r.CreatedAt, r.StartedAt, r.EndAt, r.Timeout = newID(), now, now, now.Add(life), life
	if r.Token != "" {
		r.Token = newToken()
	}
	if r.TrafficToken != "" {
		r.TrafficToken = randomHex(16)
	}
	return r
}
