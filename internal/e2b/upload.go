package e2b

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// WriteOptions say how a file is written.
type WriteOptions struct {
	// User owns the new file; empty is the Box's user.
	User string
	// Size is how many bytes of r to write, if known; 0 is all of them. It is
	// announced to the sandbox, and an r that brings fewer is an error.
	Size int64
}

// Write writes what r brings to path, as a stream of any length. Parents are
// made, an existing file is replaced, a new one gets mode 0666 less the umask.
//
// It may be repeated with the same bytes, but it is not atomic: a broken upload
// leaves a shorter file. Write to another name and Rename where that matters.
// A full disk is ErrNoSpace. An error of r is passed on. r is not used any more
// when Write returns, so Write waits for a Read under way.
func (b *Box) Write(ctx context.Context, path string, r io.Reader, o WriteOptions) (err error) {
	const op = "files.write"
	began, status := time.Now(), 0
	defer func() { b.client.observe(op, status, err, began) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	user := b.user
	if o.User != "" {
		user = o.User
	}
	req, err := b.request(ctx, op, http.MethodPost, "/files", filesQuery(path, user))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	body := &upload{r: r, guard: newGuard(b.client.cfg.Timeouts.Idle, func() { cancel(ErrStalled) })}
	defer body.seal()
	body.attach(req, o.Size)

	body.guard.begin()
	res, err := b.exchange(op, http.StatusOK, http.StatusCreated, http.StatusNoContent).do(b.client.data, req)
	body.guard.end()
	if readErr := body.failed(); readErr != nil {
		return fmt.Errorf("e2b %s %s: read source: %w", op, b.ref.ID, readErr)
	}
	if err != nil {
		return err
	}
	status = res.StatusCode
	_, _ = io.CopyN(io.Discard, res.Body, maxErrorBody)
	return res.Body.Close()
}

// upload is a request body. Its guard runs while the network has the bytes and
// rests while the source is asked for more.
type upload struct {
	guard *guard

	mu   sync.Mutex
	r    io.Reader
	size int64 // announced; 0 if unknown
	n    int64 // read so far
	err  error // what the source failed with
	done bool
}

// attach makes u the body of req, with its length if that is known.
func (u *upload) attach(req *http.Request, size int64) {
	req.Body, req.ContentLength = u, -1
	if r, ok := u.r.(interface{ Len() int }); ok && size <= 0 { // bytes.Reader and its like
		size = int64(r.Len())
	}
	if u.size = size; size > 0 {
		req.ContentLength = size
	}
}

var errSealed = errors.New("the upload is over")

// Read reads from the source.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return 0, errSealed
	}
	if u.size > 0 && u.n == u.size {
		return 0, io.EOF
	}
	if u.size > 0 && int64(len(p)) > u.size-u.n {
		p = p[:u.size-u.n]
	}
	u.guard.end()
	n, err := u.r.Read(p)
	u.guard.begin()
	u.n += int64(n)
	if err == io.EOF && u.n < u.size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		u.err = err
	}
	return n, err
}

// Close leaves the source alone: it is the caller's.
func (u *upload) Close() error { return nil }

// seal takes the source away from net/http, which may read a body even after
// it has the answer.
func (u *upload) seal() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = true
	u.guard.end()
}

func (u *upload) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}
