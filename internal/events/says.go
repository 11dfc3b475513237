package events

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/session"
)

// Says tells an event in one sentence for people.
func Says(e Event) string {
	s, err := says(e)
	if err != nil {
		return fmt.Sprintf("%s, with a payload that cannot be read", e.Kind)
	}
	return s
}

func says(e Event) (string, error) {
	switch e.Kind {
	case KindAccepted:
		return say(e, func(a Accepted) string { return with(a.Kind+" accepted", by("of ", a.Owner)) })
	case KindWaiting:
		return say(e, saysWaiting)
	case KindClaimed:
		return say(e, saysClaimed)
	case KindStarted:
		return say(e, func(s Started) string {
			return with(fmt.Sprintf("attempt %d started", s.Attempt), by("in sandbox ", s.SandboxID), by("running ", clip(strings.Join(s.Argv, " "), 60)))
		})
	case KindStep:
		return say(e, func(s Step) string { return with("step "+s.Name+" "+s.State, by("", s.Detail)) })
	case KindProgress:
		return say(e, func(p Progress) string {
			if p.Percent == 0 {
				return with("progress", by("", p.Message))
			}
			return with(fmt.Sprintf("%g%% done", p.Percent), by("", p.Message))
		})
	case KindReattached:
		return say(e, func(r Reattached) string {
			return fmt.Sprintf("worker %s joined the running command of attempt %d at byte %d of stdout and %d of stderr",
				r.Worker, r.Attempt, r.StdoutOffset, r.StderrOffset)
		})
	case KindRetrying:
		return say(e, func(r Retrying) string {
			return with(fmt.Sprintf("attempt %d failed (%s)", r.Attempt, r.Class), by("", r.Reason), "tried again in "+r.Delay.String())
		})
	case KindInterrupted:
		return say(e, func(i Interrupted) string { return with("worker "+i.Worker+" let go of the job", by("", i.Reason)) })
	case KindCancelRequested:
		return say(e, func(c CancelRequested) string { return with("cancel asked for", by("by ", c.By), by("", c.Reason)) })
	case Stdout, Stderr:
		return fmt.Sprintf("%s up to byte %d", e.Kind, e.End()), nil
	case Succeeded, Failed, Cancelled, Dead:
		return say(e, func(o Outcome) string { return saysOutcome(e.Kind, o) })
	case SessionState:
		return say(e, func(r session.Record) string { return with("session is "+string(r.State), by("", r.Reason)) })
	}
	return string(e.Kind), nil
}

// say reads the payload of e and tells it.
func say[T any](e Event, tell func(T) string) (string, error) {
	var v T
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &v); err != nil {
			return "", err
		}
	}
	return tell(v), nil
}

func saysWaiting(w Waiting) string {
	why := map[string]string{
		WaitLane:       "an earlier job of the session",
		WaitQuota:      "a free sandbox slot",
		WaitRate:       "a rate limit to pass",
		WaitBreaker:    "E2B to answer again",
		WaitRemote:     "the git server to answer again",
		WaitDelay:      "its time to come",
		WaitTransition: "the sandbox to settle",
		WaitVersion:    "a worker that knows its version",
	}[w.Why]
	if why == "" {
		why = w.Why
	}
	if w.Why == WaitLane && w.Ahead == 0 && w.Detail != "" {
		why = "its turn"
	}
	s := "waits for " + why
	if w.Ahead > 0 {
		s = fmt.Sprintf("%s (%d ahead)", s, w.Ahead)
	}
	var until string
	if !w.Until.IsZero() {
		until = "until " + w.Until.UTC().Format(time.RFC3339) + " at the latest"
	}
	return with(s, by("", w.Detail), until)
}

func saysClaimed(c Claimed) string {
	s := fmt.Sprintf("worker %s claimed it for attempt %d", c.Worker, c.Attempt)
	if c.Takeover {
		s = fmt.Sprintf("worker %s took it over in attempt %d after its holder vanished", c.Worker, c.Attempt)
	}
	if c.Crashes > 0 {
		s = fmt.Sprintf("%s (%d crashes in a row)", s, c.Crashes)
	}
	return s
}

func saysOutcome(k Kind, o Outcome) string {
	s := map[Kind]string{Succeeded: "succeeded", Failed: "failed", Cancelled: "cancelled", Dead: "given up for dead"}[k]
	if o.Class != "" && o.Class != "ok" && o.Class != string(k) {
		s = fmt.Sprintf("%s (%s)", s, o.Class)
	}
	var end string
	switch {
	case o.Signal != "":
		end = "by signal " + o.Signal
	case o.ExitCode != nil && (k != Succeeded || *o.ExitCode != 0):
		end = fmt.Sprintf("exit code %d", *o.ExitCode)
	}
	took := fmt.Sprintf("after %s", (time.Duration(o.DurationMS) * time.Millisecond).String())
	if o.Attempts > 1 {
		took = fmt.Sprintf("%s and %d attempts", took, o.Attempts)
	}
	var pull string
	if o.PullRequest != nil {
		pull = o.PullRequest.URL
	}
	return with(s, end, by("", o.Reason), by("", pull), took)
}

// by is prefix and what, or nothing without what.
func by(prefix, what string) string {
	if what == "" {
		return ""
	}
	return prefix + what
}

// with joins what is there by commas.
func with(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		if p == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p)
	}
	return b.String()
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
