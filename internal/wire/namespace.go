package wire

import (
	"fmt"
	"strings"
)

// Namespace keeps deployments that share a NATS server or a Redis apart. Empty
// is the default. With "staging", subjects begin with "staging.", streams and
// buckets with "staging_", Redis keys with "staging:".
type Namespace string

// ParseNamespace checks s, which follows the rules of an id.
func ParseNamespace(s string) (Namespace, error) {
	if s == "" {
		return "", nil
	}
	if err := CheckID("namespace", s); err != nil {
		return "", err
	}
	return Namespace(s), nil
}

// Subject joins tokens into a subject of this namespace.
func (n Namespace) Subject(tokens ...string) string {
	s := strings.Join(tokens, ".")
	if n == "" {
		return s
	}
	return string(n) + "." + s
}

// Trim takes the namespace off a subject. ok is false if the subject is of
// another namespace.
func (n Namespace) Trim(subject string) (rest string, ok bool) {
	if n == "" {
		return subject, true
	}
	return strings.CutPrefix(subject, string(n)+".")
}

// Stream returns the name of a stream or bucket in this namespace.
func (n Namespace) Stream(name string) string {
	if n == "" {
		return name
	}
	return string(n) + "_" + name
}

// Key returns the prefix of Redis keys: "sandjet" or "<namespace>:sandjet".
func (n Namespace) Key() string {
	if n == "" {
		return "sandjet"
	}
	return fmt.Sprintf("%s:sandjet", string(n))
}
