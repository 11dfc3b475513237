package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Set holds values that must not be shown, and masks them. The zero Set is ready.
// It may be used concurrently; a change is seen by the next call, and by Writers
// with their next write.
type Set struct {
	mu     sync.Mutex
	held   map[string]map[string]int // value to reference to how often it was added
	shaped bool

	built atomic.Pointer[automaton] // nil when a change is not built in yet
}

// Add has v masked as the secret of a reference. A value that is there already
// is counted; it goes with as many calls of Remove. One shorter than MinLength is
// refused with ErrTooShort: its masks would be all over the output.
func (s *Set) Add(ref string, v Value) error {
	if v.Len() < MinLength {
		return &Error{Ref: ref, Err: ErrTooShort}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]map[string]int{}
	}
	value := v.Reveal()
	refs := s.held[value]
	if refs == nil {
		refs = map[string]int{}
		s.held[value] = refs
	}
	refs[ref]++
	if refs[ref] == 1 {
		s.built.Store(nil)
	}
	return nil
}

// Remove takes back one Add of v as the secret of ref. Without such an Add it does
// nothing.
func (s *Set) Remove(ref string, v Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := v.Reveal()
	refs := s.held[value]
	if refs[ref] == 0 {
		return
	}
	refs[ref]--
	if refs[ref] > 0 {
		return
	}
	delete(refs, ref)
	if len(refs) == 0 {
		delete(s.held, value)
	}
	s.built.Store(nil)
}

// MaskShapes has everything masked that looks like a token of GitHub, E2B or AWS or
// like a private key in PEM form, known to the Set or not. The beginning that tells
// them ("ghp_") stays.
func (s *Set) MaskShapes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shaped = true
	s.built.Store(nil)
}

// Len returns how many values the Set holds.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Longest returns how long a value may be in its longest form, unescaped, together
// with the letters at its sides. A reader that begins in the middle of a stream
// should Prime its Writer with as many bytes before.
func (s *Set) Longest() int {
	a := s.automaton()
	if a.longest == 0 {
		return 0
	}
	return a.longest + 2
}

// automaton returns what finds the values of now.
func (s *Set) automaton() *automaton {
	if a := s.built.Load(); a != nil {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.built.Load(); a != nil {
		return a
	}
	a := newAutomaton(s.patterns())
	s.built.Store(a)
	return a
}

// patterns are the forms of all values, each text once.
func (s *Set) patterns() []pattern {
	var out []pattern
	index := map[string]int{}
	add := func(p pattern) {
		i, ok := index[p.text]
		if !ok {
			index[p.text] = len(out)
			out = append(out, p)
			return
		}
		o := &out[i]
		o.before, o.after = o.before || p.before, o.after || p.after
		for _, ref := range p.refs {
			if !slices.Contains(o.refs, ref) {
				o.refs = append(slices.Clip(o.refs), ref)
			}
		}
	}
	if s.shaped {
		for _, p := range shapePatterns() {
			add(p)
		}
	}
	for value, refs := range s.held {
		names := make([]string, 0, len(refs))
		for ref := range refs {
			names = append(names, ref)
		}
		slices.Sort(names)
		for _, p := range forms(value) {
			p.refs = names
			add(p)
		}
	}
	return out
}

// Bytes returns text with every value masked by as many bytes. text itself is not
// changed; without a value in it, it is what is returned.
func (s *Set) Bytes(text []byte) []byte {
	a := s.automaton()
	if a.longest == 0 || len(text) == 0 {
		return text
	}
	w := &window{buf: text}
	newScan(a, w).feed(text)
	if len(w.spans) == 0 {
		return text
	}
	w.buf = bytes.Clone(text)
	return w.masked(len(text))
}

// String returns text with every value masked by as many bytes.
func (s *Set) String(text string) string {
	masked := s.Bytes([]byte(text))
	if string(masked) == text {
		return text
	}
	return string(masked)
}

// Has reports whether there is something to mask in text.
func (s *Set) Has(text string) bool { return s.String(text) != text }

// JSON returns a JSON document with the values masked in its names, strings and
// numbers, each taken for itself, so that it stays a document. What is no JSON is
// masked as Bytes does.
func (s *Set) JSON(doc []byte) []byte {
	if s.automaton().longest == 0 {
		return doc
	}
	if !json.Valid(doc) {
		return s.Bytes(doc)
	}
	var out bytes.Buffer
	for len(doc) > 0 {
		n := scalar(doc)
		if n == 0 {
			out.WriteByte(doc[0])
			doc = doc[1:]
			continue
		}
		out.Write(s.scalar(doc[:n]))
		doc = doc[n:]
	}
	return out.Bytes()
}

// scalar returns how long the string or number is that doc begins with.
func scalar(doc []byte) int {
	if doc[0] != '"' {
		n := 0
		for n < len(doc) && bytes.IndexByte([]byte("+-.0123456789eE"), doc[n]) >= 0 {
			n++
		}
		if doc[0] == 'e' || doc[0] == 'E' {
			return 0 // of true or false
		}
		return n
	}
	for n := 1; n < len(doc); n++ {
		switch doc[n] {
		case '\\':
			n++
		case '"':
			return n + 1
		}
	}
	return 0
}

// scalar masks a string or number. A number with a value in it becomes a string.
func (s *Set) scalar(token []byte) []byte {
	text := string(token)
	if token[0] == '"' {
		if json.Unmarshal(token, &text) != nil {
			return s.Bytes(token)
		}
	}
	masked := s.String(text)
	if masked == text {
		return token
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(masked) // a string always encodes
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// Format prints how many values there are and nothing else.
func (s *Set) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "[%d secrets]", s.Len()) }
