package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaleAligns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tl := newTale(&out)
	tl.step("clone", "git clone %s", "x")
	q := tl.quote()
	for _, s := range []string{"one\ntw", "o\r\n", "three"} {
		_, err := q.Write([]byte(s))
		require.NoError(t, err)
	}
	q.Flush()
	tl.ok("exit 0")

	got := regexp.MustCompile(`(?m)^ *[0-9.]+s`).ReplaceAllString(out.String(), "  0.00s")
	require.Equal(t, `  0.00s  clone      git clone x
                   | one
                   | two
                   | three
  0.00s         ok  exit 0
`, got)
}
