package ops

import (
	"context"

	"github.com/sandjet/sandjet/internal/query"
)

// doctor has the worker look at what only workers see.
func (s *Service) doctor(ctx context.Context, _ struct{}) (query.DoctorReply, error) {
	return query.DoctorReply{Worker: s.Worker, Findings: s.Doctor(ctx)}, nil
}
