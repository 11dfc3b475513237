package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	posix  = syntax.LangPOSIX
	unread = syntax.LangVariant(-1) // a shell whose scripts are not read
	// maxDepth is how many shells may be in each other.
	maxDepth = 8
)

var shells = map[string]syntax.LangVariant{
	"sh": posix, "dash": posix, "ash": posix, "bash": syntax.LangBash, "rbash": syntax.LangBash,
	"mksh": syntax.LangMirBSDKorn, "ksh": unread, "zsh": unread, "fish": unread, "csh": unread, "tcsh": unread, "su": unread,
}

func shellOf(w word) (syntax.LangVariant, bool) {
	if !w.known {
		return 0, false
	}
	lang, ok := shells[path.Base(w.text)]
	return lang, ok
}

// Commands of the shell itself: some only change the shell, the others run text that
// cannot be read here.
var (
	builtins = []string{
		":", "true", "false", "cd", "pwd", "echo", "test", "[", "exit", "return", "break", "continue",
		"shift", "set", "unset", "export", "readonly", "local", "read", "wait", "umask", "getopts",
	}
	setters = []string{"export", "readonly", "local", "read", "getopts", "unset"}
	runText = []string{"eval", ".", "source", "alias", "trap", "fc", "enable", "bind", "mapfile", "readarray"}
)

func harmless(w word) bool { return w.known && slices.Contains(builtins, w.text) }

// variables that say what program a name is, or run one.
func steers(name string) bool {
	return slices.Contains([]string{"PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS4", "CDPATH"}, name) ||
		strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "BASH_FUNC_")
}

// unreadable refuses a script; the line is that of the rules that it cannot be held
// against.
func (v *visit) unreadable(format string, args ...any) error {
	return v.refuse(v.r.argv.line, "the script cannot be held against argv: %s; use argv, or write it more plainly", fmt.Sprintf(format, args...))
}

// shell checks what a shell is told to run.
func (v *visit) shell(cmd []word, lang syntax.LangVariant, depth int) error {
	script, ok := scriptOf(cmd[1:])
	switch {
	case !ok:
		return v.unreadable("%q is not given one with -c that is written out", cmd[0].text)
	case lang == unread:
		return v.unreadable("scripts of %q are not read", cmd[0].text)
	}
	return v.script(script, lang, depth)
}

// scriptOf finds what follows -c in the words of a shell.
func scriptOf(args []word) (string, bool) {
	c := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case !a.known, strings.HasPrefix(a.text, "--"):
			return "", false
		case len(a.text) > 1 && (a.text[0] == '-' || a.text[0] == '+'):
			c = c || a.text[0] == '-' && strings.Contains(a.text, "c")
			if strings.ContainsAny(a.text, "oO") {
				i++ // the name of an option
			}
		default:
			return a.text, c
		}
	}
	return "", false
}

// script checks all commands of a script, wherever they stand in it.
func (v *visit) script(text string, lang syntax.LangVariant, depth int) (err error) {
	if depth == maxDepth {
		return v.unreadable("more than %d shells are in each other", maxDepth)
	}
	defer func() {
		if x := recover(); x != nil {
			err = v.unreadable("it cannot be read")
		}
	}()
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
	if err != nil {
		return v.unreadable("%v", err)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if err == nil {
			err = v.node(n, depth)
		}
		return err == nil
	})
	return err
}

func (v *visit) node(n syntax.Node, depth int) error {
	switch n := n.(type) {
	case *syntax.Assign:
		if n.Name != nil && steers(n.Name.Value) {
			return v.steered(n.Name.Value)
		}
	case *syntax.WordIter:
		if steers(n.Name.Value) {
			return v.steered(n.Name.Value)
		}
	case *syntax.ParamExp:
		if n.Param != nil && n.Exp != nil && steers(n.Param.Value) {
			return v.steered(n.Param.Value)
		}
	case *syntax.FuncDecl:
		if n.Name != nil {
			return v.unreadable("it gives the name %q to a function", n.Name.Value)
		}
	case *syntax.CallExpr:
		if len(n.Args) > 0 {
			return v.call(n.Args, depth)
		}
	}
	return nil
}

func (v *visit) call(args []*syntax.Word, depth int) error {
	cmd := make([]word, len(args))
	for i, a := range args {
		cmd[i] = literal(a)
	}
	switch {
	case !cmd[0].known:
		return v.unreadable("the name of a command in line %d is only known when it runs", args[0].Pos().Line())
	case slices.Contains(runText, cmd[0].text):
		return v.unreadable("%s in line %d runs text", cmd[0].text, args[0].Pos().Line())
	case slices.Contains(setters, cmd[0].text):
		if err := v.setter(cmd[1:]); err != nil {
			return err
		}
	}
	return v.command(cmd, depth+1)
}

// setter checks the words of a builtin that sets the variables they name.
func (v *visit) setter(args []word) error {
	for _, w := range args {
		name, _, _ := strings.Cut(w.text, "=")
		if !w.known || steers(name) {
			return v.steered(name)
		}
	}
	return nil
}

func (v *visit) steered(name string) error {
	if name == "" {
		name = "a variable whose name is only known when it runs"
	}
	return v.unreadable("it sets %s, which may decide what is run", name)
}

// literal is a word as the command gets it, if that can be told from the script.
func literal(w *syntax.Word) word {
	var out strings.Builder
	for i, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			text, ok := plain(part.Value)
			if !ok || i == 0 && strings.HasPrefix(part.Value, "~") {
				return word{}
			}
			out.WriteString(text)
		case *syntax.SglQuoted:
			if part.Dollar {
				return word{}
			}
			out.WriteString(part.Value)
		case *syntax.DblQuoted:
			text, ok := quoted(part)
			if !ok {
				return word{}
			}
			out.WriteString(text)
		default:
			return word{}
		}
	}
	return word{out.String(), true}
}

// plain takes the backslashes out of unquoted text. Text that the shell makes names
// of files or several words of is not known.
func plain(s string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				out.WriteByte(s[i])
			}
		case c == '*' || c == '?' || c == '[' && len(s) > 1:
			return "", false
		case c == '$' || c == '{' && s != "{}": // not to every shell, but /bin/sh may be any
			return "", false
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), true
}

// quoted is text in double quotes without its backslashes.
func quoted(q *syntax.DblQuoted) (string, bool) {
	var out strings.Builder
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || q.Dollar {
			return "", false
		}
		s := lit.Value
		for i := 0; i < len(s); i++ {
			if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
				i++
				if s[i] == '\n' {
					continue
				}
			}
			out.WriteByte(s[i])
		}
	}
	return out.String(), true
}
