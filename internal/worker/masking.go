package worker

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/secret"
)

// masking keeps secrets out of what is written of one job: its outputs, events, dead
// letter and, by way of the worker's own set, log. The zero masking of a worker is
// ready.
type masking struct {
	known *secret.Set // of the whole worker, for its log; nil masks no log
	set   secret.Set

	found atomic.Bool // something was masked

	mu     sync.Mutex
	hidden []hidden
}

// hidden is a value that the job has in the worker's set.
type hidden struct {
	ref   string
	value secret.Value
}

// hide has a value masked from now on. It is called before the value is used. A value
// that is hidden already is hidden once.
func (m *masking) hide(ref string, v secret.Value) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.hidden {
		if h.ref == ref && h.value.Equal(v) {
			return nil
		}
	}
	if err := m.set.Add(ref, v); err != nil {
		return fmt.Errorf("mask: %w", err)
	}
	if m.known != nil {
		if err := m.known.Add(ref, v); err != nil {
			return fmt.Errorf("mask: %w", err)
		}
	}
	m.hidden = append(m.hidden, hidden{ref, v})
	return nil
}

// forget takes the job's values out of the worker's set.
func (m *masking) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.hidden {
		if m.known != nil {
			m.known.Remove(h.ref, h.value)
		}
	}
	m.hidden = nil
}

// text masks a text.
func (m *masking) text(s string) string {
	if point.Off(point.Masking) {
		return s
	}
	masked := m.set.String(s)
	m.note(masked != s)
	return masked
}

// doc masks a JSON document.
func (m *masking) doc(doc []byte) []byte {
	if point.Off(point.Masking) {
		return doc
	}
	masked := m.set.JSON(doc)
	m.note(!bytes.Equal(masked, doc))
	return masked
}

// note remembers that something was masked.
func (m *masking) note(found bool) {
	if found {
		m.found.Store(true)
	}
}

// stream returns a writer that masks one output on its way to w.
func (m *masking) stream(w io.Writer) *maskedStream {
	return &maskedStream{to: w, w: secret.NewWriter(w, &m.set), m: m}
}

// maskedStream masks one output of a command. What may be the beginning of a value is
// held back until it is known, however long that takes: a value that comes in two
// parts would be half in the open otherwise, and what a successor makes of the same
// bytes would depend on when they came.
type maskedStream struct {
	to io.Writer
	w  *secret.Writer
	m  *masking
	// blind has all of it masked: of a command whose secrets nobody knows any more.
	blind   atomic.Bool
	drained bool // what was held back when it became so is passed on
}

// Write passes p on, masked.
func (s *maskedStream) Write(p []byte) (int, error) {
	switch {
	case point.Off(point.Masking):
		return s.to.Write(p)
	case s.blind.Load():
		if err := s.drain(); err != nil {
			return 0, err
		}
		s.m.note(len(p) > 0)
		return s.to.Write(blank(p))
	}
	n, err := s.w.Write(p)
	s.note()
	return n, err
}

// drain passes on, masked, what was held back when the stream became blind.
func (s *maskedStream) drain() error {
	held := s.w.Held()
	if held == 0 || s.drained {
		return nil
	}
	s.drained = true
	_, err := s.to.Write(bytes.Repeat([]byte{'*'}, held))
	return err
}

func (s *maskedStream) note() {
	if !s.m.found.Load() {
		s.m.note(len(s.w.Masked()) > 0)
	}
}

// Prime shows the bytes before those to come.
func (s *maskedStream) Prime(p []byte) { s.w.Prime(p) }

// Flush passes on what is held back; it is for the end of the command alone.
func (s *maskedStream) Flush() error {
	switch {
	case point.Off(point.Masking):
		return nil
	case s.blind.Load():
		return s.drain()
	}
	err := s.w.Flush()
	s.note()
	return err
}

// blank masks everything but line ends.
func blank(p []byte) []byte {
	out := bytes.Repeat([]byte{'*'}, len(p))
	for i, b := range p {
		if b == '\n' || b == '\r' {
			out[i] = b
		}
	}
	return out
}
