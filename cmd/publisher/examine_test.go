package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		filter, subject string
		want            bool
	}{
		{"task.run", "task.run", true},
		{"task.run", "task.run.*", false},
		{"task.run.*", "task.run.*", true},
		{"task.*.*", "task.run.*", true},
		{"task.>", "task.run.*", true},
		{"task.>", "task", false},
		{">", "event.>", true},
		{"event.>", "event.>", true},
		{"event.*", "event.>", false},
		{"event.*.>", "event.>", false},
		{"event.a", "event.*", false},
		{"high.task.run", "task.run", false},
	} {
		require.Equal(t, tt.want, covers(tt.filter, tt.subject), "%s covers %s", tt.filter, tt.subject)
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for have, want := range map[string]bool{
		"2.11.9": true, "2.9.0": true, "1.99.0": true,
		"2.12.0": false, "2.12.0-RC.1": false, "2.15.2": false, "3.0.0": false, "v2.11.0": true,
		"": false, "unknown": false, "2": false,
	} {
		require.Equal(t, want, older(have, minServer), "%q", have)
	}
}

func TestSkew(t *testing.T) {
	t.Parallel()
	require.Equal(t, ok, skew(time.Now()).Level)
	ahead := skew(time.Now().Add(-time.Minute))
	require.Equal(t, warning, ahead.Level)
	require.Contains(t, ahead.Says, "ahead of the server's")
	require.Contains(t, skew(time.Now().Add(time.Minute)).Says, "behind the server's")
}
