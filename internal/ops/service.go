package ops

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
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
	// Doctor looks at what only workers see.
	Doctor func(ctx context.Context) []query.Finding
	// Reconciler compares E2B's sandboxes with the sessions.
	Reconciler func(ctx context.Context, req query.ReconcileRequest) (query.ReconcileReply, error)
	// Breakers tells the state of each class of calls to E2B; nil for none.
	Breakers func() map[string]string
	Log      *slog.Logger
}

const (
	// answerLimit bounds one answer.
	answerLimit = 15 * time.Second
	// maxAnswers bounds the answers under way to one question: those that hang
	// take no room from the other questions.
	maxAnswers = 16
	// stopGrace is how long a stop waits for the answers under way before it cuts
	// them short.
	stopGrace = 5 * time.Second
)

// desk is a service at work.
type desk struct {
	*Service
	nc   *nats.Conn
	life context.Context // of the answers

	mu      sync.Mutex // between enter and close
	closed  chan struct{}
	answers sync.WaitGroup
}

// Start answers until stop is called. stop takes no more questions, waits for
// the answers under way, and may be called more than once.
func (s *Service) Start(nc *nats.Conn) (stop func(), err error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: query.ServiceName, Version: s.Version, Description: "sessions, jobs and dead letters of Sandjet",
		Metadata: map[string]string{"worker": s.Worker, "namespace": string(s.Namespace)},
	})
	if err != nil {
		return nil, fmt.Errorf("micro service: %w", err)
	}
	life, end := context.WithCancelCause(context.Background())
	d := &desk{Service: s, nc: nc, life: life, closed: make(chan struct{})}
	stop = sync.OnceFunc(func() { d.close(svc, end) })
	answers := s.answers()
	for _, subject := range slices.Sorted(maps.Keys(answers)) {
		name, asked := endpointName(subject), s.Namespace.Subject(subject)
		err := svc.AddEndpoint(name, d.endpoint(subject, answers[subject], anOperator), micro.WithEndpointSubject(asked))
		if err == nil {
			err = svc.AddEndpoint(name+"-owner", d.endpoint(subject, answers[subject], theOwner), micro.WithEndpointSubject(asked+".*"))
		}
		if err != nil {
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

func anOperator(string) asker { return operator }

// theOwner is who asks in a subject whose last token names an owner.
func theOwner(subject string) asker { return asker(subject[strings.LastIndexByte(subject, '.')+1:]) }

// endpoint is the handler of one question; asks tells by its subject who asks. The library calls it for one request
// at a time, so the answer is made beside it. It is sent without the library
// too, whose books are closed when the handler returns.
func (d *desk) endpoint(subject string, f answer, asks func(string) asker) micro.HandlerFunc {
	room := make(chan struct{}, maxAnswers)
	return func(req micro.Request) {
		if to := req.Reply(); to != "" && !inbox(to) {
			d.Log.Warn("question dropped: its answer would go to no inbox", "subject", subject, "reply", to)
			return
		}
		select {
		case room <- struct{}{}:
		case <-d.closed:
		}
		if !d.enter() {
			d.refuse(subject, req.Reply(), errStopping)
			return
		}
		go func() {
			defer func() { <-room; d.answers.Done() }()
			d.reply(subject, asks(req.Subject()), req.Reply(), req.Data(), f)
		}()
	}
}

// inbox reports whether answers may go to a subject: all inboxes begin with an
// underscore. The server looks at what one may publish to, not at where answers go; they
// are sent with the worker's permissions, which are for the subjects of jobs and events.
func inbox(subject string) bool { return strings.HasPrefix(subject, "_") }

// enter counts an answer, unless no more are begun.
func (d *desk) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.closed:
		return false
	default:
		d.answers.Add(1)
		return true
	}
}

func (d *desk) close(svc micro.Service, end context.CancelCauseFunc) {
	if err := svc.Stop(); err != nil && !d.nc.IsClosed() {
		d.Log.Warn("micro service not stopped", "err", err)
	}
	// After a round trip no question comes that the server has not sent yet.
	_ = d.nc.FlushTimeout(time.Second)
	d.mu.Lock()
	close(d.closed)
	d.mu.Unlock()
	cut := time.AfterFunc(stopGrace, func() { end(errStopping) })
	d.answers.Wait()
	cut.Stop()
	end(errStopping)
}
