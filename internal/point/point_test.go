//go:build !faultpoints

package point_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/point"
)

// Without the tag a point does nothing and costs nothing.
func TestPointsAreFree(t *testing.T) {
	ctx := t.Context()
	cost := testing.AllocsPerRun(100, func() {
		if point.Before(ctx, point.Of("a", "b")) != nil || point.After(ctx, point.Of("a", "b")) != nil || point.Off(point.Fence) {
			t.Error("a point has done something")
		}
	})
	require.Zero(t, cost)
}

func BenchmarkPoint(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		if point.Before(ctx, point.Of("a", "b")) != nil || point.After(ctx, point.Of("a", "b")) != nil || point.Off(point.Fence) {
			b.Error("a point has done something")
		}
	}
}

// The worker that people run has no point in it: neither code nor the names of
// the variables that would arm one.
func TestProductsHaveNoPoints(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "worker")
	build(t, "go", "build", "-o", bin, "github.com/sandjet/sandjet/cmd/worker")
	for line := range strings.Lines(build(t, "go", "tool", "nm", bin)) {
		require.NotRegexp(t, `internal/point\.(Before|After|Off|init|parse|freeze|record)`, line)
	}
	require.NotContains(t, build(t, "cat", bin), "SANDJET_POINTS")
}

// The points themselves are tested where they are compiled in.
func TestUnderTheTag(t *testing.T) {
	t.Parallel()
	build(t, "go", "test", "-count=1", "-tags", "faultpoints", ".")
}

func build(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out[:min(len(out), 8<<10)])
	return string(out)
}
