package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// A tail keeps the last lines written to it. It may be written to by many
// goroutines at once.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
}

const tailLines = 80

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, bytes.Clone(b))
	if len(t.lines) > 2*tailLines {
		t.lines = append(t.lines[:0], t.lines[len(t.lines)-tailLines:]...)
	}
	return len(b), nil
}

// print writes what is kept, under a headline.
func (t *tail) print(w io.Writer, headline string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return
	}
	fmt.Fprintln(w, headline)
	for _, l := range t.lines[max(0, len(t.lines)-tailLines):] {
		_, _ = w.Write(l)
	}
}
