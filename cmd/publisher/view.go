package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/sandjet/sandjet/internal/events"
)

// view shows the events of a job that is followed. Errors come from stdout or
// stderr and end the following.
type view func(e events.Event) error

// streamView passes the command's output through, byte by byte, and says on stderr
// which steps of a repo block are done.
func (a *App) streamView(e events.Event) (err error) {
	switch e.Kind {
	case events.Stdout:
		_, err = a.console.Out(e.Data)
	case events.Stderr:
		_, err = a.console.Write(e.Data)
	case events.KindStep:
		if s := stepNote(e); s != "" {
			a.note("%s", s)
		}
	}
	return err
}

// quietView shows nothing: the status line says enough.
func (a *App) quietView(events.Event) error { return nil }

// jsonView writes each event as one line.
func (a *App) jsonView(e events.Event) error { return a.printJSON(eventLine(e)) }

// line is an event as --json shows it. Output is text where it is UTF-8 and
// base64 where not: a chunk may end within a character.
type line struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Session string          `json:"session"`
	Job     string          `json:"job"`
	Kind    events.Kind     `json:"kind"`
	Offset  *int64          `json:"offset,omitempty"`
	Text    *string         `json:"text,omitempty"`
	Base64  []byte          `json:"base64,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func eventLine(e events.Event) line {
	l := line{Seq: e.Seq, Time: e.Time, Session: e.Job.Session, Job: e.Job.ID, Kind: e.Kind}
	switch {
	case e.Kind == events.Stdout || e.Kind == events.Stderr:
		offset := e.Offset
		l.Offset = &offset
		if utf8.Valid(e.Data) {
			text := string(e.Data)
			l.Text = &text
		} else {
			l.Base64 = e.Data
		}
	case json.Valid(e.Data):
		l.Data = e.Data
	}
	return l
}

// printJSON writes v to stdout as one line.
func (a *App) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err := a.console.Out(b.Bytes())
	return err
}

// printf writes a line of data to stdout.
func (a *App) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.console.Stdout(), format, args...)
	return err
}
