package jobs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandjet/sandjet/internal/wire"
)

// Priority orders jobs before they are fetched. A running job is never
// preempted.
type Priority int

// The priorities. Normal is the zero value and has no token in the subject.
const (
	Low    Priority = -1
	Normal Priority = 0
	High   Priority = 1
)

// String returns "high", "normal" or "low".
func (p Priority) String() string {
	switch p {
	case High:
		return "high"
	case Low:
		return "low"
	}
	return "normal"
}

// ParsePriority reads "high", "normal", "low" or "" (normal).
func ParsePriority(s string) (Priority, error) {
	switch s {
	case "high":
		return High, nil
	case "", "normal":
		return Normal, nil
	case "low":
		return Low, nil
	}
	return Normal, fmt.Errorf("priority %q: want high, normal or low", s)
}

// First tokens of our subjects that are no kind.
const (
	tokenAgain    = "again"
	tokenSchedule = "schedule"
	tokenDead     = "dead"
)

// Address is what a job's subject says: [high.|low.]<kind>[.<owner>].
type Address struct {
	Kind     Kind
	Priority Priority
	Owner    string // proven by NATS permissions, when there
}

// Subject builds the subject of a.
func (a Address) Subject(ns wire.Namespace) string {
	tokens := make([]string, 0, 3)
	if a.Priority != Normal {
		tokens = append(tokens, a.Priority.String())
	}
	tokens = append(tokens, string(a.Kind))
	if a.Owner != "" {
		tokens = append(tokens, a.Owner)
	}
	return ns.Subject(tokens...)
}

// ParseSubject reads a job's subject. again is true for one that came back from
// a schedule. With an error the address holds what could be read.
func ParseSubject(ns wire.Namespace, subject string) (a Address, again bool, err error) {
	rest, ok := ns.Trim(subject)
	if !ok {
		return a, false, fmt.Errorf("subject %q is not of namespace %q", subject, string(ns))
	}
	if r, ok := strings.CutPrefix(rest, tokenAgain+"."); ok {
		again, rest = true, r
	}
	if r, ok := strings.CutPrefix(rest, "high."); ok {
		a.Priority, rest = High, r
	} else if r, ok := strings.CutPrefix(rest, "low."); ok {
		a.Priority, rest = Low, r
	}
	group, rest, _ := strings.Cut(rest, ".")
	verb, owner, owned := strings.Cut(rest, ".")
	if group == "" || verb == "" {
		return a, again, fmt.Errorf("subject %q has no kind: want [high.|low.]<kind>[.<owner>]", subject)
	}
	a.Kind = Kind(group + "." + verb)
	if owned {
		if err := wire.CheckID("owner in the subject", owner); err != nil {
			return a, again, err
		}
		a.Owner = owner
	}
	return a, again, nil
}

// jobSubjects lists what JOBS takes in: all of the groups that kinds are in, in
// every priority. So a kind that is misspelt ends as a dead letter with the reason;
// with the exact kinds alone the server would drop it without a word.
func jobSubjects(ns wire.Namespace) []string {
	var out []string
	for _, prefix := range []string{"", "high.", "low."} {
		for _, group := range kindGroups() {
			out = append(out, ns.Subject(prefix+group, ">"))
		}
	}
	return out
}

// kindGroups lists the first tokens of all kinds.
func kindGroups() []string {
	var out []string
	for _, k := range Kinds() {
		if group, _, _ := strings.Cut(string(k), "."); !slices.Contains(out, group) {
			out = append(out, group)
		}
	}
	return out
}

// normalFilters lists the subjects of jobs without a priority token: one
// wildcard for each first token of a kind, so that a new kind of a known group
// changes no consumer.
func normalFilters(ns wire.Namespace) []string {
	var out []string
	for _, group := range kindGroups() {
		out = append(out, ns.Subject(group, ">"))
	}
	return out
}

// againSubject is where a job's schedule fires to; subject is the job's own.
func againSubject(ns wire.Namespace, subject string) string {
	rest, _ := ns.Trim(subject)
	return ns.Subject(tokenAgain, rest)
}

// homeSubject takes "again." off a subject.
func homeSubject(ns wire.Namespace, subject string) string {
	rest, _ := ns.Trim(subject)
	return ns.Subject(strings.TrimPrefix(rest, tokenAgain+"."))
}

// scheduleSubject names a job's place among the schedules. A job has one.
func scheduleSubject(ns wire.Namespace, session, job string) string {
	return ns.Subject(tokenSchedule, session, job)
}
