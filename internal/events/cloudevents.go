package events

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

// Headers of a CloudEvent in binary mode.
const (
	headerSpec    = "ce-specversion"
	headerID      = "ce-id"
	headerSource  = "ce-source"
	headerType    = "ce-type"
	headerTime    = "ce-time"
	headerSubject = "ce-subject"
	headerContent = "Content-Type"

	specVersion = "1.0"
	contentJSON = "application/json"
	contentRaw  = "application/octet-stream"
)

// Attributes are the context attributes of a CloudEvent.
type Attributes struct {
	ID, Source, Type, Subject string
	Time                      time.Time
}

// Put writes a to h in binary mode. Subject and Time are left out if not set.
func (a Attributes) Put(h nats.Header) {
	h[headerSpec] = []string{specVersion}
	h[headerID] = []string{encodeHeader(a.ID)}
	h[headerSource] = []string{encodeHeader(a.Source)}
	h[headerType] = []string{encodeHeader(a.Type)}
	if a.Subject != "" {
		h[headerSubject] = []string{encodeHeader(a.Subject)}
	}
	if !a.Time.IsZero() {
		h[headerTime] = []string{a.Time.UTC().Format(time.RFC3339Nano)}
	}
}

// AttributesOf reads the attributes of a CloudEvent in binary mode.
func AttributesOf(h nats.Header) (Attributes, error) {
	var a Attributes
	if v := h.Get(headerSpec); v != specVersion {
		return a, fmt.Errorf("cloudevent: %s is %q, want %q", headerSpec, v, specVersion)
	}
	for _, f := range []struct {
		key  string
		to   *string
		must bool
	}{{headerID, &a.ID, true}, {headerSource, &a.Source, true}, {headerType, &a.Type, true}, {headerSubject, &a.Subject, false}} {
		v, err := decodeHeader(h.Get(f.key))
		if err != nil {
			return a, fmt.Errorf("cloudevent: %s: %w", f.key, err)
		}
		if v == "" && f.must {
			return a, fmt.Errorf("cloudevent: no %s", f.key)
		}
		*f.to = v
	}
	if v := h.Get(headerTime); v != "" {
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return a, fmt.Errorf("cloudevent: %s: %w", headerTime, err)
		}
		a.Time = t
	}
	return a, nil
}

const upperHex = "0123456789ABCDEF"

// plain reports whether the HTTP binding lets c stand in a header as it is:
// printable ASCII but space, double quote and percent.
func plain(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

// encodeHeader percent-encodes the UTF-8 bytes of s that may not stand in a header.
func encodeHeader(s string) string {
	n := 0
	for i := range len(s) {
		if !plain(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

// decodeHeader undoes encodeHeader. As the binding asks, it also takes a quoted
// string, lower-case digits and encoded bytes that need not be.
func decodeHeader(s string) (string, error) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = unquote(s[1 : len(s)-1])
	}
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("value %q ends within a percent sign's digits", s)
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("value %q: %q is not a percent-encoded byte", s, s[i:i+3])
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("value %q is not UTF-8", s)
	}
	return string(b), nil
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// unquote takes the backslashes out of a quoted string's inside.
func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
