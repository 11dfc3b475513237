package git

import (
	"context"
	"strings"
)

// Forge is where pull requests are made. It may be used concurrently.
type Forge interface {
	// Ensure finds the pull request of a branch and brings it up to date, or opens
	// it. It may be repeated, also after an answer was lost: there is one pull
	// request in the end. Errors are *Error.
	Ensure(context.Context, Pull) (Pulled, error)
}

// Pull is a pull request as it should be.
type Pull struct {
	Remote    Remote
	Head      string // the branch that was pushed
	Base      string // empty is the default branch
	Title     string
	Body      string
	Draft     bool
	Labels    []string
	Reviewers []string // users, or "organisation/team"
	// Task is the job's id. A pull request that carries its mark is the job's, even
	// if somebody has closed it since.
	Task string
}

// Pulled is a pull request that is there.
type Pulled struct {
	Number int // 0: nothing to merge, none was opened
	URL    string
	State  string // "open", "closed" or "merged"
	Draft  bool
	// Adopted reports whether it was there already.
	Adopted bool
	// Warnings are what could not be done to it: a label that may not be set, a
	// reviewer who is unknown. The pull request stands all the same.
	Warnings []string
}

// Mark is the line in a body by which a job knows its pull request again. It is
// not shown to readers.
func Mark(task string) string { return "<!-- sandjet-task: " + task + " -->" }

// BodyParts are what the text of a pull request is made of. What is empty is left
// out.
type BodyParts struct {
	Text    string // what the publisher wrote, or the commit's body
	Task    string
	Session string
	Owner   string
	Link    string // to the job's page
	Summary string // Changes.Summary
	Stat    string // Changes.Stat
	Warning []string
}

const maxPullBody = 65536 // characters that GitHub takes

// Body is the text of a pull request: what was written, the task and its session,
// the diffstat, and the mark at the end.
func Body(p BodyParts) string {
	var b strings.Builder
	for _, w := range p.Warning {
		b.WriteString("> **Note:** " + oneLine(w) + "\n\n")
	}
	var facts []string
	if p.Task != "" {
		t := "task `" + p.Task + "`"
		if strings.HasPrefix(p.Link, "https://") || strings.HasPrefix(p.Link, "http://") {
			t = "task [`" + p.Task + "`](" + strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "\n", "").Replace(p.Link) + ")"
		}
		facts = append(facts, t)
	}
	if p.Session != "" {
		facts = append(facts, "session `"+p.Session+"`")
	}
	if p.Owner != "" {
		facts = append(facts, "for `"+p.Owner+"`")
	}
	var tail strings.Builder
	if len(facts) > 0 {
		tail.WriteString("---\nMade by " + strings.Join(facts, ", ") + ".\n")
	}
	if p.Stat != "" {
		tail.WriteString("\n<details><summary>" + p.Summary + "</summary>\n\n```\n" + p.Stat + "```\n\n</details>\n")
	}
	if p.Task != "" {
		tail.WriteString("\n" + Mark(p.Task) + "\n")
	}
	text := strings.TrimSpace(strings.ReplaceAll(p.Text, "<!-- sandjet-task:", "<!-- "))
	if room := maxPullBody - b.Len() - tail.Len() - 16; len(text) > room {
		text = clip(text, max(0, room))
	}
	if text != "" {
		b.WriteString(text + "\n\n")
	}
	return b.String() + tail.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }
