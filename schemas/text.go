package schemas

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandjet/sandjet/internal/wire"
)

// name reads a field's name. One with escapes is left to the library.
func (l *look) name() (string, bool) {
	s, escaped, ok := l.quoted()
	return s, ok && !escaped
}

func (l *look) text(p *plan) bool {
	s, escaped, ok := l.quoted()
	if !ok {
		return false
	}
	if escaped {
		if s, ok = unescape(s); !ok {
			return false
		}
	}
	return p.isText(s)
}

// quoted reads a string and returns what stands between the quotes.
func (l *look) quoted() (s string, escaped, ok bool) {
	if l.at >= len(l.doc) || l.doc[l.at] != '"' {
		return "", false, false
	}
	l.at++
	start := l.at
	for ; l.at < len(l.doc); l.at++ {
		switch c := l.doc[l.at]; {
		case c == '"':
			s = l.doc[start:l.at]
			l.at++
			return s, escaped, true
		case c == '\\':
			escaped = true
			l.at++
		case c < ' ':
			return "", false, false
		}
	}
	return "", false, false
}

// isText judges a string's value.
func (p *plan) isText(s string) bool {
	for _, q := range p.also {
		if !q.isText(s) {
			return false
		}
	}
	switch {
	case p.never,
		p.types != 0 && p.types&typeString == 0,
		!p.fits(s),
		p.oneOf != nil && !slices.Contains(p.oneOf, s),
		p.match != nil && !p.match(s),
		p.formatted != nil && p.formatted(s) != nil,
		p.not != nil && p.not.isText(s):
		return false
	}
	return true
}

// fits judges a string's length, in characters.
func (p *plan) fits(s string) bool {
	if (p.maxLength < 0 || len(s) <= p.maxLength) && (p.minLength <= 0 || p.minLength == 1 && s != "") {
		return true // without counting: there are no more characters than bytes
	}
	n := utf8.RuneCountInString(s)
	return n >= p.minLength && (p.maxLength < 0 || n <= p.maxLength)
}

// byHand decides the patterns that most documents meet, without the regular
// expression.
var byHand = map[string]func(string) bool{
	wire.IDPattern: func(s string) bool {
		for i := range len(s) {
			if !idByte(s[i]) {
				return false
			}
		}
		return 0 < len(s) && len(s) <= 64
	},
	`^[^\x00]*$`: func(s string) bool { return strings.IndexByte(s, 0) < 0 },
	`^[A-Za-z_][A-Za-z0-9_]*$`: func(s string) bool {
		for i := range len(s) {
			if !idByte(s[i]) || s[i] == '-' || i == 0 && '0' <= s[i] && s[i] <= '9' {
				return false
			}
		}
		return s != ""
	},
}

func idByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// unescape returns the value of a string with escapes, given what stands
// between the quotes.
func unescape(s string) (string, bool) {
	var v string
	err := json.Unmarshal([]byte(`"`+s+`"`), &v)
	return v, err == nil
}
