package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestSetupTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	connect(t, b.srv, Config{})
	connect(t, b.srv, Config{Namespace: "staging"})
	var names []string
	for n := range b.js.StreamNames(t.Context()).Name() {
		names = append(names, n)
	}
	require.ElementsMatch(t, []string{
		"JOBS", "SCHEDULES", "DEAD", "ADVISORIES",
		"staging_JOBS", "staging_SCHEDULES", "staging_DEAD", "staging_ADVISORIES",
	}, names)
	s, err := b.js.Stream(t.Context(), StreamJobs)
	require.NoError(t, err)
	var durables []string
	for n := range s.ConsumerNames(t.Context()).Name() {
		durables = append(durables, n)
	}
	require.ElementsMatch(t, []string{"worker-high", "worker", "worker-low"}, durables)
}

// Settings that may change do, and an older worker takes nothing away from a
// newer one.
func TestSetupFollowsTheConfig(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s, err := b.js.Stream(t.Context(), StreamJobs)
	require.NoError(t, err)
	cfg := s.CachedInfo().Config
	cfg.Subjects = append(cfg.Subjects, "image.build", "image.build.*")
	_, err = b.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)

	connect(t, b.srv, Config{AckWait: 12 * time.Second, JobsMaxBytes: 5 << 20, MaxAckPending: 77})
	s, err = b.js.Stream(t.Context(), StreamJobs)
	require.NoError(t, err)
	require.Equal(t, int64(5<<20), s.CachedInfo().Config.MaxBytes)
	require.Contains(t, s.CachedInfo().Config.Subjects, "image.build.*")
	c, err := s.Consumer(t.Context(), DurableNormal)
	require.NoError(t, err)
	require.Equal(t, 12*time.Second, c.CachedInfo().Config.AckWait)
	require.Equal(t, 77, c.CachedInfo().Config.MaxAckPending)
}

func TestWidest(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"task.>", "high.task.>", "x.*"},
		widest([]string{"task.>", "task.run", "task.run.*", "high.task.run", "high.task.>", "task.>", "x.*", "x.y"}))
	for _, tc := range []struct {
		wide, narrow string
		covers       bool
	}{
		{"a.>", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a.>", true},
		{"a.>", "a.*", true},
		{"a.>", "a", false},
		{"a.*", "a.>", false},
		{"a.*", "a.b", true},
		{"a.*", "a.b.c", false},
		{"a.b", "a.*", false},
		{"a.b", "a.b", true},
		{"a.b.c", "a.b", false},
		{">", "a.b", true},
	} {
		require.Equal(t, tc.covers, Covers(tc.wide, tc.narrow), "%s covers %s", tc.wide, tc.narrow)
	}
}

func TestSetupRefusesDrift(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  jetstream.StreamConfig
		want []string
	}{
		"somebody else's": {
			jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"orders.>"}},
			[]string{"JOBS", "not Sandjet's"},
		},
		"another retention": {
			jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"task.run"}, Metadata: map[string]string{"dev.sandjet": "1"}},
			[]string{"JOBS", "retention", "WorkQueue", "delete it"},
		},
		"subjects taken": {
			jetstream.StreamConfig{Name: "OLD", Subjects: []string{"task.*"}},
			[]string{"OLD", "task."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{Namespace: "other"})
			_, err := b.js.CreateStream(t.Context(), tc.cfg)
			require.NoError(t, err)
			q, err := Open(b.js, b.pub, Config{}, nil)
			require.NoError(t, err)
			err = q.Setup(t.Context())
			for _, w := range tc.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

// A consumer of somebody's that stands in the way of ours is named.
func TestSetupRefusesForeignConsumer(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	s, err := b.js.Stream(t.Context(), StreamJobs)
	require.NoError(t, err)
	require.NoError(t, s.DeleteConsumer(t.Context(), DurableLow))
	_, err = s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "mine", FilterSubject: "low.task.run", AckPolicy: jetstream.AckExplicitPolicy,
	})
	require.NoError(t, err)
	require.ErrorContains(t, b.q.Setup(t.Context()), DurableLow)
}

func TestConfigRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Replicas: 9}, {AckWait: time.Millisecond}, {MaxAckPending: -1}} {
		_, err := Open(nil, nil, cfg, nil)
		require.Error(t, err)
	}
	_, err := NewConsumer(&Queue{}, ConsumerConfig{})
	require.ErrorContains(t, err, "slots")
}

// JOBS refuses what is beyond its cap; nothing is dropped.
func TestJobsIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{JobsMaxBytes: 20_000})
	var err error
	n := uint64(0)
	for err == nil && n < 100 {
		if _, err = b.js.Publish(t.Context(), "task.run", []byte(`{"stdin":"`+strings.Repeat("x", 1000)+`","argv":["a"]}`)); err == nil {
			n++
		}
	}
	require.ErrorContains(t, err, "maximum bytes exceeded")
	require.Equal(t, n, b.msgs(t, StreamJobs))
}
