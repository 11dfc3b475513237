package git

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sandjet/sandjet/internal/wire"
)

// Commit is a conventional commit: "type(scope)!: subject".
type Commit struct {
	Type     string `json:"type"`
	Scope    string `json:"scope,omitempty"`
	Subject  string `json:"subject"`
	Body     string `json:"body,omitempty"`
	Breaking bool   `json:"breaking,omitempty"`
	Author   string `json:"author,omitempty"` // "Name <mail>"; empty is the committer
}

// Trailers tie a commit to what made it.
type Trailers struct {
	Task    string // job id
	Session string
}

// Person is an author or committer.
type Person struct{ Name, Email string }

func (p Person) String() string { return p.Name + " <" + p.Email + ">" }

// Keys of the trailers. A commit with our task's trailer is our commit, whoever
// pushed it.
const (
	TrailerTask    = "Sandjet-Task"
	TrailerSession = "Sandjet-Session"
)

const (
	maxSubject = 200
	maxAuthor  = 400
	wrapAt     = 72
	breaking   = "BREAKING CHANGE"
)

var (
	typeRegexp   = regexp.MustCompile(`^[a-z]{1,32}$`)
	scopeRegexp  = regexp.MustCompile(`^[^()\r\n\x00]{1,64}$`)
	authorRegexp = regexp.MustCompile(`^([^<>\r\n\x00]+) <([^<>\s\x00]+)>$`)
	headRegexp   = regexp.MustCompile(`^([a-z]+)(?:\(([^()]+)\))?(!)?: (.+)$`)
	footRegexp   = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9-]*|BREAKING CHANGE)(?:: | #)\S`)
	ownRegexp    = regexp.MustCompile(`(?im)^(?:` + TrailerTask + `|` + TrailerSession + `)[ \t]*:`)
)

func (c *Commit) validate(at string) error {
	switch {
	case !typeRegexp.MatchString(c.Type):
		return problem(at+"/type", `want a commit type such as "feat" or "fix"`)
	case c.Scope != "" && (!scopeRegexp.MatchString(c.Scope) || strings.TrimSpace(c.Scope) != c.Scope):
		return problem(at+"/scope", "want 1 to 64 characters on one line without parentheses")
	case strings.TrimSpace(c.Subject) == "":
		return problem(at+"/subject", "empty")
	case utf8.RuneCountInString(c.Subject) > maxSubject || strings.ContainsAny(c.Subject, "\r\n\x00"):
		return problem(at+"/subject", "want 1 to %d characters on one line", maxSubject)
	case utf8.RuneCountInString(c.Body) > maxBody || strings.ContainsRune(c.Body, 0):
		return problem(at+"/body", "want up to %d characters without NUL", maxBody)
	case ownRegexp.MatchString(strings.ReplaceAll(c.Body, "\r", "\n")):
		// Whoever could write them would pass his commits off as another job's.
		return problem(at+"/body", "%s and %s are written by us", TrailerTask, TrailerSession)
	}
	if c.Author != "" {
		if _, err := ParsePerson(c.Author); err != nil {
			return problem(at+"/author", "%s", err)
		}
	}
	return nil
}

// ParsePerson reads "Name <mail>".
func ParsePerson(s string) (Person, error) {
	m := authorRegexp.FindStringSubmatch(s)
	if m == nil || len(s) > maxAuthor || strings.TrimSpace(m[1]) == "" {
		return Person{}, fmt.Errorf(`want an author such as "Ada Lovelace <ada@example.com>"`)
	}
	return Person{Name: strings.TrimSpace(m[1]), Email: m[2]}, nil
}

// Header is the first line.
func (c *Commit) Header() string {
	var b strings.Builder
	b.WriteString(c.Type)
	if c.Scope != "" {
		b.WriteString("(" + c.Scope + ")")
	}
	if c.Breaking {
		b.WriteString("!")
	}
	b.WriteString(": " + strings.TrimSpace(c.Subject))
	return b.String()
}

// Message is the whole text of the commit: the header, the body with long lines
// of prose wrapped, and the footers, of which a breaking change is one. The
// commit must be valid.
func (c *Commit) Message(t Trailers) string {
	body, foot := splitFooters(clean(c.Body))
	broken, foot := takeBreaking(foot)
	parts := []string{c.Header()}
	if body != "" {
		parts = append(parts, wrap(body, wrapAt))
	}
	if c.Breaking && len(broken) == 0 {
		broken = wrapLine(breaking+": "+strings.TrimSpace(c.Subject), wrapAt)
	}
	if len(broken) > 0 {
		parts = append(parts, strings.Join(broken, "\n"))
	}
	if t.Task != "" {
		foot = append(foot, TrailerTask+": "+t.Task)
	}
	if t.Session != "" {
		foot = append(foot, TrailerSession+": "+t.Session)
	}
	if len(foot) > 0 {
		parts = append(parts, strings.Join(foot, "\n"))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// CheckMessage returns what keeps a text from being a conventional commit.
func CheckMessage(s string) error {
	head, rest, _ := strings.Cut(s, "\n")
	m := headRegexp.FindStringSubmatch(head)
	switch {
	case m == nil:
		return fmt.Errorf(`the first line is not "type(scope): subject"`)
	case utf8.RuneCountInString(m[4]) > maxSubject:
		return fmt.Errorf("the subject is longer than %d characters", maxSubject)
	case rest != "" && !strings.HasPrefix(rest, "\n"):
		return fmt.Errorf("the second line is not empty")
	}
	return nil
}

// ParseMessage reads a conventional commit back, with the trailers in it.
func ParseMessage(s string) (Commit, Trailers, error) {
	if err := CheckMessage(s); err != nil {
		return Commit{}, Trailers{}, err
	}
	head, rest, _ := strings.Cut(s, "\n")
	m := headRegexp.FindStringSubmatch(head)
	c := Commit{Type: m[1], Scope: m[2], Breaking: m[3] == "!", Subject: m[4]}
	body, foot := splitFooters(clean(rest))
	if before, last := lastParagraph(body); strings.HasPrefix(last, breaking+": ") {
		c.Breaking, body = true, before // our own form: a paragraph before the trailers
	}
	c.Body = body
	var t Trailers
	for _, f := range foot {
		switch k, v, _ := strings.Cut(f, ": "); k {
		case TrailerTask:
			t.Task = id(v)
		case TrailerSession:
			t.Session = id(v)
		case breaking, "BREAKING-CHANGE":
			c.Breaking = true
		}
	}
	return c, t, nil
}

func id(s string) string {
	if s = strings.TrimSpace(s); wire.ValidID(s) {
		return s
	}
	return ""
}

// clean makes line ends "\n", and takes blanks off the ends of lines and of the
// text.
func clean(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// splitFooters takes the last paragraph off if it is all footers, so that ours
// join it instead of starting a second block that git would not read.
func splitFooters(body string) (string, []string) {
	before, last := lastParagraph(body)
	lines := strings.Split(last, "\n")
	for n, l := range lines {
		// A footer may go on in indented lines.
		if !footRegexp.MatchString(l) && (n == 0 || !strings.HasPrefix(l, " ")) {
			return body, nil
		}
	}
	return before, lines
}

func lastParagraph(s string) (before, last string) {
	i := strings.LastIndex(s, "\n\n")
	if i < 0 {
		return "", s
	}
	return strings.TrimRight(s[:i], "\n"), s[i+2:]
}

// takeBreaking takes the footers of breaking changes out: git knows no trailer
// with a blank in its name, so among others they would spoil the block.
func takeBreaking(foot []string) (broken, rest []string) {
	in := false
	for _, f := range foot {
		if !strings.HasPrefix(f, " ") {
			in = strings.HasPrefix(f, breaking+": ") || strings.HasPrefix(f, "BREAKING-CHANGE: ")
		}
		if in {
			broken = append(broken, f)
		} else {
			rest = append(rest, f)
		}
	}
	return broken, rest
}

// wrap breaks long lines of prose at blanks. What is indented, quoted, in a fence
// or one long word stays as it is.
func wrap(s string, width int) string {
	var out []string
	fenced := false
	for _, l := range strings.Split(s, "\n") {
		if strings.HasPrefix(l, "```") {
			fenced = !fenced
		}
		if fenced || utf8.RuneCountInString(l) <= width || strings.HasPrefix(l, " ") || strings.HasPrefix(l, "\t") || strings.HasPrefix(l, ">") || strings.HasPrefix(l, "|") {
			out = append(out, l)
			continue
		}
		out = append(out, wrapLine(l, width)...)
	}
	return strings.Join(out, "\n")
}

func wrapLine(l string, width int) []string {
	indent := ""
	if strings.HasPrefix(l, "- ") || strings.HasPrefix(l, "* ") {
		indent = "  "
	}
	var out []string
	line, n := "", 0
	for _, w := range strings.Fields(l) {
		k := utf8.RuneCountInString(w)
		switch {
		case line == "":
			line, n = w, k
		case n+1+k > width:
			out = append(out, line)
			line, n = indent+w, len(indent)+k
		default:
			line, n = line+" "+w, n+1+k
		}
	}
	return append(out, line)
}
