package policy

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Version of the file's form.
const Version = 1

// Policy says what is refused. It does not change; it may be used concurrently. The
// zero Policy is the one without a file.
type Policy struct {
	file  string // its name, for refusals; empty without one
	rules []Rule
}

// Rule is what holds for the owners it names.
type Rule struct {
	Name string
	Line int

	owners    *names
	kinds     *names
	templates *names
	secrets   *names
	repos     *names
	shell     *flag
	argv      *argv
	egress    *Egress
	guarded   guarded
	caps      caps
}

// flag is a setting that was written down.
type flag struct {
	on   bool
	line int
}

// names is a list of globs; nil is everything.
type names struct {
	line int
	list []glob
}

func (n *names) match(s string) bool {
	if n == nil {
		return true
	}
	for _, g := range n.list {
		if g.match(s) {
			return true
		}
	}
	return false
}

// says lists what would have been taken.
func (n *names) says() string {
	if len(n.list) == 0 {
		return "nothing"
	}
	texts := make([]string, len(n.list))
	for i, g := range n.list {
		texts[i] = g.text
	}
	return strings.Join(texts, ", ")
}

// glob is a text in which a star stands for any text.
type glob struct {
	text string
	re   *regexp.Regexp
}

func newGlob(s string) glob {
	parts := strings.Split(s, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return glob{text: s, re: regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`)}
}

func (g glob) match(s string) bool { return g.re.MatchString(s) }

// caps are upper limits; a nil one is none.
type caps struct {
	timeout, silent, idle, age *limit
	attempts                   *limit
}

// limit is an upper limit. It is a duration, or a number.
type limit struct {
	max  int64
	line int
}

// Default is the policy without a file: everything is allowed that Sandjet takes,
// but for pushes to the guarded paths.
func Default() *Policy { return &Policy{} }

// Rules returns the rules in their order, none without a file.
func (p *Policy) Rules() []Rule { return p.rules }

// rule returns the rule for an owner, nil if there is none.
func (p *Policy) rule(owner string) *Rule {
	for i := range p.rules {
		if r := &p.rules[i]; r.owners == nil || owner != "" && r.owners.match(owner) {
			return r
		}
	}
	return nil
}

// open reports whether there is no file.
func (p *Policy) open() bool { return p.file == "" }

// Refusal says that the policy refuses something, and why.
type Refusal struct {
	File    string // its name without directories
	Line    int    // of the setting that refuses; 0 if no rule is for the owner
	Rule    string // its name
	Pointer string // JSON pointer to what is refused in the job's body, if it is one field
	Reason  string
}

// Error names rule and line.
func (r *Refusal) Error() string {
	if r.Line == 0 {
		return fmt.Sprintf("%s: %s", r.File, r.Reason)
	}
	return fmt.Sprintf("%s:%d, rule %q: %s", r.File, r.Line, r.Rule, r.Reason)
}

func (p *Policy) refuse(r *Rule, line int, pointer, format string, args ...any) error {
	return &Refusal{File: p.file, Line: line, Rule: r.Name, Pointer: pointer, Reason: fmt.Sprintf(format, args...)}
}

func (p *Policy) nobody(owner string) error {
	who := "owner " + owner
	if owner == "" {
		who = "jobs without a proven owner"
	}
	return &Refusal{File: p.file, Reason: "no rule is for " + who + ": add one, or publish with the owner in the subject"}
}

func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
