package secret

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// minLine is how long a line of a longer value must be to be masked alone. Shorter
// ones ("{", "---") are seldom secret and common elsewhere.
const minLine = 8

// minForm is how long an encoded form must be to be looked for.
const minForm = 4

// forms returns the texts by which value is found. Escapes and line breaks are not
// among them: views see through those.
func forms(value string) []pattern {
	out := encodings(value)
	if !utf8.ValidString(value) {
		out = append(out, pattern{text: string([]rune(value))}) // as JSON has it: what is no UTF-8 replaced
	}
	if strings.ContainsAny(value, "\r\n") {
		for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if line = strings.TrimSpace(line); len(line) >= minLine && line != value {
				out = append(out, encodings(line)...)
			}
		}
	}
	return out
}

func encodings(value string) []pattern {
	lower := hex.EncodeToString([]byte(value))
	out := []pattern{{text: value}, {text: lower}, {text: strings.ToUpper(lower)}}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			if p := inBase64(enc, value, shift); len(p.text) >= minForm {
				out = append(out, p)
			}
		}
	}
	return out
}

// inBase64 returns the letters that value alone decides in a base64 text in which
// shift bytes, modulo 3, stand before it. The letter before those and the one after
// belong to the value in part.
func inBase64(enc *base64.Encoding, value string, shift int) pattern {
	text := enc.EncodeToString(append(make([]byte, shift), value...))
	first := (shift*8 + 5) / 6          // the first letter all of whose bits are the value's
	end := (shift + len(value)) * 8 / 6 // the first letter after them
	return pattern{text: text[min(first, end):end], before: shift > 0, after: (shift+len(value))%3 != 0}
}
