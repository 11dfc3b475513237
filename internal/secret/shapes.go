package secret

import "strings"

// A shape is what tokens of a provider look like: a beginning, and then bytes of
// one kind. It is the second net, for secrets that nobody told us.
type shape struct {
	name     string
	starts   []string
	body     [256]bool
	min, max int // bytes of the body
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum   = digits + letters
)

// shapes are matched by their beginning, not by their length: GitHub's installation
// tokens, once 40 bytes, now have about 520 with dots in them.
var shapes = []*shape{
	newShape("github token", alnum+"_-.", 30, 2048, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
	newShape("e2b key", alnum, 32, 256, "e2b_"),
	newShape("aws access key", digits+"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 16, 16, "AKIA", "ASIA"),
	newShape("private key", alnum+"+/=\r\n\t \\:,.", 32, 32<<10,
		"-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----",
		"-----BEGIN EC PRIVATE KEY-----", "-----BEGIN DSA PRIVATE KEY-----", "-----BEGIN OPENSSH PRIVATE KEY-----"),
}

func newShape(name, body string, lo, hi int, starts ...string) *shape {
	s := &shape{name: name, starts: starts, min: lo, max: hi}
	for i := range len(body) {
		s.body[body[i]] = true
	}
	return s
}

// shapePatterns are the beginnings of all shapes.
func shapePatterns() []pattern {
	var out []pattern
	for _, s := range shapes {
		for _, start := range s.starts {
			out = append(out, pattern{text: start, shape: s})
		}
	}
	return out
}

// resembles reports whether text holds a token of a known shape.
func resembles(text string) bool {
	for _, s := range shapes {
		for _, start := range s.starts {
			for rest := text; ; {
				i := strings.Index(rest, start)
				if i < 0 {
					break
				}
				rest = rest[i+len(start):]
				if s.length(rest) >= s.min {
					return true
				}
			}
		}
	}
	return false
}

// length is how many bytes of the body text begins with.
func (s *shape) length(text string) int {
	n := 0
	for n < len(text) && n < s.max && s.body[text[n]] {
		n++
	}
	return n
}
