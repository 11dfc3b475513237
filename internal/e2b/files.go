package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// MaxReadFile is the longest file that ReadFile returns.
const MaxReadFile = 16 << 20

// Open reads a file as a stream, from an offset on. total is the length of the
// whole file at that moment, and exactly total - offset bytes come: a body that
// ends early is ErrCut, and what is written later is not shown, so ask again.
// An offset at the very end gives an empty stream, one beyond it ErrRange. A
// missing file is fs.ErrNotExist, a directory ErrInvalid. Close the reader; ctx
// governs it until then. It may be repeated.
func (b *Box) Open(ctx context.Context, path string, offset int64) (rc io.ReadCloser, total int64, err error) {
	const op = "files.read"
	began, status := time.Now(), 0
	defer func() { b.client.observe(op, status, err, began) }()

	req, err := b.request(ctx, op, http.MethodGet, "/files", filesQuery(path, b.user))
	if err != nil {
		return nil, 0, err
	}
	if offset < 0 {
		return nil, 0, invalid(op, b.ref.ID, "negative offset")
	}
	req.Header.Set("Accept-Encoding", "identity") // offsets count plain bytes
	if offset > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	d := &download{x: b.exchange(op, http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable)}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	d.guard = newGuard(b.client.cfg.Timeouts.Idle, func() { d.cancel(ErrStalled) })
	if err := d.open(b.client.data, req, offset); err != nil {
		d.cancel(nil)
		return nil, 0, err
	}
	status = d.status
	return d, d.total, nil
}

// filesQuery names a file and the user whose home a relative path begins at.
func filesQuery(path, user string) url.Values {
	q := url.Values{"path": {path}}
	if user != "" {
		q.Set("username", user)
	}
	return q
}

// ReadFile returns a whole file of at most MaxReadFile bytes; a longer one is
// ErrInvalid. It may be repeated.
func (b *Box) ReadFile(ctx context.Context, path string) ([]byte, error) {
	rc, total, err := b.Open(ctx, path, 0)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	if total > MaxReadFile {
		return nil, invalid("files.read", b.ref.ID, fmt.Sprintf("%d bytes are too many to read at once", total))
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(rc); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// download is the body of one file, or of its rest.
type download struct {
	ctx    context.Context // of the request; a body has no other way to it
	cancel context.CancelCauseFunc
	guard  *guard
	x      exchange
	body   io.ReadCloser
	status int
	total  int64
	left   int64
}

// open sends the request and reads from the headers what will come.
func (d *download) open(client *http.Client, req *http.Request, offset int64) error {
	d.guard.begin()
	res, err := d.x.do(client, req.WithContext(d.ctx))
	d.guard.end()
	if err != nil {
		return err
	}
	d.body, d.status = res.Body, res.StatusCode
	message, kind := d.extent(res, offset)
	if kind == nil {
		return nil
	}
	res.Body.Close()
	return &Error{
		Op: d.x.op, Sandbox: d.x.sandbox, Kind: kind, Message: message,
		Status: res.StatusCode, RequestID: requestID(res.Header),
	}
}

// extent finds out how long the file is and how much of it this answer brings.
func (d *download) extent(res *http.Response, offset int64) (message string, kind error) {
	first, total, ok := contentRange(res.Header.Get("Content-Range"))
	switch res.StatusCode {
	case http.StatusOK:
		first, total, ok = 0, res.ContentLength, res.ContentLength >= 0
		if offset > 0 && total == 0 { // an empty file has no ranges
			return "the file is empty", ErrRange
		}
	case http.StatusRequestedRangeNotSatisfiable:
		if !ok || total != offset {
			return "the file is shorter than " + strconv.FormatInt(offset, 10) + " bytes", ErrRange
		}
		first = offset
	}
	switch enc := res.Header.Get("Content-Encoding"); {
	case enc != "" && enc != "identity":
		return "the file came compressed", ErrBadAnswer
	case !ok || total < offset:
		return "the answer does not say how long the file is", ErrBadAnswer
	case first != offset:
		return fmt.Sprintf("the answer begins at byte %d instead of %d", first, offset), ErrBadAnswer
	}
	d.total, d.left = total, total-offset
	return "", nil
}

// Read reads what is left, bounding each wait.
func (d *download) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > d.left {
		p = p[:d.left]
	}
	d.guard.begin()
	n, err := d.body.Read(p)
	d.guard.end()
	d.left -= int64(n)
	if err == nil || d.left == 0 {
		return n, nil
	}
	e := &Error{Op: d.x.op, Sandbox: d.x.sandbox, Kind: ErrCut, Status: d.status}
	switch {
	case d.ctx.Err() != nil:
		e.Kind, e.Err = ended(d.ctx)
	case !errors.Is(err, io.EOF):
		e.Err = bare(err)
	}
	if e.Kind == ErrCut {
		e.Message = fmt.Sprintf("%d bytes of %d are missing", d.left, d.total)
	}
	return n, e
}

// Close gives the connection back if all was read, and drops it otherwise.
func (d *download) Close() error {
	if d.left == 0 {
		// Meet the end of the body; net/http reuses the connection only then.
		_, _ = io.CopyN(io.Discard, d.body, 1)
	}
	err := d.body.Close()
	d.cancel(nil)
	return err
}

// contentRange reads "bytes 5-9/10" and "bytes */10".
func contentRange(s string) (first, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, cut := strings.Cut(s, "/")
	if !ok || !cut {
		return 0, 0, false
	}
	total, err := strconv.ParseInt(size, 10, 64)
	if err != nil || total < 0 {
		return 0, 0, false
	}
	if span == "*" {
		return 0, total, true
	}
	from, to, _ := strings.Cut(span, "-")
	first, err1 := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	if err1 != nil || err2 != nil || first < 0 || last != total-1 || first > last {
		return 0, 0, false
	}
	return first, total, true
}
