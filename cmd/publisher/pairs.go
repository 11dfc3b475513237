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

// secretRefs reads items that are VAR=NAME, or NAME alone: "github-token" is then given
// as GITHUB_TOKEN.
func secretRefs(items []string) (map[string]string, error) {
	named := make([]string, len(items))
	for i, item := range items {
		if named[i] = item; !strings.Contains(item, "=") && item != "" {
			named[i] = strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(item)) + "=" + item
		}
	}
	m, err := pairs("secret", named, nil)
	if err != nil {
		return nil, fmt.Errorf("%w or the name of a secret", err)
	}
	return m, nil
}

// newID makes a job id: short enough to retype, and 60 random bits long.
func newID() string { return strings.ToLower(rand.Text()[:12]) }
