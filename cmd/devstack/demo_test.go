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
	require.Equal(t, strings.Fields("start provision clone test upload download idle resume destroy pull done"), steps)
	require.Contains(t, out.String(), testsPassed)
	for _, says := range []string{"step clone done", "step command done", "step commit done", "step push done", "step pull_request done, #1 http://127.0.0.1", "succeeded"} {
		require.Contains(t, out.String(), says)
	}
}
