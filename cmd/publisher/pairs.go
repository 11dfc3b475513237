package main

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// pairs reads K=V items. With lookup, an item without "=" takes its value from
// the environment.
func pairs(flag string, items []string, lookup func(string) (string, bool)) (map[string]string, error) {
	if len(items) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(items))
	for _, item := range items {
		k, v, ok := strings.Cut(item, "=")
		if !ok && lookup != nil {
			if v, ok = lookup(k); !ok {
				return nil, fmt.Errorf("--%s %s: not set in the environment; want K=V", flag, k)
			}
		}
		if !ok || k == "" {
			return nil, fmt.Errorf("--%s %q: want K=V", flag, item)
		}
		if _, double := m[k]; double {
			return nil, fmt.Errorf("--%s %s: given twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}

// newID makes a job id: short enough to retype, and 60 random bits long.
func newID() string { return strings.ToLower(rand.Text()[:12]) }
