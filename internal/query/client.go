package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

// DefaultTimeout is how long a Client waits for one answer unless told
// otherwise. api.session.status asks E2B, so it is not a matter of
// milliseconds.
const DefaultTimeout = 10 * time.Second

// Client asks the questions of this package, one method each. It may be used
// by many goroutines at once. Every method returns an *Error when the worker
// refuses, ErrNoWorker when none listens, ErrTimeout when none answers.
type Client struct {
	nc      *nats.Conn
	ns      wire.Namespace
	timeout time.Duration
	owner   string
}

// NewClient returns a client that asks over nc, in namespace ns. An answer is
// waited for until the call's context ends, but no longer than timeout; zero
// means DefaultTimeout.
func NewClient(nc *nats.Conn, ns wire.Namespace, timeout time.Duration) *Client {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Client{nc: nc, ns: ns, timeout: timeout}
}

// As returns a client that asks as an owner, about what is his alone. Empty asks about
// everything, as operators do.
func (c *Client) As(owner string) *Client {
	as := *c
	as.owner = owner
	return &as
}

// Session returns a session's record as the workers see it.
func (c *Client) Session(ctx context.Context, req SessionRequest) (session.Record, error) {
	return ask[session.Record](ctx, c, SessionGet, req)
}

// Sessions returns one page of sessions.
func (c *Client) Sessions(ctx context.Context, req SessionListRequest) (SessionListReply, error) {
	return ask[SessionListReply](ctx, c, SessionList, req)
}

// SessionStatus returns a session together with E2B's view of its sandbox.
func (c *Client) SessionStatus(ctx context.Context, req SessionRequest) (SessionStatusReply, error) {
	return ask[SessionStatusReply](ctx, c, SessionStatus, req)
}

// Job returns what is known of one job. Its Session is filled in, also when
// the request had none.
func (c *Client) Job(ctx context.Context, req JobRequest) (Job, error) {
	return ask[Job](ctx, c, JobGet, req)
}

// Jobs returns one page of jobs, newest first.
func (c *Client) Jobs(ctx context.Context, req JobListRequest) (JobListReply, error) {
	return ask[JobListReply](ctx, c, JobList, req)
}

// Cancel asks that a job end. It returns when the wish is on record, not when
// the job has ended.
func (c *Client) Cancel(ctx context.Context, req JobCancelRequest) (JobCancelReply, error) {
	return ask[JobCancelReply](ctx, c, JobCancel, req)
}

// Why returns the causal chain of a job.
func (c *Client) Why(ctx context.Context, req JobRequest) (JobWhyReply, error) {
	return ask[JobWhyReply](ctx, c, JobWhy, req)
}

// DeadLetters returns one page of dead letters, without their bodies.
func (c *Client) DeadLetters(ctx context.Context, req DeadListRequest) (DeadListReply, error) {
	return ask[DeadListReply](ctx, c, DeadList, req)
}

// DeadLetter returns one dead letter with its body.
func (c *Client) DeadLetter(ctx context.Context, req DeadRequest) (DeadLetter, error) {
	return ask[DeadLetter](ctx, c, DeadGet, req)
}

// Replay puts a dead letter's job back to work as a new series of attempts.
func (c *Client) Replay(ctx context.Context, req DeadRequest) (DeadReplayReply, error) {
	return ask[DeadReplayReply](ctx, c, DeadReplay, req)
}

// Discard drops a dead letter for good.
func (c *Client) Discard(ctx context.Context, req DeadRequest) (DeadDiscardReply, error) {
	return ask[DeadDiscardReply](ctx, c, DeadDiscard, req)
}

// Stats returns the fleet at a glance. It is the cheapest way to learn whether
// a worker is there.
func (c *Client) Stats(ctx context.Context) (StatsReply, error) {
	return ask[StatsReply](ctx, c, Stats, struct{}{})
}

// Doctor has a worker look at what only workers see.
func (c *Client) Doctor(ctx context.Context) (DoctorReply, error) {
	return ask[DoctorReply](ctx, c, Doctor, struct{}{})
}

// ReconcileTimeout is how long a reconciliation may take: it reads everything
// that E2B and the streams have.
const ReconcileTimeout = 2 * time.Minute

// Reconcile compares E2B's sandboxes with the sessions now and accounts for each
// of them. It waits for ReconcileTimeout, however short the client's own is.
func (c *Client) Reconcile(ctx context.Context, req ReconcileRequest) (ReconcileReply, error) {
	patient := *c
	patient.timeout = max(c.timeout, ReconcileTimeout)
	return ask[ReconcileReply](ctx, &patient, Reconcile, req)
}

// ask sends one question and reads one answer. Fields of an answer that this
// version does not know are let pass: a newer worker may say more.
func ask[Reply any](ctx context.Context, c *Client, question string, req any) (Reply, error) {
	var reply Reply
	body, err := json.Marshal(req)
	if err != nil {
		return reply, fmt.Errorf("%s: encode question: %w", question, err)
	}
	msg, err := c.request(ctx, question, body)
	if err != nil {
		return reply, err
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return reply, &Error{Code: code, Description: msg.Header.Get(micro.ErrorHeader)}
	}
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		return reply, fmt.Errorf("%s: decode answer: %w", question, err)
	}
	return reply, nil
}

func (c *Client) request(parent context.Context, question string, body []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(parent, c.timeout)
	defer cancel()
	subject := c.ns.Subject(question)
	if c.owner != "" {
		subject = c.ns.Subject(question, c.owner)
	}
	msg, err := c.nc.RequestWithContext(ctx, subject, body)
	switch {
	case err == nil:
		return msg, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w on %s: start one, or check --server and --namespace", ErrNoWorker, subject)
	case parent.Err() != nil:
		return nil, fmt.Errorf("%s: %w", question, context.Cause(parent))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, fmt.Errorf("%s: %w (%s): see that the worker is well, or raise --timeout", question, ErrTimeout, c.timeout)
	default:
		return nil, fmt.Errorf("%s: %w", question, err)
	}
}
