package events

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
)

// Sum reads the stored output of a job again and returns the SHA-256 state after
// its first upTo bytes, for an Output that goes on from there. It fails with a
// *GapError if some of them have left the stream.
func (l *Log) Sum(ctx context.Context, j Job, kind Kind, upTo int64) (hash.Hash, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	if !kind.Output() {
		return nil, fmt.Errorf("sum of job %s: %s is not an output", j, kind)
	}
	h := sha256.New()
	if upTo == 0 {
		return h, nil
	}
	subject := l.subject(j, kind)
	last, err := l.leader(ctx, l.stream, request{LastFor: subject})
	if errors.Is(err, ErrNotFound) {
		return nil, &GapError{Job: j, Kind: kind, To: upTo}
	}
	if err != nil {
		return nil, fmt.Errorf("sum of job %s: %w", j, err)
	}
	var next int64
	for m, err := range l.scan(ctx, subject, 1, last.Seq) {
		if err != nil {
			return nil, fmt.Errorf("sum of job %s: %w", j, err)
		}
		e, err := l.event(m)
		if err != nil {
			continue // somebody else's
		}
		if e.Offset > next {
			return nil, &GapError{Job: j, Kind: kind, From: next, To: e.Offset}
		}
		if end := min(e.End(), upTo); end > next {
			h.Write(e.Data[next-e.Offset : end-e.Offset])
			next = end
		}
		if next == upTo {
			return h, nil
		}
	}
	return nil, &GapError{Job: j, Kind: kind, From: next, To: upTo}
}
