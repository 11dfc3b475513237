package schemas

import (
	"strings"
	"unicode/utf8"
)

// look is one quick pass over a document. Its methods return false for "not
// sure"; they never find fault.
type look struct {
	doc   string
	at    int
	depth int
}

// maxDepth is far deeper than any schema of ours is.
const maxDepth = 64

// accepts reports whether doc is certainly a valid document of the plan.
func (p *plan) accepts(doc []byte) bool {
	if p.never || !utf8.Valid(doc) {
		return false
	}
	l := look{doc: string(doc)}
	l.blank()
	if !l.value(p) {
		return false
	}
	l.blank()
	return l.at == len(l.doc)
}

func (l *look) blank() {
	for l.at < len(l.doc) {
		switch l.doc[l.at] {
		case ' ', '\t', '\r', '\n':
			l.at++
		default:
			return
		}
	}
}

// take steps over c, with the blanks before it.
func (l *look) take(c byte) bool {
	l.blank()
	if l.at < len(l.doc) && l.doc[l.at] == c {
		l.at++
		return true
	}
	return false
}

func (l *look) value(p *plan) bool {
	if p.never || l.depth >= maxDepth || l.at >= len(l.doc) {
		return false
	}
	l.depth++
	for _, q := range p.also {
		start := l.at
		if !l.value(q) {
			return false
		}
		l.at = start
	}
	ok := l.own(p)
	l.depth--
	return ok
}

// own looks at a value by all of a plan but what it refers to.
func (l *look) own(p *plan) bool {
	switch c := l.doc[l.at]; {
	case c == '{':
		return p.takes(typeObject) && l.object(p)
	case c == '[':
		return p.takes(typeArray) && l.array(p)
	case c == '"':
		return p.takes(typeString) && l.text(p)
	case c == '-' || '0' <= c && c <= '9':
		return l.number(p)
	case c == 't':
		return p.takes(typeBool) && l.word("true")
	case c == 'f':
		return p.takes(typeBool) && l.word("false")
	case c == 'n':
		return p.takes(typeNull) && l.word("null")
	}
	return false
}

// takes reports whether a value of the type may be valid at all. A plan with
// words, or a "not", is for strings; another type would have to be looked into.
func (p *plan) takes(t uint8) bool {
	if p.types != 0 && p.types&t == 0 {
		return false
	}
	return t == typeString || p.oneOf == nil && p.not == nil
}

func (l *look) word(w string) bool {
	if !strings.HasPrefix(l.doc[l.at:], w) {
		return false
	}
	l.at += len(w)
	return true
}

func (l *look) object(p *plan) bool {
	l.at++ // the brace
	var seen uint64
	n := 0
	for first := true; ; first = false {
		if l.take('}') {
			break
		}
		if !first && !l.take(',') {
			return false
		}
		l.blank()
		name, ok := l.name()
		if !ok || !l.take(':') {
			return false
		}
		bit, ok := l.member(p, name)
		if !ok {
			return false
		}
		seen |= bit
		n++
	}
	return p.complete(seen, n)
}

// member reads the value of one field, and returns the field's bit.
func (l *look) member(p *plan, name string) (bit uint64, ok bool) {
	if p.names != nil && !p.names.isText(name) {
		return 0, false
	}
	l.blank()
	if f, known := p.fields[name]; known {
		return f.bit, l.value(f.plan)
	}
	return 0, p.others != nil && l.value(p.others)
}

// complete judges which fields an object has.
func (p *plan) complete(seen uint64, n int) bool {
	if seen&p.required != p.required || p.maxNames >= 0 && n > p.maxNames {
		return false
	}
	if p.together != 0 && seen&p.together == p.together {
		return false
	}
	if p.exactly == nil {
		return true
	}
	hits := 0
	for _, set := range p.exactly {
		if seen&set == set {
			hits++
		}
	}
	return hits == 1
}

func (l *look) array(p *plan) bool {
	l.at++ // the bracket
	n := 0
	for ; ; n++ {
		if l.take(']') {
			break
		}
		if n > 0 && !l.take(',') {
			return false
		}
		l.blank()
		item := p.items
		if n < len(p.first) {
			item = p.first[n]
		}
		if !l.value(item) {
			return false
		}
	}
	return n >= p.minItems && (p.maxItems < 0 || n <= p.maxItems)
}
