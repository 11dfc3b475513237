package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// notes is a log handler for people: one line a record, in the form of our own
// notes. Connections come and go, and that is all that is logged here.
type notes struct {
	console *console
	attrs   []slog.Attr
}

// logger tells people about the connection's ups and downs.
func (a *App) logger() *slog.Logger { return slog.New(notes{console: a.console}) }

// Enabled lets pass what a person may want to know.
func (notes) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle writes "publisher: message: value, value".
func (n notes) Handle(_ context.Context, r slog.Record) error {
	var values []string
	add := func(at slog.Attr) bool {
		values = append(values, fmt.Sprint(at.Value))
		return true
	}
	for _, at := range n.attrs {
		add(at)
	}
	r.Attrs(add)
	n.console.Note(join(": ", "publisher: "+r.Message, clean(strings.Join(values, ", "), 300)))
	return nil
}

// WithAttrs adds attributes to every record.
func (n notes) WithAttrs(attrs []slog.Attr) slog.Handler {
	n.attrs = append(n.attrs[:len(n.attrs):len(n.attrs)], attrs...)
	return n
}

// WithGroup changes nothing: names of attributes are not shown.
func (n notes) WithGroup(string) slog.Handler { return n }
