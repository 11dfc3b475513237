package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/schemas"
)

// Service answers the questions of package query as the micro service
// "sandjet". Any worker answers any question.
type Service struct {
	Namespace wire.Namespace
	Worker    string // who answers
	Version   string // a semantic version
	SlotLimit int

	JS    jetstream.JetStream
	Facts *events.Log
	Queue *jobs.Queue
	View  *store.Store
	// Sandbox asks E2B.
	Sandbox func(ctx context.Context, id string) (*query.Sandbox, error)
	Log     *slog.Logger
}

// answerLimit bounds one answer, together with E2B's.
const answerLimit = 15 * time.Second

// maxAnswers bounds the answers under way in one worker.
const maxAnswers = 64

// Start listens until stop is called, which waits for the answers under way.
func (s *Service) Start(nc *nats.Conn) (stop func(), err error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: query.ServiceName, Version: s.Version, Description: "sessions, jobs and dead letters of Sandjet",
		Metadata: map[string]string{"worker": s.Worker, "namespace": string(s.Namespace)},
	})
	if err != nil {
		return nil, fmt.Errorf("micro service: %w", err)
	}
	life, end := context.WithCancel(context.Background())
	var answers sync.WaitGroup
	room := make(chan struct{}, maxAnswers)
	stop = func() {
		_ = svc.Stop()
		end()
		answers.Wait()
	}
	for subject, answer := range s.answers() {
		handler := func(req micro.Request) {
			select {
			case room <- struct{}{}:
			case <-life.Done():
				return
			}
			answers.Go(func() {
				defer func() { <-room }()
				s.reply(life, subject, req, answer)
			})
		}
		name := endpointName(subject)
		if err := svc.AddEndpoint(name, micro.HandlerFunc(handler), micro.WithEndpointSubject(s.Namespace.Subject(subject))); err != nil {
			stop()
			return nil, fmt.Errorf("micro endpoint %s: %w", subject, err)
		}
	}
	return stop, nil
}

// endpointName is the subject without what all have, in the letters micro
// allows.
func endpointName(subject string) string {
	name := []byte(subject[len("api."):])
	for i, c := range name {
		if c == '.' {
			name[i] = '-'
		}
	}
	return string(name)
}

// answer makes the reply to one request body.
type answer func(ctx context.Context, body []byte) (any, error)

func (s *Service) answers() map[string]answer {
	return map[string]answer{
		query.SessionGet:    on(s.session),
		query.SessionList:   on(s.sessions),
		query.SessionStatus: on(s.status),
		query.JobGet:        on(s.job),
		query.JobList:       on(s.jobs),
		query.JobCancel:     on(s.cancel),
		query.JobWhy:        on(s.why),
		query.DeadList:      on(s.deadList),
		query.DeadGet:       on(s.deadGet),
		query.DeadReplay:    on(s.deadReplay),
		query.DeadDiscard:   on(s.deadDiscard),
		query.Stats:         on(s.stats),
	}
}

// on decodes the body for f. The schema has judged it before.
func on[Req, Res any](f func(context.Context, Req) (Res, error)) answer {
	return func(ctx context.Context, body []byte) (any, error) {
		var req Req
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, &query.Error{Code: query.CodeInvalid, Description: err.Error()}
		}
		return f(ctx, req)
	}
}

func (s *Service) reply(ctx context.Context, subject string, req micro.Request, f answer) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	res, err := s.ask(ctx, subject, req.Data(), f)
	if err == nil {
		err = req.RespondJSON(res)
		if err == nil {
			return
		}
	}
	e := coded(err)
	if e.Code == query.CodeInternal {
		s.Log.Error("question not answered", "subject", subject, "err", err)
	}
	if err := req.Error(e.Code, e.Description, nil); err != nil {
		s.Log.Warn("error not sent", "subject", subject, "err", err)
	}
}

func (s *Service) ask(ctx context.Context, subject string, body []byte, f answer) (any, error) {
	if len(body) == 0 {
		body = []byte("{}") // nats req needs no body where nothing is required
	}
	if schema, ok := schemas.Request(subject); ok {
		if err := schema.Validate(body); err != nil {
			return nil, &query.Error{Code: query.CodeInvalid, Description: err.Error()}
		}
	}
	return f(ctx, body)
}

// coded gives an error its code. What nobody foresaw is our fault.
func coded(err error) *query.Error {
	var e *query.Error
	if errors.As(err, &e) {
		return e
	}
	code := query.CodeInternal
	switch {
	case errors.Is(err, events.ErrNotFound), errors.Is(err, store.ErrNotFound), errors.Is(err, jobs.ErrNoLetter):
		code = query.CodeNotFound
	case errors.Is(err, store.ErrCursor):
		code = query.CodeInvalid
	case errors.Is(err, jobs.ErrCutLetter):
		code = query.CodeConflict
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		code = query.CodeUnavailable
	}
	return &query.Error{Code: code, Description: err.Error()}
}

func notFound(format string, args ...any) error {
	return &query.Error{Code: query.CodeNotFound, Description: fmt.Sprintf(format, args...)}
}
