package secret

// window is the part of a stream that is not given out yet, as it came in, and
// what of it is to be masked.
type window struct {
	buf    []byte
	base   int64 // place of buf[0]
	spans  []span
	counts map[string]int
	ends   map[string]int64 // of the last match counted
}

// span is a part of the stream.
type span struct{ from, to int64 }

// at returns a byte, or 0 if it is given out.
func (w *window) at(place int64) byte {
	if i := place - w.base; i >= 0 && i < int64(len(w.buf)) {
		return w.buf[i]
	}
	return 0
}

// cover adds a part to what is masked.
func (w *window) cover(from, to int64) {
	from = max(from, w.base)
	if from >= to {
		return
	}
	i := len(w.spans)
	for i > 0 && w.spans[i-1].to >= from {
		i--
	}
	j := i
	for j < len(w.spans) && w.spans[j].from <= to {
		from, to = min(from, w.spans[j].from), max(to, w.spans[j].to)
		j++
	}
	w.spans = append(w.spans[:i], append([]span{{from, to}}, w.spans[j:]...)...)
}

// count counts a match, unless it overlaps the last one of the same reference.
func (w *window) count(ref string, from, to int64) {
	if w.counts == nil {
		w.counts, w.ends = map[string]int{}, map[string]int64{}
	}
	if end, ok := w.ends[ref]; !ok || from >= end {
		w.counts[ref]++
	}
	w.ends[ref] = max(w.ends[ref], to)
}

// masked masks the first n bytes of the window and returns them. Line ends stay.
func (w *window) masked(n int) []byte {
	out := w.buf[:n]
	for _, s := range w.spans {
		for i := max(s.from-w.base, 0); i < min(s.to-w.base, int64(n)); i++ {
			if classes[out[i]]&isLineEnd == 0 {
				out[i] = '*'
			}
		}
	}
	return out
}

// drop takes the first n bytes out of the window.
func (w *window) drop(n int) {
	w.buf = append(w.buf[:0], w.buf[n:]...)
	w.base += int64(n)
	i := 0
	for i < len(w.spans) && w.spans[i].to <= w.base {
		i++
	}
	w.spans = append(w.spans[:0], w.spans[i:]...)
}
