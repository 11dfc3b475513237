package ops

import (
	"context"

	"github.com/sandjet/sandjet/internal/query"
)

// reconcile has the worker do it. What the report says last, the sandboxes that
// nobody looks for, is left out as far as it does not fit into one message.
func (s *Service) reconcile(ctx context.Context, req query.ReconcileRequest) (query.ReconcileReply, error) {
	out, err := s.Reconciler(ctx, req)
	if err != nil {
		return out, err
	}
	for !s.fitting(out) && len(out.Sandboxes)+len(out.Sessions) > 0 {
		boxes, sessions := len(out.Sandboxes)/2, len(out.Sessions)
		if boxes == 0 {
			sessions /= 2
		}
		out.LeftOut += len(out.Sandboxes) - boxes + len(out.Sessions) - sessions
		out.Sandboxes, out.Sessions = out.Sandboxes[:boxes], out.Sessions[:sessions]
	}
	return out, nil
}
