package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// hangBody is how much of a request body a hanging call reads ahead: net/http
// notices that a client went only once the body is read.
const hangBody = 1 << 20

// wrap lets the script meet every call on its way to next.
func (f *Faults) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := f.take(operation(r), sandboxOf(r))
		if a == nil {
			next.ServeHTTP(w, r)
			return
		}
		switch act := a.Action.(type) {
		case Status:
			act.write(w)
		case LoseFiles:
			next.ServeHTTP(w, r.WithContext(withAmnesia(r.Context())))
		case Hang:
			if !hang(r, a.removed) {
				cut(r.Context())
				return
			}
			next.ServeHTTP(w, r)
		case Delay:
			if wait(r.Context(), time.Duration(act)) {
				next.ServeHTTP(w, r)
			}
		case CutAfter:
			cutAfter(act, w, r, next)
		case LostAnswer:
			next.ServeHTTP(&lostWriter{ResponseWriter: w, header: http.Header{}, ctx: r.Context()}, r)
			cut(r.Context())
		case LateEffect:
			late(time.Duration(act), w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hang reports whether the fault was removed before the client went.
func hang(r *http.Request, removed <-chan struct{}) bool {
	var ahead bytes.Buffer
	if n, _ := io.CopyN(&ahead, r.Body, hangBody); n < hangBody {
		r.Body = io.NopCloser(&ahead)
	} else {
		r.Body = io.NopCloser(io.MultiReader(&ahead, r.Body))
	}
	select {
	case <-removed:
		return true
	case <-r.Context().Done():
		return false
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func cutAfter(c CutAfter, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if c.After > 0 {
		t := time.AfterFunc(c.After, func() { cut(r.Context()) })
		defer t.Stop()
		next.ServeHTTP(w, r)
		return
	}
	next.ServeHTTP(&cutWriter{ResponseWriter: w, left: c.Bytes, ctx: r.Context()}, r)
}

// late cuts the connection and lets the call act later all the same.
func late(after time.Duration, w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(io.LimitReader(r.Body, hangBody))
	cut(r.Context())
	if err != nil {
		return
	}
	ctx := context.WithoutCancel(r.Context())
	if !wait(ctx, after) {
		return
	}
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(&lostWriter{ResponseWriter: w, header: http.Header{}, ctx: ctx}, r)
}

var errCut = errors.New("connection cut by a fault")

// cutWriter lets so many bytes of the body through and then resets the
// connection.
type cutWriter struct {
	http.ResponseWriter
	left int64
	ctx  context.Context //nolint:containedctx // it is the request's own
}

func (c *cutWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutWriter) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

func (c *cutWriter) Write(b []byte) (int, error) {
	if int64(len(b)) <= c.left {
		c.left -= int64(len(b))
		return c.ResponseWriter.Write(b)
	}
	n, _ := c.ResponseWriter.Write(b[:c.left])
	c.left = 0
	c.Flush()
	cut(c.ctx)
	return n, errCut
}

// lostWriter swallows an answer. A stream's first message cuts the connection
// at once, because the stream itself may go on for hours.
type lostWriter struct {
	http.ResponseWriter
	header http.Header
	ctx    context.Context //nolint:containedctx // it is the request's own
}

func (l *lostWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }
func (l *lostWriter) Header() http.Header         { return l.header }
func (l *lostWriter) WriteHeader(int)             {}
func (l *lostWriter) Flush()                      {}

func (l *lostWriter) Write(b []byte) (int, error) {
	if strings.HasPrefix(l.header.Get("Content-Type"), "application/connect+") {
		cut(l.ctx)
		return 0, errCut
	}
	return len(b), nil
}
