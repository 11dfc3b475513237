package main

import (
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

// table prints rows under a header. Without a terminal the columns stay, so
// that awk and grep find what people see.
func (a *App) table(header []string, rows [][]string) error {
	w := table.NewWriter()
	w.SetStyle(table.Style{
		Name:    "plain",
		Box:     table.BoxStyle{PaddingRight: "  "},
		Format:  table.FormatOptions{Header: text.FormatUpper},
		Options: table.OptionsNoBordersAndSeparators,
	})
	w.SuppressTrailingSpaces()
	w.AppendHeader(row(header))
	for _, r := range rows {
		w.AppendRow(row(r))
	}
	return a.printf("%s\n", w.Render())
}

func row(cells []string) table.Row {
	r := make(table.Row, len(cells))
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		r[i] = c
	}
	return r
}

// fields prints names and values below each other. Empty ones are left out.
func (a *App) fields(pairs ...[2]string) error {
	wide := 0
	for _, p := range pairs {
		if p[1] != "" {
			wide = max(wide, len(p[0]))
		}
	}
	for _, p := range pairs {
		if p[1] == "" {
			continue
		}
		if err := a.printf("%s%s  %s\n", p[0], strings.Repeat(" ", wide-len(p[0])), p[1]); err != nil {
			return err
		}
	}
	return nil
}

// paint colours a state, a kind or a class where colours are wanted.
func (a *App) paint(s string) string {
	code := hue(s)
	if code == "" || !a.console.Colour() {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

const (
	green  = "32"
	yellow = "33"
	red    = "31"
	faint  = "2"
)

func hue(s string) string {
	switch s {
	case string(session.Active), string(events.Succeeded), string(events.KindStarted), string(ok):
		return green
	case string(session.Lost), string(session.Error), string(events.Dead), string(events.Failed), string(problem):
		return red
	case string(session.Paused), string(session.Destroyed), string(events.Cancelled):
		return faint
	case string(session.Pausing), string(session.Resuming), string(session.Provisioning), string(session.Destroying),
		string(events.KindWaiting), string(events.KindRetrying), string(warning):
		return yellow
	}
	return ""
}

// ago is how long t is past, or nothing.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(now.Sub(t))
}

// in is how long it is until t, or nothing.
func in(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	if !t.After(now) {
		return "due"
	}
	return short(t.Sub(now))
}

// at is a time for people.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}
