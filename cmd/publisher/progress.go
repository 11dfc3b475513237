package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/events"
)

// progress turns a job's events into the one line that says where it is. Now
// and then a person looks at it for minutes, so it says how long that has been.
type progress struct {
	since time.Time
	text  string
}

func newProgress(now time.Time) *progress { return &progress{since: now, text: "queued"} }

// Line is the status line at now.
func (p *progress) Line(now time.Time) string {
	return fmt.Sprintf("[%s] %s", short(now.Sub(p.since)), p.text)
}

// See takes note of an event. Output changes nothing.
func (p *progress) See(e events.Event) {
	if s := says(e.Kind, e.Data); s != "" {
		p.text = s
	}
}

// says is an event in a few words, or nothing.
func says(kind events.Kind, data []byte) string {
	switch kind {
	case events.KindAccepted:
		return "accepted"
	case events.KindWaiting:
		return saysAs(data, waiting)
	case events.KindClaimed:
		return saysAs(data, func(c events.Claimed) string {
			return join(", ", "taken by "+c.Worker, nth(c.Attempt))
		})
	case events.KindStarted:
		return saysAs(data, func(s events.Started) string {
			return join(", ", "running", prefixed("sandbox ", s.SandboxID), nth(s.Attempt))
		})
	case events.KindStep:
		return saysAs(data, func(s events.Step) string {
			return join(": ", join(" ", strings.ReplaceAll(s.Name, "_", " "), s.State), s.Detail)
		})
	case events.KindProgress:
		return saysAs(data, func(p events.Progress) string {
			if p.Percent > 0 {
				return join(" ", fmt.Sprintf("%.0f%%", p.Percent), p.Message)
			}
			return p.Message
		})
	case events.KindReattached:
		return saysAs(data, func(r events.Reattached) string {
			return "running, joined by " + r.Worker
		})
	case events.KindRetrying:
		return saysAs(data, func(r events.Retrying) string {
			return fmt.Sprintf("attempt %d failed (%s), next in %s: %s", r.Attempt, r.Class, r.Delay, r.Reason)
		})
	case events.KindInterrupted:
		return saysAs(data, func(i events.Interrupted) string { return "handed over: " + i.Reason })
	case events.KindCancelRequested:
		return "cancelling"
	}
	return ""
}

func waiting(w events.Waiting) string {
	s := "waiting for " + w.Why
	switch w.Why {
	case events.WaitLane:
		s = "waiting for its turn"
		if w.Ahead > 0 {
			s = fmt.Sprintf("waiting for %d earlier jobs of the session", w.Ahead)
		}
	case events.WaitQuota:
		s = "waiting for a free sandbox"
	case events.WaitBreaker:
		s = "waiting for E2B to answer again"
	case events.WaitRemote:
		s = "waiting for the git server to answer again"
	case events.WaitDelay:
		s = "waiting for its time"
		if !w.Until.IsZero() {
			s += " (" + w.Until.Local().Format(time.TimeOnly) + ")"
		}
	}
	return join(": ", s, w.Detail)
}

// saysAs decodes data for f. What does not decode is not worth a word here.
func saysAs[T any](data []byte, f func(T) string) string {
	var v T
	if json.Unmarshal(data, &v) != nil {
		return ""
	}
	return f(v)
}

// join joins what is not empty.
func join(sep string, parts ...string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// nth mentions attempts after the first only.
func nth(attempt int) string {
	if attempt < 2 {
		return ""
	}
	return fmt.Sprintf("attempt %d", attempt)
}

// short is a duration as people say it: 4s, 12m, 3h5m, 6d.
func short(d time.Duration) string {
	switch d = d.Truncate(time.Second); {
	case d < 0:
		return "-" + short(-d)
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return strings.Replace(fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60), "h0m", "h", 1)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
