package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
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

// Each way a deployment can be broken is found, and alone.
func TestDoctorFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	doctor := func() string { return d.publisher(t.Context(), nil, "doctor").stdout }
	sound := doctor()
	require.Equal(t, 1, strings.Count(sound, "problem"), "only the worker is missing:\n%s", sound)

	jobsStream, err := d.js.Stream(t.Context(), jobs.StreamJobs)
	require.NoError(t, err)
	require.NoError(t, jobsStream.DeleteConsumer(t.Context(), jobs.DurableLow))
	require.Regexp(t, `(?m)^stream JOBS +problem +has no consumer worker-low: start a worker`, doctor())

	cfg := jobsStream.CachedInfo().Config
	cfg.Subjects = slices.DeleteFunc(cfg.Subjects, func(s string) bool { return strings.HasPrefix(s, "high.task.") })
	_, err = d.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^stream JOBS +problem +does not take in high.task.run:`, doctor())

	require.NoError(t, d.js.DeleteStream(t.Context(), jobs.StreamDead))
	_, err = d.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: jobs.StreamDead, Subjects: []string{"dead.>"}, Retention: jetstream.InterestPolicy})
	require.NoError(t, err)
	require.Regexp(t, `(?m)^stream DEAD +problem +keeps messages by Interest, not Limits: it is not Sandjet's`, doctor())

	require.NoError(t, d.js.DeleteObjectStore(t.Context(), events.BucketArtifact))
	require.Regexp(t, `(?m)^bucket ARTIFACTS +problem +does not exist: start a worker`, doctor())
	require.Equal(t, 4, strings.Count(doctor(), "problem"))
}
