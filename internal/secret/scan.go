package secret

// A tail is what follows the beginning of a token of a known shape.
type tail struct {
	shape *shape
	from  int64
	n     int
}

// scan looks for the patterns of one automaton in a stream.
type scan struct {
	a      *automaton
	w      *window
	views  [1 + len(ways)]view // the first is the plain one
	tails  []tail
	pos    int64 // bytes seen
	broken int64 // place after the last byte that is not a letter of base64
	busy   bool  // there is more to look after than the plain view
}

func newScan(a *automaton, w *window) *scan {
	sc := &scan{a: a, w: w, pos: w.base, broken: w.base}
	sc.views[0] = view{awake: true, read: w.base}
	for i, w := range ways {
		sc.views[i+1].way = w
	}
	return sc
}

// feed looks at the next bytes, which are in the window already.
func (sc *scan) feed(p []byte) {
	for len(p) > 0 {
		if n := sc.plain(p); n > 0 {
			p = p[n:]
			continue
		}
		sc.slow(p[0], classes[p[0]])
		p = p[1:]
	}
}

// plain looks at bytes as long as all views see the same, and returns how many it
// has seen. Nearly all bytes of most streams come this way and no other.
func (sc *scan) plain(p []byte) int {
	if sc.busy {
		return 0
	}
	v := &sc.views[0]
	a, s, n, hit := sc.a, v.s, 0, false
	root := &a.wide[0]
	broken := -1
	for n < len(p) && !hit {
		b := p[n]
		class := classes[b]
		if class&isSpecial != 0 {
			break
		}
		if class&isBreak != 0 {
			broken = n
		}
		n++
		if s == 0 {
			s = root[b]
		} else {
			s = a.step(s, b)
		}
		hit = s != 0 && a.states[s].hit
	}
	if broken >= 0 {
		sc.broken = sc.pos + int64(broken) + 1
	}
	sc.pos += int64(n)
	v.s, v.read = s, sc.pos
	if hit {
		v.hit(sc, sc.pos)
		sc.busy = v.after || len(sc.tails) > 0
	}
	return n
}

// slow looks at a byte that views may differ about.
func (sc *scan) slow(b byte, class uint8) {
	plain := &sc.views[0]
	sc.follow(b)
	for i := range sc.views {
		v := &sc.views[i]
		if !v.awake && (class&v.wakes != 0 || v.wraps && class&isLineEnd != 0 && sc.pos-sc.broken >= minRun) {
			v.wake(plain)
		}
	}
	sc.pos++
	for i := range sc.views {
		if v := &sc.views[i]; v.awake {
			v.next(sc, b, sc.pos-1)
		}
	}
	if class&isBreak != 0 {
		sc.broken = sc.pos
	}
	sc.busy = plain.after || len(sc.tails) > 0
	for i := 1; i < len(sc.views); i++ {
		if v := &sc.views[i]; v.awake {
			v.awake = !v.same(plain, sc.a.states[v.s].depth)
			sc.busy = sc.busy || v.awake
		}
	}
}

// follow goes on with the tokens of known shapes.
func (sc *scan) follow(b byte) {
	kept := sc.tails[:0]
	for _, t := range sc.tails {
		if !t.shape.body[b] || t.n == t.shape.max {
			continue
		}
		t.n++
		if t.n >= t.shape.min {
			sc.found(t.from, sc.pos+1, t.shape.name)
		}
		kept = append(kept, t)
	}
	sc.tails = kept
}

// found masks a part of the stream.
func (sc *scan) found(from, to int64, refs ...string) {
	sc.w.cover(from, to)
	for _, ref := range refs {
		sc.w.count(ref, from, to)
	}
}

// reach is how far back a view may be asked for a byte's place.
func (sc *scan) reach() int64 { return int64(sc.a.longest) + 2 }

// partOfText reports whether a letter of base64, or an escape, begins there.
func (sc *scan) partOfText(at int64) bool {
	b := sc.w.at(at)
	return b == '%' || b == '\\' || b != 0 && classes[b]&isBreak == 0
}

// hold returns the first place from which something may be masked yet.
func (sc *scan) hold() int64 {
	at := sc.pos
	for i := range sc.views {
		if v := &sc.views[i]; v.awake {
			at = min(at, sc.begun(v))
		}
	}
	for _, t := range sc.tails {
		if t.n < t.shape.min {
			at = min(at, t.from)
		}
	}
	return at
}

// begun returns where a value may have begun in a view: where the longest beginning
// of a pattern stands, or one letter before it, which may have bits of the value.
func (sc *scan) begun(v *view) int64 {
	first := v.read - int64(sc.a.states[v.s].depth)
	if sc.a.before && first > 0 {
		if at := v.place(first - 1); sc.partOfText(at) {
			return at
		}
	}
	if first == v.read && v.n == 0 {
		return sc.pos
	}
	return v.place(first)
}

// idle reports whether nothing that may be a value has begun.
func (sc *scan) idle() bool { return !sc.busy && sc.views[0].s == 0 }
