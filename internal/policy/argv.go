package policy

import (
	"path"
	"slices"
	"strings"
)

// argv are the rules for commands.
type argv struct {
	allow []command // nil: all that is not denied
	deny  []command
	line  int // of allow
}

// command is one line of them.
type command struct {
	text  string
	line  int
	words []glob
	more  bool // further words may follow
}

func newCommand(text string, line int) command {
	c := command{text: text, line: line}
	words := strings.Fields(text)
	if n := len(words); n > 0 && words[n-1] == "**" {
		words, c.more = words[:n-1], true
	}
	for _, w := range words {
		c.words = append(c.words, newGlob(w))
	}
	return c
}

// A word of a command. What a script puts together only when it runs is not known,
// and may be no word or several.
type word struct {
	text  string
	known bool
}

func known(argv []string) []word {
	out := make([]word, len(argv))
	for i, a := range argv {
		out[i] = word{a, true}
	}
	return out
}

// allows reports whether the line is certain to fit.
func (c command) allows(cmd []word) bool {
	if len(cmd) < len(c.words) || len(cmd) > len(c.words) && !c.more {
		return false
	}
	for i, g := range c.words {
		if !cmd[i].known || !g.match(cmd[i].text) {
			return false
		}
	}
	return true
}

// denies reports whether the line may fit. A program is meant wherever it is.
func (c command) denies(cmd []word) bool {
	for i, g := range c.words {
		switch {
		case i >= len(cmd):
			return false
		case !cmd[i].known:
			return true
		case g.match(cmd[i].text), i == 0 && g.match(path.Base(cmd[i].text)):
		default:
			return false
		}
	}
	return c.more || !slices.ContainsFunc(cmd[len(c.words):], func(w word) bool { return w.known })
}

// runners run the command that their later words are.
var runners = []string{
	"env", "sudo", "doas", "nohup", "nice", "ionice", "setsid", "timeout", "time", "stdbuf", "xargs",
	"exec", "command", "builtin", "busybox", "chroot", "unshare", "find", "parallel", "watch", "strace",
}

// checkCommand holds the job's command, or the commands of its script, against the
// rules.
func (p *Policy) checkCommand(r *Rule, q Request) error {
	v := visit{p: p, r: r, pointer: "/argv"}
	if q.Shell != "" {
		v.pointer = "/shell"
		if r.shell != nil && !r.shell.on {
			return v.refuse(r.shell.line, "shell is not allowed: use argv")
		}
		if r.argv == nil {
			return nil
		}
		return v.script(q.Shell, posix, 0)
	}
	if len(q.Argv) == 0 {
		return nil
	}
	return v.command(known(q.Argv), 0)
}

// visit goes through the commands of one job.
type visit struct {
	p       *Policy
	r       *Rule
	pointer string
}

func (v *visit) refuse(line int, format string, args ...any) error {
	return v.p.refuse(v.r, line, v.pointer, format, args...)
}

// command checks one command; depth is how many shells are around it.
func (v *visit) command(cmd []word, depth int) error {
	shell, isShell := shellOf(cmd[0])
	if isShell && v.r.shell != nil && !v.r.shell.on {
		return v.refuse(v.r.shell.line, "shell is not allowed, and %q is one", cmd[0].text)
	}
	if err := v.denied(cmd, depth); err != nil || v.r.argv == nil {
		return err
	}
	if isShell {
		return v.shell(cmd, shell, depth)
	}
	if v.r.argv.allow == nil || depth > 0 && harmless(cmd[0]) {
		return nil
	}
	for _, c := range v.r.argv.allow {
		if c.allows(cmd) {
			return nil
		}
	}
	return v.refuse(v.r.argv.line, "the command %s is not allowed: add it to argv.allow", show(cmd))
}

// denied checks a command, and those that it may run, against what is denied.
func (v *visit) denied(cmd []word, depth int) error {
	runs := cmd[0].known && slices.Contains(runners, path.Base(cmd[0].text))
	for i := range cmd {
		if i > 0 && !runs {
			break
		}
		if i > 0 {
			if shell, ok := shellOf(cmd[i]); ok {
				if v.r.shell != nil && !v.r.shell.on {
					return v.refuse(v.r.shell.line, "shell is not allowed, and %s runs one", show(cmd))
				}
				if v.r.argv != nil {
					if err := v.shell(cmd[i:], shell, depth); err != nil {
						return err
					}
				}
			}
		}
		if v.r.argv == nil {
			continue
		}
		for _, c := range v.r.argv.deny {
			if c.denies(cmd[i:]) {
				return v.refuse(c.line, "the command %s is denied by %q", show(cmd), c.text)
			}
		}
	}
	return nil
}

// show is a command for people, without what may be long or secret in it.
func show(cmd []word) string {
	if !cmd[0].known {
		return "whose name is only known when it runs"
	}
	name := cmd[0].text
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	if len(cmd) > 1 && cmd[1].known && subcommand(cmd[1].text) {
		name += " " + cmd[1].text
	}
	return `"` + name + `"`
}

// subcommand reports whether s looks like one: a plain word.
func subcommand(s string) bool {
	return s != "" && len(s) <= 16 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-") == ""
}
