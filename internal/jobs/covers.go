package jobs

import (
	"slices"
	"strings"
)

// widest leaves out subjects that another one covers, and repetitions.
func widest(subjects []string) []string {
	var out []string
	for i, s := range subjects {
		covered := slices.Contains(out, s)
		for j, other := range subjects {
			covered = covered || i != j && s != other && Covers(other, s)
		}
		if !covered {
			out = append(out, s)
		}
	}
	return out
}

// Covers reports whether every subject that narrow matches is matched by wide.
func Covers(wide, narrow string) bool {
	w, n := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i, token := range w {
		switch {
		case token == ">":
			return len(n) > i
		case i >= len(n) || n[i] == ">":
			return false
		case token != "*" && token != n[i]:
			return false
		}
	}
	return len(w) == len(n)
}
