package secret

// A pattern is a text to find. The bytes before and after it may hold a few bits of
// the value too, when base64 put them into one letter with a neighbour.
type pattern struct {
	text          string
	before, after bool
	refs          []string // whose it is; none if it is only the beginning of a shape
	shape         *shape   // whose tokens begin so
}

// automaton finds all patterns in one pass. It does not change once it is built.
// Most states have one follower: those store it in place, the others have a table
// in which failures are resolved. That takes 28 bytes for a byte of pattern instead
// of 1 KiB.
type automaton struct {
	states   []state
	wide     [][256]int32
	patterns []pattern
	longest  int  // length of the longest pattern
	before   bool // some pattern has bits of its value in the letter before it
}

// state is a beginning of patterns, of the length depth. State 0 is the empty one.
type state struct {
	next  int32 // after b
	fail  int32 // the longest shorter state that ends alike
	depth int32
	out   int32 // the pattern that ends here, or -1
	also  int32 // the next state on the way of failures in which one ends, or 0
	wide  int32 // its table, or -1
	b     byte
	hit   bool // out >= 0 or also > 0
}

// edges are the children of a state while the automaton is built.
type edges struct {
	child, sibling int32
	b              byte
}

func newAutomaton(patterns []pattern) *automaton {
	a := &automaton{patterns: patterns}
	tree := a.plant()
	a.link(tree)
	return a
}

// plant makes the tree of all patterns.
func (a *automaton) plant() []edges {
	a.states = []state{{out: -1, wide: -1}}
	tree := []edges{{}}
	for i, p := range a.patterns {
		s := int32(0)
		for j := range len(p.text) {
			s = a.grow(&tree, s, p.text[j])
		}
		a.states[s].out = int32(i)
		a.longest = max(a.longest, len(p.text))
		a.before = a.before || p.before
	}
	return tree
}

func (a *automaton) grow(tree *[]edges, s int32, b byte) int32 {
	for c := (*tree)[s].child; c != 0; c = (*tree)[c].sibling {
		if (*tree)[c].b == b {
			return c
		}
	}
	n := int32(len(*tree))
	*tree = append(*tree, edges{b: b, sibling: (*tree)[s].child})
	(*tree)[s].child = n
	a.states = append(a.states, state{depth: a.states[s].depth + 1, out: -1, wide: -1})
	return n
}

// link sets failures and followers, shorter states first.
func (a *automaton) link(tree []edges) {
	queue := []int32{0}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for c := tree[s].child; c != 0; c = tree[c].sibling {
			st := &a.states[c]
			if s != 0 {
				st.fail = a.step(a.states[s].fail, tree[c].b)
			}
			if f := a.states[st.fail]; f.out >= 0 {
				st.also = st.fail
			} else {
				st.also = f.also
			}
			st.hit = st.out >= 0 || st.also > 0
			queue = append(queue, c)
		}
		a.follow(tree, s)
	}
}

// follow sets the followers of s. The root always has a table, so that a step ends
// there.
func (a *automaton) follow(tree []edges, s int32) {
	st := &a.states[s]
	first := tree[s].child
	if s != 0 && (first == 0 || tree[first].sibling == 0) {
		st.next, st.b = first, tree[first].b
		return
	}
	var table [256]int32
	if s != 0 {
		for b := range table {
			table[b] = a.step(st.fail, byte(b))
		}
	}
	for c := first; c != 0; c = tree[c].sibling {
		table[tree[c].b] = c
	}
	st.wide = int32(len(a.wide))
	a.wide = append(a.wide, table)
}

// step returns the state after b.
func (a *automaton) step(s int32, b byte) int32 {
	for {
		st := &a.states[s]
		if st.wide >= 0 {
			return a.wide[st.wide][b]
		}
		if st.b == b && st.next != 0 {
			return st.next
		}
		s = st.fail
	}
}

// each calls f with every pattern that ends in s, the longest first.
func (a *automaton) each(s int32, f func(*pattern)) {
	for ; s != 0; s = a.states[s].also {
		if out := a.states[s].out; out >= 0 {
			f(&a.patterns[out])
		}
	}
}
