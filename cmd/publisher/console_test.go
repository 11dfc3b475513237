package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// onTerminal is a console whose outputs share one pretended terminal.
func onTerminal() (*console, *bytes.Buffer) {
	var b bytes.Buffer
	return &console{out: &b, err: &b, outTTY: true, errTTY: true}, &b
}

func TestConsoleErasesBeforeOutput(t *testing.T) {
	t.Parallel()
	c, b := onTerminal()
	c.Status("one")
	_, _ = c.Out([]byte("a\n"))
	_, _ = c.Write([]byte("b"))
	c.Status("two")
	c.Status("two")
	c.Note("note")
	c.Status("")
	require.Equal(t, "one"+erase+"a\none"+erase+"b"+"\nnote\ntwo"+erase, b.String())
}

// Output to a file is no reason to hide or to repeat the status line.
func TestConsoleWithOutputElsewhere(t *testing.T) {
	t.Parallel()
	var out, err bytes.Buffer
	c := &console{out: &out, err: &err, errTTY: true}
	c.Status("s")
	_, _ = c.Out([]byte("half"))
	c.Note("n")
	require.Equal(t, "half", out.String())
	require.Equal(t, "s"+erase+"n\ns", err.String())
}

func TestConsoleWithoutTerminal(t *testing.T) {
	t.Parallel()
	var out, err bytes.Buffer
	c := newConsole(&out, &err, false)
	c.Status("unseen")
	_, _ = c.Out([]byte("a"))
	_, _ = c.Write([]byte("b"))
	require.Equal(t, "a", out.String())
	require.Equal(t, "b", err.String())
	require.False(t, c.Colour())
}

func TestClean(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b c[31m", clean("a\nb\tc\x1b[31m\u202e\x07", 100))
	require.Equal(t, "abc", clean("abc", 3))
	require.Equal(t, "ab…", clean("abcd", 3))
	require.Equal(t, "äö…", clean("äöüß", 3))
	require.Empty(t, clean("abc", 0))
	require.Equal(t, "ab", clean("a\xffb", 9))
	require.Len(t, []rune(clean(strings.Repeat("x", 500), 79)), 79)
}
