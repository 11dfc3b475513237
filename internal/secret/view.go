package secret

import (
	"unicode/utf16"
	"unicode/utf8"
)

// minRun is how many letters of base64 or hex must end a line for its end to count
// as put in by a tool that breaks lines: those break at 60, 64 or 76.
const minRun = 32

// What a byte means to the views.
const (
	isPercent = 1 << iota
	isPlus
	isBackslash
	isLineEnd
	isBreak // not a letter of base64, nor of hex

	isSpecial = isPercent | isPlus | isBackslash | isLineEnd
)

var classes = func() (c [256]uint8) {
	for i := range c {
		c[i] = isBreak
	}
	for _, b := range []byte(alnum + "+/-_") {
		c[b] = 0
	}
	c['%'] |= isPercent
	c['+'] |= isPlus
	c['\\'] |= isBackslash
	c['\n'] |= isLineEnd
	c['\r'] |= isLineEnd
	return c
}()

// A way is one way to read a stream.
type way struct {
	wakes uint8 // what begins a token other than a byte for itself
	wraps bool  // line ends after a long run of letters are looked through
}

// ways are all but the plain one, which is the first view of a scan.
var ways = [...]way{
	{wakes: isPercent},
	{wakes: isPercent, wraps: true},
	{wakes: isPercent | isPlus},
	{wakes: isBackslash},
	{wakes: isBackslash, wraps: true},
	{wraps: true},
}

// A view reads the stream in one way and looks for patterns in what it reads. It
// sleeps while it would see the same as the plain one.
//
// Bytes read are counted from the view's waking on, so that until then their number
// is their place in the stream.
type view struct {
	way
	awake   bool
	after   bool  // the last match goes on in part in the next letter
	skipped bool  // the last token was a line end looked through
	s       int32 // in the automaton
	read    int64
	plain   int64 // bytes read since the last token that was not a byte for itself

	token [12]byte // the beginning of a token; the longest is a pair of \uXXXX
	n     int
	at    int64 // where it begins
	run   int64 // letters of base64 before it

	marks []mark
}

// A mark tells where bytes stand that were not written as themselves.
type mark struct {
	read  int64 // the first of them
	at    int64 // where their token begins
	bytes int64 // how many the token stands for
	width int64 // the token's length
}

// wake begins at the place of the plain view.
func (v *view) wake(plain *view) {
	v.awake, v.after, v.skipped = true, plain.after, false
	v.s, v.read, v.plain = plain.s, plain.read, plain.read+1
	v.n, v.marks = 0, v.marks[:0]
}

// same reports whether v will go on seeing what the plain view sees: all of the
// beginning that both have found, and the byte before, were read as themselves.
func (v *view) same(plain *view, depth int32) bool {
	return v.n == 0 && v.s == plain.s && v.after == plain.after && v.plain > int64(depth)
}

// place returns where the token of a byte begins.
func (v *view) place(read int64) int64 {
	for i := len(v.marks) - 1; i >= 0; i-- {
		m := v.marks[i]
		if m.read > read {
			continue
		}
		if read < m.read+m.bytes {
			return m.at
		}
		return m.at + m.width + read - m.read - m.bytes
	}
	return max(read, 0)
}

// mark notes a token, and forgets those too far back to be asked for again.
func (v *view) mark(m mark, reach int64) {
	if n := len(v.marks); n >= 64 && n == cap(v.marks) {
		i := 0
		for i+1 < n && v.marks[i+1].read < m.read-reach {
			i++
		}
		if i > n/2 {
			v.marks = append(v.marks[:0], v.marks[i:]...)
		}
	}
	v.marks = append(v.marks, m)
}

// next reads the byte b, which stands at a place of the stream.
func (v *view) next(sc *scan, b byte, at int64) {
	if v.n > 0 {
		v.token[v.n] = b
		v.n++
		if v.token[0] == '%' {
			v.percent(sc)
		} else {
			v.escape(sc)
		}
		return
	}
	v.run = at - sc.broken
	switch class := classes[b] & v.wakes; {
	case class == 0:
		v.emit(sc, at, 1, b)
	case class&isPlus != 0:
		v.emit(sc, at, 1, ' ')
	default:
		v.token[0], v.n, v.at = b, 1, at
	}
}

// percent goes on with a token that begins with a percent sign.
func (v *view) percent(sc *scan) {
	_, ok := unhex(v.token[1:v.n])
	switch {
	case !ok:
		v.literally(sc, 1)
	case v.n == 3:
		x, _ := unhex(v.token[1:3])
		v.n = 0
		v.emit(sc, v.at, 3, byte(x))
	}
}

// escape goes on with a token that begins with a backslash: those of JSON, and
// beyond them \xXX and any other byte for itself, as languages and shells have it.
func (v *view) escape(sc *scan) {
	last := v.token[v.n-1]
	switch {
	case v.n == 2 && (last == 'u' || last == 'x'):
	case v.n == 2:
		v.n = 0
		v.emit(sc, v.at, 2, unescaped(last))
	case v.token[1] == 'x':
		v.digits(sc, 4)
	case v.n <= 6:
		v.digits(sc, 6)
	default:
		v.pair(sc)
	}
}

func unescaped(b byte) byte {
	switch b {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	}
	return b
}

// digits ends a token of the length full.
func (v *view) digits(sc *scan, full int) {
	x, ok := unhex(v.token[2:v.n])
	switch {
	case !ok:
		v.literally(sc, 2)
	case v.n < full:
	case full == 4:
		v.n = 0
		v.emit(sc, v.at, 4, byte(x))
	case x >= 0xd800 && x < 0xdc00: // the first of a pair
	default:
		v.n = 0
		v.emit(sc, v.at, 6, utf8.AppendRune(nil, x)...)
	}
}

// pair goes on with the second of a pair of surrogates.
func (v *view) pair(sc *scan) {
	const second = `\u`
	if v.n <= 8 && v.token[v.n-1] != second[v.n-7] {
		v.literally(sc, 6)
		return
	}
	if v.n <= 8 {
		return
	}
	lo, ok := unhex(v.token[8:v.n])
	if !ok {
		v.literally(sc, 6)
		return
	}
	if v.n < 12 {
		return
	}
	hi, _ := unhex(v.token[2:6])
	r := utf16.DecodeRune(hi, lo)
	if r == utf8.RuneError {
		v.literally(sc, 6)
		return
	}
	v.n = 0
	v.emit(sc, v.at, 12, utf8.AppendRune(nil, r)...)
}

// literally ends a token that is none: its first bytes stand for what they mean
// without the rest, and the rest is read anew.
func (v *view) literally(sc *scan, first int) {
	token, n, at := v.token, v.n, v.at
	v.n = 0
	switch first {
	case 1:
		v.emit(sc, at, 1, token[0])
	case 2:
		v.emit(sc, at, 2, token[1])
	default:
		v.emit(sc, at, 6, []byte(string(utf8.RuneError))...)
	}
	for i := first; i < n; i++ {
		v.next(sc, token[i], at+int64(i))
	}
}

// emit looks for patterns in what a token stands for.
func (v *view) emit(sc *scan, at, width int64, bytes ...byte) {
	if v.wraps && classes[bytes[0]]&isLineEnd != 0 && (v.skipped || v.run >= minRun) {
		v.mark(mark{read: v.read, at: at, width: width}, sc.reach())
		v.plain, v.skipped = 0, true
		return
	}
	v.skipped = false
	if itself := width == 1 && bytes[0] == sc.w.at(at); !itself {
		v.mark(mark{read: v.read, at: at, bytes: int64(len(bytes)), width: width}, sc.reach())
		v.plain = 0
	} else {
		v.plain++
	}
	for _, b := range bytes {
		v.look(sc, b, at, at+width)
	}
}

// look takes one byte, whose token is given, to the automaton.
func (v *view) look(sc *scan, b byte, from, to int64) {
	v.s = sc.a.step(v.s, b)
	v.read++
	if v.after && classes[b]&isBreak == 0 {
		sc.found(from, to)
	}
	v.after = false
	if sc.a.states[v.s].hit {
		v.hit(sc, to)
	}
}

// hit reports the patterns that end here.
func (v *view) hit(sc *scan, to int64) {
	sc.a.each(v.s, func(p *pattern) {
		if p.shape != nil && v == &sc.views[0] {
			sc.tails = append(sc.tails, tail{shape: p.shape, from: to})
		}
		if len(p.refs) == 0 {
			return
		}
		first := v.read - int64(len(p.text))
		from := v.place(first)
		if p.before && first > 0 {
			if at := v.place(first - 1); sc.partOfText(at) {
				from = at
			}
		}
		v.after = v.after || p.after
		sc.found(from, to, p.refs...)
	})
}

// unhex reads hex digits.
func unhex(digits []byte) (x rune, ok bool) {
	for _, b := range digits {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b >= 'a' && b <= 'f':
			b -= 'a' - 10
		case b >= 'A' && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		x = x<<4 | rune(b)
	}
	return x, true
}
