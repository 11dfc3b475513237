package worker

import (
	"crypto/rand"
	"strings"
)

// randomID returns n random lower-case letters and digits.
func randomID(n int) string {
	s := strings.ToLower(rand.Text())
	for len(s) < n {
		s += strings.ToLower(rand.Text())
	}
	return s[:n]
}
