package main

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// console is the terminal as both outputs share it: one status line, which is
// erased before anything else is written and drawn again only when the cursor
// stands at the start of a line. On anything but a terminal there is no status
// line, and what is written passes through byte by byte.
//
// It may be used by many goroutines at once.
type console struct {
	out, err   io.Writer
	outTTY     bool // stdout shares the terminal with the status line
	errTTY     bool
	plain      bool
	statusFile *os.File // the terminal, for its width

	mu     sync.Mutex
	status string // wanted
	shown  bool
	midway bool // the last byte written to the terminal was no line end
}

func newConsole(out, err io.Writer, plain bool) *console {
	c := &console{out: out, err: err, outTTY: isTerminal(out), errTTY: isTerminal(err), plain: plain}
	c.statusFile, _ = err.(*os.File)
	return c
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Live reports whether there is a status line at all.
func (c *console) Live() bool { return c.errTTY && !c.plain }

// Colour reports whether stdout may be coloured.
func (c *console) Colour() bool { return c.outTTY && !c.plain }

// Status sets the status line; empty takes it away.
func (c *console) Status(s string) {
	if !c.Live() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown && s == c.status {
		return
	}
	c.status = s
	c.erase()
	c.draw()
}

// Write writes to stderr.
func (c *console) Write(p []byte) (int, error) { return c.write(c.err, c.errTTY, p) }

// Note writes one line to stderr, on a line of its own.
func (c *console) Note(s string) {
	c.mu.Lock()
	midway := c.midway
	c.mu.Unlock()
	if s += "\n"; midway {
		s = "\n" + s
	}
	_, _ = c.Write([]byte(s))
}

// Out writes to stdout.
func (c *console) Out(p []byte) (int, error) { return c.write(c.out, c.outTTY, p) }

// Stdout is Out as an io.Writer.
func (c *console) Stdout() io.Writer { return writerFunc(c.Out) }

func (c *console) write(w io.Writer, tty bool, p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tty {
		c.erase()
	}
	n, err := w.Write(p)
	if tty && n > 0 {
		c.midway = p[n-1] != '\n'
		c.draw()
	}
	return n, err
}

// erase and draw are called with mu held.
func (c *console) erase() {
	if c.shown {
		_, _ = io.WriteString(c.err, "\r\x1b[K")
		c.shown = false
	}
}

func (c *console) draw() {
	if !c.Live() || c.midway || c.status == "" {
		return
	}
	_, _ = io.WriteString(c.err, clean(c.status, c.width()-1))
	c.shown = true
}

func (c *console) width() int {
	if c.statusFile != nil {
		if n := widthOf(c.statusFile); n > 0 {
			return n
		}
	}
	return 80
}

// clean makes a text that came from elsewhere safe and short enough for one
// line: no control or invisible characters, at most n runes.
func clean(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
