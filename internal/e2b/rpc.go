package e2b

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem/filesystemconnect"
	"github.com/sandjet/sandjet/internal/e2b/envd/process/processconnect"
)

const (
	maxFrame = 4 << 20  // one message of a process stream; envd sends 32 KiB
	maxReply = 16 << 20 // one unary answer; a directory may be long
)

// dial prepares the RPC clients. Nothing is compressed: output would wait in
// the compressor, and a small frame could unpack to anything.
func (b *Box) dial() {
	plain := connect.WithAcceptCompression("gzip", nil, nil)
	b.processes = processconnect.NewProcessClient(rpcDoer{b}, b.base, plain, connect.WithReadMaxBytes(maxFrame))
	b.files = filesystemconnect.NewFilesystemClient(rpcDoer{b}, b.base, plain, connect.WithReadMaxBytes(maxReply))
}

// rpcDoer carries the RPCs. An answer that is not 200 never reaches connect: it
// is read here, where the whole body and its kind are known.
type rpcDoer struct{ b *Box }

// rpcInfo travels in the context from a method to Do.
type rpcInfo struct{ op, user string }

type rpcInfoKey struct{}

// rpcContext prepares ctx for one RPC.
func rpcContext(ctx context.Context, op, user string) context.Context {
	return noDeadline(context.WithValue(ctx, rpcInfoKey{}, rpcInfo{op, user}))
}

// Do implements connect.HTTPClient.
func (d rpcDoer) Do(req *http.Request) (*http.Response, error) {
	info, _ := req.Context().Value(rpcInfoKey{}).(rpcInfo)
	d.b.sign(req.Header, info.user)
	return d.b.exchange(info.op, http.StatusOK).do(d.b.client.data, req)
}

// send is a generated method of one unary RPC.
type send[Req, Res any] func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error)

// unary sends one RPC and waits as long as ctx lives.
func unary[Req, Res any](ctx context.Context, b *Box, op string, call send[Req, Res], msg *Req) (res *Res, err error) {
	began := time.Now()
	defer func() { b.client.observe(op, 0, err, began) }()

	if b.err != nil {
		return nil, invalid(op, b.ref.ID, b.err.Error())
	}
	got, err := call(rpcContext(ctx, op, b.user), connect.NewRequest(msg))
	if err != nil {
		return nil, b.rpcError(ctx, op, err)
	}
	return got.Msg, nil
}

// brief sends one RPC that has no reason to take long.
func brief[Req, Res any](ctx context.Context, b *Box, op string, call send[Req, Res], msg *Req) (*Res, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	return unary(ctx, b, op, call, msg)
}

// rpcError turns connect's error into one of this package.
func (b *Box) rpcError(ctx context.Context, op string, err error) *Error {
	var mine *Error
	if errors.As(err, &mine) {
		return mine
	}
	e := &Error{Op: op, Sandbox: b.ref.ID, Unknown: true}
	if ctx.Err() != nil {
		e.Kind, e.Err = ended(ctx)
		return e
	}
	secrets := []string{b.ref.AccessToken}
	e.Status = http.StatusOK
	var rpc *connect.Error
	if errors.As(err, &rpc) && connect.IsWireError(err) {
		e.Code, e.Message = rpc.Code().String(), clean(rpc.Message(), secrets)
		e.Kind = kindOfCode(e.Code)
		e.Unknown = e.Kind == ErrUnavailable
		return e
	}
	e.Kind, e.Message = ErrBadAnswer, clean(err.Error(), secrets)
	return e
}

// noDeadline hides ctx's deadline, which connect would send as
// Connect-Timeout-Ms and envd would take for the life limit of the process.
// The deadline still ends the context, and with it the call on this side.
func noDeadline(ctx context.Context) context.Context { return withoutDeadline{ctx} }

type withoutDeadline struct{ context.Context }

// Deadline says that there is none.
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

func isKind(err, kind error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}
