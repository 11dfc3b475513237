package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxFile is how long a policy file may be.
const MaxFile = 1 << 20

// Fault says what is wrong with a policy file, where, and what is wanted there.
type Fault struct {
	File   string // its name without directories
	Line   int
	Path   string // of the setting, such as rules[2].kinds
	Reason string
}

// Error names file, line and setting.
func (f *Fault) Error() string {
	if f.Path == "" {
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Reason)
	}
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Path, f.Reason)
}

// Parse reads a policy. All faults are reported together, each a *Fault. kinds are
// the kinds of job that there are; a rule for others is a fault.
func Parse(name string, data []byte, kinds []string) (*Policy, error) {
	r := &reader{file: filepath.Base(name), kinds: kinds}
	p := &Policy{file: r.file}
	r.document(data, p)
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	return p, nil
}

// reader goes through the nodes of a file.
type reader struct {
	file   string
	kinds  []string
	faults []error
}

func (r *reader) fault(line int, path, format string, args ...any) {
	r.faults = append(r.faults, &Fault{File: r.file, Line: max(line, 1), Path: path, Reason: fmt.Sprintf(format, args...)})
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (r *reader) document(data []byte, p *Policy) {
	if len(data) > MaxFile {
		r.fault(1, "", "has %d bytes, at most %d are taken", len(data), MaxFile)
		return
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&doc)
	if err == nil && !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
		err = errors.New("there is more than one document in it")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		m := yamlLine.FindStringSubmatch(err.Error())
		line := 0
		if len(m) > 1 {
			line, _ = strconv.Atoi(m[1])
		}
		r.fault(line, "", "cannot be read as YAML: %s", yamlLine.ReplaceAllString(err.Error(), ""))
		return
	}
	if len(doc.Content) != 1 {
		r.fault(1, "", "is empty: want version and rules; to allow everything, give no policy file")
		return
	}
	seen := r.fields(doc.Content[0], "", map[string]func(*yaml.Node, string){
		"version": func(n *yaml.Node, path string) {
			if n.Value != strconv.Itoa(Version) {
				r.fault(n.Line, path, "want %d", Version)
			}
		},
		"rules": func(n *yaml.Node, path string) { p.rules = r.rules(n, path) },
	})
	for _, name := range []string{"version", "rules"} {
		if seen != nil && !seen[name] {
			r.fault(doc.Content[0].Line, name, "is missing")
		}
	}
}

// fields reads a mapping. It returns what fields there were, nil if it is none.
func (r *reader) fields(n *yaml.Node, path string, known map[string]func(*yaml.Node, string)) map[string]bool {
	if !r.plain(n, path, yaml.MappingNode, "names and values") {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		switch {
		case read == nil || key.Kind != yaml.ScalarNode || key.Anchor != "":
			r.fault(key.Line, path, "there is no field %q: want %s", clip(key.Value), strings.Join(sorted(known), ", "))
		case seen[key.Value]:
			r.fault(key.Line, at, "stands twice")
		default:
			seen[key.Value] = true
			read(value, at)
		}
	}
	return seen
}

// plain reports whether a node is of a kind, and is written down where it stands.
func (r *reader) plain(n *yaml.Node, path string, kind yaml.Kind, want string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fault(n.Line, path, "anchors and aliases are not taken: write it out")
	case n.Kind != kind, n.ShortTag() == "!!null":
		r.fault(n.Line, path, "want %s", want)
	case n.Style&yaml.TaggedStyle != 0:
		r.fault(n.Line, path, "tags are not taken: write it without")
	default:
		return true
	}
	return false
}

func (r *reader) rules(n *yaml.Node, path string) (out []Rule) {
	if !r.plain(n, path, yaml.SequenceNode, "a list of rules") {
		return nil
	}
	names := map[string]int{}
	all := 0
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		rule := r.rule(item, at)
		if first := names[rule.Name]; first > 0 && rule.Name != "" {
			r.fault(item.Line, at+".name", "is the name of the rule in line %d too", first)
		}
		names[rule.Name] = item.Line
		if all > 0 {
			r.fault(item.Line, at, "is never reached: the rule in line %d is for everybody; put it last", all)
		}
		if rule.owners == nil {
			all = item.Line
		}
		out = append(out, rule)
	}
	return out
}

func (r *reader) rule(n *yaml.Node, path string) Rule {
	rule := Rule{Line: n.Line}
	list := func(to **names, check func(string) error) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) { *to = r.names(n, path, check) }
	}
	seen := r.fields(n, path, map[string]func(*yaml.Node, string){
		"name":      func(n *yaml.Node, path string) { rule.Name = r.text(n, path) },
		"owners":    list(&rule.owners, checkOwner),
		"kinds":     list(&rule.kinds, r.checkKind),
		"templates": list(&rule.templates, nil),
		"secrets":   list(&rule.secrets, checkSecretName),
		"repos":     list(&rule.repos, nil),
		"shell": func(n *yaml.Node, path string) {
			if on, ok := r.flag(n, path); ok {
				rule.shell = &flag{on, n.Line}
			}
		},
		"argv":          func(n *yaml.Node, path string) { rule.argv = r.argv(n, path) },
		"egress":        func(n *yaml.Node, path string) { rule.egress = r.egress(n, path) },
		"guarded_paths": func(n *yaml.Node, path string) { rule.guarded = r.guarded(n, path) },
		"caps":          func(n *yaml.Node, path string) { rule.caps = r.caps(n, path) },
	})
	switch {
	case seen != nil && !seen["name"]:
		r.fault(n.Line, path+".name", "is missing: refusals name the rule")
	case seen["owners"] && rule.owners == nil:
		rule.owners = &names{} // a fault, and not a rule for everybody
	}
	return rule
}

func (r *reader) argv(n *yaml.Node, path string) *argv {
	a := &argv{line: n.Line}
	seen := r.fields(n, path, map[string]func(*yaml.Node, string){
		"allow": func(n *yaml.Node, path string) {
			a.line, a.allow = n.Line, append([]command{}, r.commands(n, path)...)
		},
		"deny": func(n *yaml.Node, path string) { a.deny = r.commands(n, path) },
	})
	if seen != nil && len(seen) == 0 {
		r.fault(n.Line, path, "want allow, deny or both")
	}
	return a
}

func (r *reader) commands(n *yaml.Node, path string) (out []command) {
	l := r.names(n, path, func(s string) error {
		c := newCommand(s, 0)
		if len(c.words) == 0 && !c.more || strings.ContainsAny(s, "'\"\n") {
			return errors.New(`want words such as "npm test" or "git **", without quotes`)
		}
		return nil
	})
	if l == nil {
		return nil
	}
	for i, g := range l.list {
		out = append(out, newCommand(g.text, n.Content[i].Line))
	}
	return out
}

func (r *reader) egress(n *yaml.Node, path string) *Egress {
	e := &Egress{line: n.Line}
	seen := r.fields(n, path, map[string]func(*yaml.Node, string){
		"internet": func(n *yaml.Node, path string) { e.Internet, _ = r.flag(n, path) },
		"allow": func(n *yaml.Node, path string) {
			e.line = n.Line
			e.Allow = r.names(n, path, checkDestination).texts()
		},
	})
	switch {
	case seen != nil && len(seen) == 0:
		r.fault(n.Line, path, "want internet or allow")
	case e.Internet && seen["allow"]:
		r.fault(n.Line, path, "allow lists the only destinations, and internet allows all: take one of them out")
	}
	return e
}

func (r *reader) guarded(n *yaml.Node, path string) (g guarded) {
	r.fields(n, path, map[string]func(*yaml.Node, string){
		"add":   func(n *yaml.Node, path string) { g.add = r.names(n, path, checkPattern) },
		"allow": func(n *yaml.Node, path string) { g.allow = r.names(n, path, checkPattern) },
	})
	return g
}

func (r *reader) caps(n *yaml.Node, path string) (c caps) {
	duration := func(to **limit) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) {
			d, err := time.ParseDuration(r.text(n, path))
			if err != nil || d <= 0 {
				r.fault(n.Line, path, `want a duration such as 90s or 5m`)
			}
			*to = &limit{int64(d), n.Line}
		}
	}
	r.fields(n, path, map[string]func(*yaml.Node, string){
		"timeout": duration(&c.timeout), "silent_timeout": duration(&c.silent),
		"idle_timeout": duration(&c.idle), "max_age": duration(&c.age),
		"max_attempts": func(n *yaml.Node, path string) {
			i, err := strconv.Atoi(n.Value)
			if err != nil || i < 1 || i > math.MaxInt32 || n.Kind != yaml.ScalarNode {
				r.fault(n.Line, path, "want a whole number from 1")
			}
			c.attempts = &limit{int64(i), n.Line}
		},
	})
	return c
}

// names reads a list of texts; nil if there was a fault with all of it.
func (r *reader) names(n *yaml.Node, path string, check func(string) error) *names {
	if !r.plain(n, path, yaml.SequenceNode, "a list, such as [one, two]; [] allows nothing") {
		return nil
	}
	out := &names{line: n.Line}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		text := r.text(item, at)
		if text != "" && check != nil {
			if err := check(text); err != nil {
				r.fault(item.Line, at, "%q: %v", clip(text), err)
			}
		}
		out.list = append(out.list, newGlob(text))
	}
	return out
}

// text reads a text that is not empty.
func (r *reader) text(n *yaml.Node, path string) string {
	if !r.plain(n, path, yaml.ScalarNode, "a text") {
		return ""
	}
	if n.ShortTag() != "!!str" {
		r.fault(n.Line, path, "want a text: put %s in quotes", clip(n.Value))
		return ""
	}
	if strings.TrimSpace(n.Value) == "" {
		r.fault(n.Line, path, "is empty")
	}
	return n.Value
}

func (r *reader) flag(n *yaml.Node, path string) (on, ok bool) {
	if n.ShortTag() != "!!bool" || n.Decode(&on) != nil {
		r.fault(n.Line, path, "want true or false")
		return false, false
	}
	return on, true
}

func checkOwner(s string) error {
	if ownerRegexp.MatchString(s) {
		return nil
	}
	return errors.New("want an owner, A-Z a-z 0-9 _ - and * for any text")
}

func checkSecretName(s string) error {
	if secretRegexp.MatchString(s) {
		return nil
	}
	return errors.New("want the name of a secret, A-Z a-z 0-9 _ . - and * for any text")
}

var (
	ownerRegexp  = regexp.MustCompile(`^[A-Za-z0-9_*-]{1,64}$`)
	secretRegexp = regexp.MustCompile(`^[A-Za-z0-9_*][A-Za-z0-9_.*-]{0,127}$`)
)

func (r *reader) checkKind(s string) error {
	g := newGlob(s)
	if len(r.kinds) == 0 || slices.ContainsFunc(r.kinds, g.match) {
		return nil
	}
	return fmt.Errorf("there is no such kind: want some of %s", strings.Join(r.kinds, ", "))
}

func sorted[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	return s[:80] + "…"
}
