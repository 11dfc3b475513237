package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The demo is a test by itself: it returns nil only if each of its checks held.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	a := app{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	require.NoError(t, a.demo(t.Context(), demoOptions{logLevel: "error"}), "%s\n%s", &out, &errs)

	var steps []string
	for _, m := range regexp.MustCompile(`(?m)^ *[0-9.]+s  ([a-z]+) `).FindAllStringSubmatch(out.String(), -1) {
		steps = append(steps, m[1])
	}
	require.Equal(t, strings.Fields("start provision clone test upload download idle resume destroy done"), steps)
	require.Contains(t, out.String(), testsPassed)
}
