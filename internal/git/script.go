package git

import (
	"bytes"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed sh/*.sh
var sources embed.FS

// The scripts go over the wire with every call, so their comments stay here.
var (
	cloneScript  = script("prelude", "clone")
	commitScript = script("prelude", "desk", "changes", "commit")
	fetchScript  = script("prelude", "desk", "changes", "fetch")
	pushScript   = script("prelude", "push")
	bundleScript = script("prelude", "desk", "bundle")
	hostScript   = script("prelude", "host")
	cleanScript  = script("prelude", "clean")
	lookScript   = script("prelude", "look")
)

// SweepText is a script of its own that takes away what scripts left that were killed
// before their end: the desks whose paths begin with $1, and the credentials of theirs.
// To be run before a sandbox is paused, and while no other script runs in it.
var SweepText = script("sweep")

var commentLine = regexp.MustCompile(`(?m)^\s*#.*\n`)

func script(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		text, err := sources.ReadFile("sh/" + n + ".sh")
		if err != nil {
			panic(err) // a name above is misspelt
		}
		b.Write(commentLine.ReplaceAll(text, nil))
	}
	return b.String()
}

// Exit codes of the scripts; what is below is git's.
const (
	exitNoGit       = 90
	exitBroken      = 91
	exitExists      = 92
	exitNotFound    = 93
	exitConflict    = 94
	exitTooLarge    = 95
	exitUnsupported = 96
	exitUnsound     = 97
	exitOverruled   = 98
)

const maxOutput = 32 << 20

// payload is what goes in by standard input: names and texts, of which nothing
// may stand in arguments.
type payload []struct{ name, text string }

func (p *payload) add(name, text string) {
	*p = append(*p, struct{ name, text string }{name, text})
}

func (p payload) bytes() []byte {
	var b bytes.Buffer
	for _, e := range p {
		b.WriteString(e.name + " " + base64.StdEncoding.EncodeToString([]byte(e.text)) + "\n")
	}
	return b.Bytes()
}

// reply is what a script printed: fields, and sections of bytes.
type reply struct {
	fields   map[string]string
	sections map[string][]byte
}

var errReply = errors.New("the script's answer is unreadable")

// parseReply reads "key=value" lines up to an empty one, then the sections, each
// as long as its "name.bytes" field says.
func parseReply(out []byte) (reply, error) {
	r := reply{fields: map[string]string{}, sections: map[string][]byte{}}
	var order []string
	for {
		line, rest, ok := bytes.Cut(out, []byte("\n"))
		if !ok {
			return r, errReply
		}
		out = rest
		if len(line) == 0 {
			break
		}
		k, v, ok := strings.Cut(string(line), "=")
		if !ok {
			return r, errReply
		}
		if name, is := strings.CutSuffix(k, ".bytes"); is {
			order = append(order, name)
		}
		r.fields[k] = v
	}
	for _, name := range order {
		n, err := strconv.Atoi(r.fields[name+".bytes"])
		if err != nil || n < 0 || n > len(out) {
			return r, errReply
		}
		r.sections[name], out = out[:n], out[n:]
	}
	if len(out) != 0 {
		return r, fmt.Errorf("%w: %d bytes too many", errReply, len(out))
	}
	return r, nil
}

// commit reads a field that holds a commit id or nothing.
func (r reply) commit(name string) (string, error) {
	if v := r.fields[name]; v == "" || IsCommitID(v) {
		return v, nil
	}
	return "", fmt.Errorf("%w: %s is no commit id", errReply, name)
}

// paths reads a section of paths, each ended by NUL.
func (r reply) paths(name string) []string {
	var out []string
	for _, p := range bytes.Split(r.sections[name], []byte{0}) {
		if len(p) > 0 {
			out = append(out, string(p))
		}
	}
	return out
}
