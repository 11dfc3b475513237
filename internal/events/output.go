package events

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/natsx"
)

const (
	// maxChunk is the size of an output message at most; larger ones gain nothing.
	maxChunk = 64 << 10
	// pace is the time between two messages while output keeps coming.
	pace = 50 * time.Millisecond
	// prompt is how long the first bytes after a silence wait for more.
	prompt = 3 * time.Millisecond
	// nearEnd is how far before a cut a line end counts as near.
	nearEnd = 8 << 10
	// headroom is what headers and subject of an output message take at most.
	headroom = 4 << 10
)

// ErrClosed is a write to a closed Output.
var ErrClosed = errors.New("output closed")

// OutputOptions tunes an Output.
type OutputOptions struct {
	// Hash has seen the bytes before the first offset (Log.Sum gives it). Without
	// it Sum is known only for an output that begins at 0.
	Hash hash.Hash
}

// Output writes a job's stdout or stderr. Writes are collected into messages of up
// to 64 KiB, cut at line ends where one is near; the first line after a silence
// goes out within milliseconds. While NATS is slow or away, Write blocks and memory
// stays bounded. It may be used concurrently; an idle Output holds no goroutine and
// no buffer.
type Output struct {
	claim *Claim
	kind  Kind
	limit int // bytes a message holds

	life context.Context // of the publishing; ends with the claim or when Close gives up
	stop context.CancelCauseFunc
	kick chan struct{} // wakes the pump before its time
	done chan struct{} // closed when a publish has failed

	mu       sync.Mutex
	change   *sync.Cond // buffer, published, pumping or err changed
	buf      []byte
	hash     hash.Hash
	accepted int64 // offset after the last byte written
	sent     int64 // offset after the last byte stored
	skip     int64 // bytes to come that are stored already
	last     time.Time
	urgent   bool // somebody waits for the buffer to be empty
	pumping  bool
	closed   bool
	err      error
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, maxChunk); return &b }}

// Output starts an output of the job at offset, which is 0 for a new one and
// otherwise where the History says that the stored one ends. kind is Stdout or
// Stderr. There is at most one open Output of a kind.
func (c *Claim) Output(kind Kind, offset int64, o OutputOptions) *Output {
	w := &Output{
		claim: c, kind: kind, accepted: offset, sent: offset, hash: o.Hash,
		limit: maxChunk, kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if m := c.log.nc.MaxPayload(); m > 2*headroom {
		w.limit = min(w.limit, int(m)-headroom)
	}
	if w.hash == nil && offset == 0 {
		w.hash = sha256.New()
	}
	if !kind.Output() {
		w.fail(fmt.Errorf("output of job %s: %s is not an output", c.job, kind))
	}
	w.change = sync.NewCond(&w.mu)
	w.life, w.stop = context.WithCancelCause(c.life)
	return w
}

func (w *Output) fail(err error) {
	w.err = err
	close(w.done)
}

// Failed is closed when a publish has failed: nothing more is stored, also of what was
// accepted before.
func (w *Output) Failed() <-chan struct{} { return w.done }

// Err returns what has failed, nil while nothing has.
func (w *Output) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Write accepts p. It blocks while the buffer is full. After an error nothing more
// is accepted; the error is that of the publish that failed, for instance ErrLost.
func (w *Output) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for len(p) > 0 {
		for w.err == nil && !w.closed && len(w.buf) >= w.limit {
			w.change.Wait()
		}
		if w.err != nil {
			return n, w.err
		}
		if w.closed {
			return n, ErrClosed
		}
		k := min(len(p), w.limit-len(w.buf))
		w.accept(p[:k])
		p, n = p[k:], n+k
	}
	return n, nil
}

// accept takes p into the buffer, which has room for it.
func (w *Output) accept(p []byte) {
	if w.buf == nil {
		w.buf = *buffers.Get().(*[]byte)
	}
	w.buf = append(w.buf, p...)
	w.accepted += int64(len(p))
	if w.hash != nil {
		w.hash.Write(p)
	}
	if !w.pumping {
		w.pumping = true
		go w.pump()
	} else if len(w.buf) >= w.limit {
		w.wake()
	}
}

func (w *Output) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// Flush waits until all that was written before is stored.
func (w *Output) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.change.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for goal := w.accepted; w.err == nil && w.sent < goal; {
		if ctx.Err() != nil {
			return fmt.Errorf("flush %s of job %s: %w", w.kind, w.claim.job, context.Cause(ctx))
		}
		w.urgent = true
		w.wake()
		w.change.Wait()
	}
	return w.err
}

// Close flushes and ends the output. If ctx ends first, what is left is given up
// and may or may not be stored: a new claim's History tells.
func (w *Output) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.change.Broadcast()
	w.mu.Unlock()
	err := w.Flush(ctx)
	w.stop(ErrClosed)
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.pumping {
		w.change.Wait()
	}
	return err
}

// Offset is the offset after the last byte accepted by Write.
func (w *Output) Offset() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
}

// Stored is the offset after the last byte that the stream has acknowledged.
func (w *Output) Stored() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// Sum is the SHA-256, in hex, of all bytes from 0 to Offset; "" if it is not known.
func (w *Output) Sum() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hash == nil {
		return ""
	}
	return hex.EncodeToString(w.hash.Sum(nil))
}

// pump publishes until the buffer is empty or a publish fails.
func (w *Output) pump() {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		w.pumping = false
		w.drop()
		w.change.Broadcast()
	}()
	for len(w.buf) > 0 && w.err == nil {
		w.linger()
		chunk := w.cut()
		if len(chunk) == 0 {
			continue
		}
		at := w.sent
		w.change.Broadcast() // there is room
		w.mu.Unlock()
		end, err := w.publish(chunk, at)
		b := chunk[:0]
		buffers.Put(&b)
		w.mu.Lock()
		w.last = time.Now()
		if err != nil {
			w.fail(err)
			return
		}
		w.skip += max(end-at-int64(len(chunk)), 0)
		w.sent = at + int64(len(chunk))
		w.change.Broadcast()
	}
}

// drop gives an idle buffer back.
func (w *Output) drop() {
	if w.buf != nil && len(w.buf) == 0 {
		b := w.buf
		w.buf = nil
		buffers.Put(&b)
	}
}

// linger waits for more to come: until the buffer is full, somebody asks, or the
// time is up. The lock is let go meanwhile.
func (w *Output) linger() {
	wait := prompt
	if rest := pace - time.Since(w.last); rest > wait {
		wait = rest
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for len(w.buf) < w.limit && !w.urgent && !w.closed {
		w.mu.Unlock()
		timeout := false
		select {
		case <-t.C:
			timeout = true
		case <-w.kick:
		case <-w.life.Done():
			timeout = true
		}
		w.mu.Lock()
		if timeout {
			return
		}
	}
}

// cut takes the next message off the buffer: all of it, or up to a line end that is
// near. The rest moves to a new buffer.
func (w *Output) cut() []byte {
	if w.skip > 0 { // stored by an earlier, longer send of the same bytes
		n := min(w.skip, int64(len(w.buf)))
		w.buf = append(w.buf[:0], w.buf[n:]...)
		w.skip -= n
		w.sent += n
		return nil
	}
	n := len(w.buf)
	if i := bytes.LastIndexByte(w.buf[max(0, n-nearEnd):], '\n'); i >= 0 && !w.flushing() {
		n = max(0, n-nearEnd) + i + 1
	}
	chunk := w.buf[:n]
	rest := w.buf[n:]
	w.buf = *buffers.Get().(*[]byte)
	w.buf = append(w.buf, rest...)
	w.urgent = w.urgent && len(rest) > 0
	return chunk
}

// flushing reports whether everything is to go out, whole lines or not.
func (w *Output) flushing() bool { return (w.urgent || w.closed) && len(w.buf) < w.limit }

// behind is how often a message that a server says it has stored is looked for. A leader
// that is new may not have applied it yet: that takes moments, or the cluster is broken.
const behind = 100

// stored reads a message of the claim's that the stream is said to have.
func (c *Claim) stored(ctx context.Context, seq uint64) (s stored, err error) {
	for try := range behind {
		if s, err = c.log.leader(ctx, c.log.stream, request{Seq: seq}); !errors.Is(err, ErrNotFound) {
			return s, err
		}
		if err := backoff(ctx, try); err != nil {
			return s, err
		}
	}
	return s, fmt.Errorf("%w: message %d is stored and cannot be read", natsx.ErrUnavailable, seq)
}

// publish stores chunk, which begins at offset at, and returns where the stored
// message ends. That is the chunk's end, unless an earlier Output of this claim
// gave up on a send of the same offset that was stored after all.
func (w *Output) publish(chunk []byte, at int64) (int64, error) {
	c := w.claim
	for {
		if err := c.begin(w.life); err != nil {
			return 0, fmt.Errorf("write %s of job %s: %w", w.kind, c.job, err)
		}
		off := strconv.FormatInt(at, 10)
		e := c.log.envelope(c.job, w.kind, string(w.kind), ".", off, ".", strconv.FormatUint(c.own[0], 10))
		e.set(slotOffset, off)
		e.set(slotContent, contentRaw)
		e.msg.Data = chunk
		ack, err := c.write(w.life, w.kind, e)
		e.free()
		c.finish()
		if err != nil {
			return 0, fmt.Errorf("write %s of job %s: %w", w.kind, c.job, err)
		}
		if !ack.Duplicate {
			return at + int64(len(chunk)), nil
		}
		s, err := c.stored(w.life, ack.Seq)
		if err != nil {
			return 0, fmt.Errorf("write %s of job %s: read back: %w", w.kind, c.job, err)
		}
		if len(s.Data) >= len(chunk) {
			return at + int64(len(s.Data)), nil
		}
		at += int64(len(s.Data))
		chunk = chunk[len(s.Data):]
	}
}
