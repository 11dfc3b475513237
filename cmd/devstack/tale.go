package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// A tale prints what happens as it happens, one aligned line each, with the
// seconds since it began. It may be told by many goroutines at once.
type tale struct {
	mu    sync.Mutex
	w     io.Writer
	begun time.Time
}

func newTale(w io.Writer) *tale { return &tale{w: w, begun: time.Now()} }

// step opens a step: its name and what it is about to do.
func (t *tale) step(name, format string, args ...any) { t.line(name, format, args...) }

// ok tells what was checked true.
func (t *tale) ok(format string, args ...any) { t.line("       ok", format, args...) }

// note tells what was seen on the way.
func (t *tale) note(format string, args ...any) { t.line("", format, args...) }

func (t *tale) line(name, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%6.2fs  %-9s  %s\n", time.Since(t.begun).Seconds(), name, fmt.Sprintf(format, args...))
}

// quote returns a writer that prints a command's output line by line below the
// step. Flush prints what has no line end.
func (t *tale) quote() *quote { return &quote{tale: t} }

type quote struct {
	tale *tale
	rest []byte
}

func (q *quote) Write(b []byte) (int, error) {
	q.rest = append(q.rest, b...)
	for {
		i := bytes.IndexAny(q.rest, "\r\n")
		if i < 0 {
			return len(b), nil
		}
		q.print(q.rest[:i])
		q.rest = q.rest[i+1:]
	}
}

func (q *quote) Flush() {
	q.print(q.rest)
	q.rest = nil
}

func (q *quote) print(line []byte) {
	if len(line) == 0 {
		return
	}
	q.tale.mu.Lock()
	defer q.tale.mu.Unlock()
	fmt.Fprintf(q.tale.w, "%20s %s\n", "|", line)
}
