package git

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Changes is what a branch brings over its base.
type Changes struct {
	Commits int
	Files   []FileChange // by path
	Added   int          // lines
	Deleted int
	Bytes   int64 // size of the new files, each content once
}

// FileChange is one file of Changes.
type FileChange struct {
	Path    string
	Added   int
	Deleted int
	Binary  bool
	Size    int64 // of the new content; 0 if it was deleted
}

// touch is one path in one commit.
type touch struct {
	path             string
	oldMode, newMode string
	id               string // of the new content
}

const (
	modeLink   = "120000"
	modeModule = "160000"
)

// history is what the scripts say of a range of commits.
type history struct {
	Changes
	touches []touch
	sizes   map[string]int64
	links   map[string]string // content of links by id
}

// readHistory reads the sections of changes.sh.
func readHistory(r reply) (history, error) {
	h := history{sizes: map[string]int64{}, links: map[string]string{}}
	var err error
	if h.Commits, err = strconv.Atoi(r.fields["commits"]); err != nil {
		return h, fmt.Errorf("%w: commits", errReply)
	}
	if h.touches, err = parseRaw(r.sections["raw"]); err != nil {
		return h, err
	}
	for _, l := range strings.Split(string(r.sections["sizes"]), "\n") {
		if f := strings.Fields(l); len(f) == 3 && f[1] == "blob" {
			n, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				return h, fmt.Errorf("%w: sizes", errReply)
			}
			h.sizes[f[0]] = n
		}
	}
	for _, l := range strings.Split(string(r.sections["links"]), "\n") {
		if id, text, ok := strings.Cut(l, " "); ok {
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return h, fmt.Errorf("%w: links", errReply)
			}
			h.links[id] = string(b)
		}
	}
	if h.Files, err = parseStat(r.sections["stat"]); err != nil {
		return h, err
	}
	h.sum()
	return h, nil
}

// sum fills in what the sections say together.
func (h *history) sum() {
	last := map[string]string{} // the youngest commit comes first
	seen := map[string]bool{}
	for _, t := range h.touches {
		if _, ok := last[t.path]; !ok {
			last[t.path] = t.id
		}
		if !seen[t.id] && t.newMode != modeModule {
			seen[t.id] = true
			h.Bytes += h.sizes[t.id]
		}
	}
	for i := range h.Files {
		f := &h.Files[i]
		f.Size = h.sizes[last[f.Path]]
		h.Added += f.Added
		h.Deleted += f.Deleted
	}
	sort.Slice(h.Files, func(i, j int) bool { return h.Files[i].Path < h.Files[j].Path })
}

// parseRaw reads git diff-tree -z --raw: ":mode mode id id status", NUL, path, NUL.
func parseRaw(b []byte) ([]touch, error) {
	var out []touch
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte{0})
		f := strings.Fields(string(head))
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(f) != 5 || !strings.HasPrefix(f[0], ":") || len(name) == 0 {
			return nil, fmt.Errorf("%w: raw", errReply)
		}
		out = append(out, touch{path: string(name), oldMode: f[0][1:], newMode: f[1], id: f[3]})
		b = rest
	}
	return out, nil
}

// parseStat reads git diff-tree -z --numstat: added, deleted, path, with "-" for
// what is binary.
func parseStat(b []byte) ([]FileChange, error) {
	var out []FileChange
	for len(b) > 0 {
		rec, rest, ok := bytes.Cut(b, []byte{0})
		f := strings.SplitN(string(rec), "\t", 3)
		if !ok || len(f) != 3 {
			return nil, fmt.Errorf("%w: stat", errReply)
		}
		c := FileChange{Path: f[2], Binary: f[0] == "-"}
		if !c.Binary {
			var err1, err2 error
			c.Added, err1 = strconv.Atoi(f[0])
			c.Deleted, err2 = strconv.Atoi(f[1])
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("%w: stat", errReply)
			}
		}
		out = append(out, c)
		b = rest
	}
	return out, nil
}

// Summary is the one line that git ends a diffstat with.
func (c Changes) Summary() string {
	s := plural(len(c.Files), "file", "files") + " changed"
	if c.Added > 0 {
		s += ", " + plural(c.Added, "insertion(+)", "insertions(+)")
	}
	if c.Deleted > 0 {
		s += ", " + plural(c.Deleted, "deletion(-)", "deletions(-)")
	}
	return s
}

// Stat is a diffstat of up to max files and the summary. Names that are not plain
// text are quoted.
func (c Changes) Stat(max int) string {
	var b strings.Builder
	for i, f := range c.Files {
		if i == max {
			fmt.Fprintf(&b, " … and %d more\n", len(c.Files)-i)
			break
		}
		what := fmt.Sprintf("+%d -%d", f.Added, f.Deleted)
		if f.Binary {
			what = fmt.Sprintf("binary, %d bytes", f.Size)
		}
		fmt.Fprintf(&b, " %s | %s\n", plainName(f.Path), what)
	}
	b.WriteString(" " + c.Summary() + "\n")
	return b.String()
}

// plainName is a path as it may stand in a text: quoted if it holds anything that
// could pass for more than a name.
func plainName(p string) string {
	if q := strconv.Quote(p); q != `"`+p+`"` || strings.ContainsAny(p, "`<>|") {
		return strings.NewReplacer("`", `\x60`, "<", `\x3c`, ">", `\x3e`, "|", `\x7c`).Replace(q)
	}
	return p
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
