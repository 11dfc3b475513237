package secret

import (
	"io"
	"maps"
	"sync"
)

// piece is how much of a write is looked at in one go; it bounds the memory.
const piece = 32 << 10

// Writer masks a stream on its way. See the package's promises. It may be used
// concurrently, as by one who writes and one who flushes after a silence.
type Writer struct {
	to  io.Writer
	set *Set

	mu    sync.Mutex
	win   window
	scans []*scan // the last one looks for the values of now, others end what they began
	err   error
}

// NewWriter returns a Writer to w that masks the values of set.
func NewWriter(w io.Writer, set *Set) *Writer { return &Writer{to: w, set: set} }

// Write passes p on, masked, but for what may be the beginning of a value: Flush it
// at the end and when nothing has come for a while. After an error nothing more is
// accepted; n counts the bytes of p that were passed on.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n < len(p) && w.err == nil {
		part := p[n:min(n+piece, len(p))]
		before := len(w.win.buf)
		w.take(part)
		passed := w.pass(int(w.hold() - w.win.base))
		if w.err != nil {
			return n + max(passed-before, 0), w.err
		}
		n += len(part)
	}
	return n, w.err
}

// Prime has the Writer see the bytes that stand before those to come, without
// passing them on: a value that begins in them is masked as far as it is still to
// come. It is for a Writer that goes on where another one was cut off.
func (w *Writer) Prime(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(p) > 0 {
		part := p[:min(piece, len(p))]
		w.take(part)
		w.win.drop(len(w.win.buf))
		p = p[len(part):]
	}
}

// Flush passes on what is held back, masked as far as it is known to be a value. A
// value that was cut by it is masked in the part that is still to come.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.pass(len(w.win.buf))
	}
	return w.err
}

// Held returns how many bytes are held back: the difference between what was
// written and what was passed on.
func (w *Writer) Held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.win.buf)
}

// Masked returns how often the value of each reference was masked. Tokens that were
// found by their shape alone are counted under its name, such as "github token".
func (w *Writer) Masked() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.win.counts)
}

// take looks at p and has it in the window.
func (w *Writer) take(p []byte) {
	w.renew()
	w.win.buf = append(w.win.buf, p...)
	for _, sc := range w.scans {
		sc.feed(p)
	}
}

// renew looks for what the Set holds now. Values that were added may have begun in
// what is held back; scans of the Set as it was stay until nothing is begun.
func (w *Writer) renew() {
	a := w.set.automaton()
	kept := w.scans[:0]
	for _, sc := range w.scans {
		if sc.a == a || !sc.idle() {
			kept = append(kept, sc)
		}
	}
	clear(w.scans[len(kept):])
	w.scans = kept
	if a.longest == 0 || len(kept) > 0 && kept[len(kept)-1].a == a {
		return
	}
	sc := newScan(a, &w.win)
	sc.feed(w.win.buf)
	w.scans = append(w.scans, sc)
}

// hold returns the place from which bytes are held back.
func (w *Writer) hold() int64 {
	at := w.win.base + int64(len(w.win.buf))
	for _, sc := range w.scans {
		at = min(at, sc.hold())
	}
	return max(at, w.win.base)
}

// pass writes the first n bytes of the window.
func (w *Writer) pass(n int) int {
	if n == 0 {
		return 0
	}
	passed, err := w.to.Write(w.win.masked(n))
	if err == nil && passed < n {
		err = io.ErrShortWrite
	}
	w.win.drop(n)
	w.err = err
	return passed
}
