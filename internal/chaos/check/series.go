package check

import (
	"slices"
	"time"
)

// Book keeps what was measured, by name.
type Book struct {
	names []string
	of    map[string]*Series
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{of: map[string]*Series{}} }

// Add writes a measure down. slack is by how much it may move without growing.
func (b *Book) Add(what string, at time.Time, value, slack float64) {
	s := b.of[what]
	if s == nil {
		s = &Series{What: what, Slack: slack}
		b.of[what] = s
		b.names = append(b.names, what)
	}
	s.Points = append(s.Points, Point{at, value})
}

// All are the series, in the order in which they began.
func (b *Book) All() (out []Series) {
	for _, name := range b.names {
		out = append(out, *b.of[name])
	}
	return out
}

// Point is one measure.
type Point struct {
	At    time.Time
	Value float64
}

// Series is one measure over time.
type Series struct {
	What   string
	Slack  float64
	Points []Point
}

// First is the oldest measure; it, Last and Most are 0 for no measures.
func (s Series) First() float64 { return s.at(0) }

// Last is the newest measure.
func (s Series) Last() float64 { return s.at(len(s.Points) - 1) }

// Most is the largest measure.
func (s Series) Most() (most float64) {
	for _, p := range s.Points {
		most = max(most, p.Value)
	}
	return most
}

func (s Series) at(i int) float64 {
	if i < 0 || i >= len(s.Points) {
		return 0
	}
	return s.Points[i].Value
}

// Growth is by how much the median of the last quarter is above that of the
// quarter after the first, which is for warming up.
func (s Series) Growth() float64 {
	n := len(s.Points)
	if n < 8 {
		return 0
	}
	return median(s.Points[3*n/4:]) - median(s.Points[n/4:n/2])
}

// Flat reports whether the series has not grown by more than its slack and a
// fifth.
func (s Series) Flat() bool {
	n := len(s.Points)
	if n < 8 {
		return true
	}
	return s.Growth() <= max(s.Slack, median(s.Points[n/4:n/2])/5)
}

func median(points []Point) float64 {
	v := make([]float64, len(points))
	for i, p := range points {
		v[i] = p.Value
	}
	slices.Sort(v)
	return v[len(v)/2]
}
