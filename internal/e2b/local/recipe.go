package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// recipe says how a template is made, in a part of the Dockerfile's language.
type recipe struct {
	file    string // for messages
	context string // where COPY takes files from
	text    []byte
	steps   []step
}

// step is one instruction.
type step struct {
	line int
	op   string // in capitals
	rest string
}

// recipeNames are the files that make a directory a template's.
var recipeNames = []string{"Dockerfile", "e2b.Dockerfile"}

// skipMark, as a comment before an instruction, leaves it to those who build the
// recipe elsewhere: what it would install is the machine's here.
const skipMark = "devstack: skip"

// readRecipe reads the recipe of one template; nil means that there is none.
func readRecipe(dir string) (*recipe, error) {
	for _, name := range recipeNames {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the template: %w", err)
		}
		r := &recipe{file: file, context: dir, text: text}
		return r, r.parse()
	}
	return nil, nil
}

// at is an error of a step, with its place.
func (r *recipe) at(s step, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s: %w", r.file, s.line, s.op, fmt.Errorf(format, args...))
}

var instruction = regexp.MustCompile(`^\s*([A-Za-z]+)(?:\s+(.*))?$`)

func (r *recipe) parse() error {
	var open *step // goes on in the next line
	skip, froms := false, 0
	for i, line := range strings.Split(string(r.text), "\n") {
		line = strings.TrimRight(line, " \t\r")
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#"); ok {
			skip = skip || strings.HasPrefix(strings.TrimSpace(comment), skipMark)
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if open == nil {
			m := instruction.FindStringSubmatch(line)
			if m == nil {
				return fmt.Errorf("%s:%d: no instruction: %.80s", r.file, i+1, line)
			}
			open, line = &step{line: i + 1, op: strings.ToUpper(m[1])}, m[2]
		}
		part, more := strings.CutSuffix(line, `\`)
		open.rest += part
		if more {
			continue
		}
		open.rest = strings.TrimSpace(open.rest)
		if err := r.check(*open, &froms); err != nil {
			return err
		}
		if !skip {
			r.steps = append(r.steps, *open)
		}
		open, skip = nil, false
	}
	if open != nil {
		return r.at(*open, "the file ends in the middle of it")
	}
	if froms == 0 {
		return fmt.Errorf("%s:1: no FROM", r.file)
	}
	return nil
}

func (r *recipe) check(s step, froms *int) error {
	switch s.op {
	case "FROM":
		if *froms++; *froms > 1 {
			return r.at(s, "a second stage is not supported")
		}
	case "ARG", "LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL":
	case "ENV", "WORKDIR", "USER", "COPY", "ADD", "RUN", "CMD", "ENTRYPOINT":
		if *froms == 0 {
			return r.at(s, "it comes before FROM")
		}
		if strings.Contains(s.rest, "<<") && regexp.MustCompile(`<<-?["']?[A-Z]`).MatchString(s.rest) {
			return r.at(s, "here-documents are not supported")
		}
	default:
		return r.at(s, "not supported; there are FROM, ARG, ENV, WORKDIR, USER, COPY, RUN, CMD and ENTRYPOINT")
	}
	if s.rest == "" {
		return r.at(s, "nothing follows it")
	}
	return nil
}

// argv is a command: JSON as it is, else a line of shell.
func (s step) argv() []string {
	var list []string
	if json.Unmarshal([]byte(s.rest), &list) == nil && len(list) > 0 {
		return list
	}
	return []string{"/bin/sh", "-c", s.rest}
}

// flags takes the leading --name=value words away.
func (s step) flags() (flags map[string]string, words []string, err error) {
	if words, err = split(s.rest); err != nil {
		return nil, nil, err
	}
	flags = make(map[string]string)
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		name, value, _ := strings.Cut(words[0][2:], "=")
		flags[name] = value
		words = words[1:]
	}
	return flags, words, nil
}

// split splits into words as a shell does, without its expansions.
func split(s string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	in := false
	runes := []rune(s)
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(runes):
			i++
			word.WriteRune(runes[i])
			in = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote that is not closed")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

var variable = regexp.MustCompile(`\\\$|\$\{(\w+)(?::([-+])([^}]*))?\}|\$(\w+)`)

// fill puts variables in: $A, ${A}, ${A:-if empty} and ${A:+if not}.
func fill(s string, vars map[string]string) string {
	return variable.ReplaceAllStringFunc(s, func(found string) string {
		m := variable.FindStringSubmatch(found)
		value := vars[m[1]+m[4]]
		switch {
		case found == `\$`:
			return "$"
		case m[2] == "-" && value == "":
			return m[3]
		case m[2] == "+" && value == "":
			return ""
		case m[2] == "+":
			return m[3]
		}
		return value
	})
}
