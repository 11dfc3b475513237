package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/schemas"
)

// answer makes the reply to one request body.
type answer func(ctx context.Context, who asker, body []byte) (any, error)

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
		query.Stats:         onAll(s.stats),
		query.Reconcile:     onAll(s.reconcile),
		query.Doctor:        onAll(s.doctor),
	}
}

// on decodes the body for f. The schema has judged it before.
func on[Req, Res any](f func(context.Context, asker, Req) (Res, error)) answer {
	return func(ctx context.Context, who asker, body []byte) (any, error) {
		var req Req
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, &query.Error{Code: query.CodeInvalid, Description: err.Error()}
		}
		return f(ctx, who, req)
	}
}

// onAll is on for what is no single owner's.
func onAll[Req, Res any](f func(context.Context, Req) (Res, error)) answer {
	return on(func(ctx context.Context, who asker, req Req) (res Res, err error) {
		if who != operator {
			return res, errOfAll
		}
		return f(ctx, req)
	})
}

// errOfAll is the answer to an owner about the whole deployment.
var errOfAll = &query.Error{Code: query.CodeForbidden, Description: "the answer is about all owners: ask without an owner in the subject"}

// errStopping is why a question of the last moment is not answered.
var errStopping = &query.Error{Code: query.CodeUnavailable, Description: "the worker is stopping: ask again"}

func (d *desk) reply(subject string, who asker, to string, body []byte, f answer) {
	limit := answerLimit
	if subject == query.Reconcile {
		limit = query.ReconcileTimeout
	}
	ctx, cancel := context.WithTimeout(d.life, limit)
	defer cancel()
	out, err := ask(ctx, subject, who, body, f)
	if err == nil && !d.fits(len(out)) {
		err = &query.Error{Code: query.CodeInternal, Description: fmt.Sprintf(
			"the answer has %d bytes and NATS carries %d here", len(out), d.nc.MaxPayload())}
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		d.refuse(subject, to, err)
		return
	}
	if to == "" {
		return // nobody wants to know
	}
	if err := d.nc.Publish(to, out); err != nil {
		d.Log.Warn("answer not sent", "subject", subject, "err", err)
	}
}

// ask makes the answer to one question. A panic is an error of that question
// alone.
func ask(ctx context.Context, subject string, who asker, body []byte, f answer) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := who.check(); err != nil {
		return nil, &query.Error{Code: query.CodeInvalid, Description: err.Error()}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}") // nats req needs no body where nothing is required
	}
	if schema, ok := schemas.Request(subject); ok {
		if err := schema.Validate(body); err != nil {
			return nil, &query.Error{Code: query.CodeInvalid, Description: err.Error()}
		}
	}
	res, err := f(ctx, who, body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(res)
}

// refuse answers with an error, in the headers that micro services use.
func (d *desk) refuse(subject, to string, err error) {
	e := coded(err)
	if e.Code == query.CodeInternal {
		d.Log.Error("question not answered", "subject", subject, "err", err)
	}
	if to == "" {
		return
	}
	msg := nats.NewMsg(to)
	msg.Header.Set(micro.ErrorCodeHeader, e.Code)
	msg.Header.Set(micro.ErrorHeader, clip(strings.Join(strings.Fields(e.Description), " "), maxDescription))
	if err := d.nc.PublishMsg(msg); err != nil {
		d.Log.Warn("error not sent", "subject", subject, "err", err)
	}
}

const maxDescription = 2048

// clip cuts s at n bytes, in no letter's middle.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
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
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), natsAway(err):
		code = query.CodeUnavailable
	}
	return &query.Error{Code: code, Description: err.Error()}
}

// natsAway reports whether JetStream could not serve now.
func natsAway(err error) bool {
	var refused *natsx.APIError
	var api *jetstream.APIError
	switch {
	case errors.As(err, &refused):
		return refused.Code == 503
	case errors.As(err, &api):
		return api.Code == 503
	}
	for _, away := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrDisconnected,
		natsx.ErrNoAck, natsx.ErrClosed,
	} {
		if errors.Is(err, away) {
			return true
		}
	}
	return false
}

func notFound(format string, args ...any) error {
	return &query.Error{Code: query.CodeNotFound, Description: fmt.Sprintf(format, args...)}
}
