package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sandjet/sandjet/internal/point"
)

// exchange is one request and what its answer means. Both planes go through it.
type exchange struct {
	op      string
	sandbox string
	data    bool     // data plane: 502 is a sandbox that does not answer
	secrets []string // taken out of the server's words
	ok      []int    // statuses that mean success
	admit   Admit    // may hold it back; nil does not
}

// do sends req once, unless it is held back. Any status that is not a success,
// and any failure to get an answer, is an *Error.
func (x exchange) do(client *http.Client, req *http.Request) (*http.Response, error) {
	done, err := x.admitted()
	if err != nil {
		return nil, err
	}
	res, err := x.send(client, req)
	done(err)
	return res, err
}

func (x exchange) send(client *http.Client, req *http.Request) (*http.Response, error) {
	ctx, at := req.Context(), point.Of("e2b", x.op)
	if err := point.Before(ctx, at); err != nil {
		return nil, x.broken(ctx, err, false)
	}
	var sent atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	}))
	res, err := client.Do(req)
	if err != nil {
		return nil, x.broken(ctx, err, sent.Load())
	}
	if err := point.After(ctx, at); err != nil {
		_ = res.Body.Close()
		return nil, x.broken(ctx, err, true)
	}
	if slices.Contains(x.ok, res.StatusCode) {
		return res, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	return nil, x.refused(res, body)
}

// broken turns a failure to get an answer into an *Error.
func (x exchange) broken(ctx context.Context, err error, sent bool) *Error {
	e := &Error{Op: x.op, Sandbox: x.sandbox, Kind: ErrUnavailable, Unknown: sent, Err: bare(err)}
	if ctx.Err() != nil {
		e.Kind, e.Err = ended(ctx)
	}
	return e
}

// decode reads a bounded JSON answer into out; with a nil out it reads the body
// away, so that the connection can be used again.
func (x exchange) decode(ctx context.Context, res *http.Response, out any) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if out == nil {
		return nil // the status has said all
	}
	e := &Error{Op: x.op, Sandbox: x.sandbox, Status: res.StatusCode, RequestID: requestID(res.Header), Unknown: true}
	switch {
	case err != nil && ctx.Err() != nil:
		e.Kind, e.Err = ended(ctx)
		return e
	case err != nil:
		e.Kind, e.Err = ErrCut, bare(err)
		return e
	case len(body) > maxAnswer:
		e.Kind, e.Message = ErrBadAnswer, fmt.Sprintf("longer than %d bytes", maxAnswer)
		return e
	}
	if err := json.Unmarshal(body, out); err != nil {
		e.Kind, e.Message = ErrBadAnswer, badJSON(err)
		return e
	}
	if v, ok := out.(interface{ check() error }); ok {
		if err := v.check(); err != nil {
			e.Kind, e.Message = ErrBadAnswer, err.Error()
			return e
		}
	}
	return nil
}

// badJSON says what is wrong with an answer without quoting from it: it may
// hold a token.
func badJSON(err error) string {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return "JSON field " + typ.Field + " is not of the expected type"
	}
	return "broken JSON"
}

// errTimeout is the cause of a context that ran into a limit of this package.
type errTimeout struct{ after time.Duration }

func (e errTimeout) Error() string { return "no answer within " + e.after.String() }

// failure is the cause of a context that this package ended itself.
type failure struct{ error }

// ended tells why ctx is over: a limit of this package is a kind of its own,
// the caller's own reasons are passed on without one.
func ended(ctx context.Context) (kind, err error) {
	cause := context.Cause(ctx)
	var timeout errTimeout
	var own failure
	switch {
	case errors.As(cause, &own):
		return nil, own.error
	case errors.As(cause, &timeout):
		return ErrUnavailable, cause
	case errors.Is(cause, ErrStalled):
		return ErrStalled, nil
	case errors.Is(cause, ctx.Err()):
		return nil, cause
	default:
		return nil, fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
}

// bare drops the method and URL that net/http puts before an error: Op and
// Sandbox say it shorter.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
