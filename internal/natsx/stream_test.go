package natsx_test

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/natsx"
)

func TestEnsureStreamCreatesAndUpdates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxAge: time.Hour, MaxBytes: 1 << 20}
	s := b.stream(t, cfg)
	require.NotEmpty(t, s.CachedInfo().Config.Metadata[natsx.Owned])

	cfg.MaxAge, cfg.AllowDirect, cfg.Subjects = 2*time.Hour, true, []string{"s.>", "t.>"}
	cfg.Metadata = map[string]string{"more": "yes"}
	b.stream(t, cfg)
	s, err := b.js.Stream(t.Context(), "S")
	require.NoError(t, err)
	got := s.CachedInfo().Config
	require.Equal(t, 2*time.Hour, got.MaxAge)
	require.True(t, got.AllowDirect)
	require.Equal(t, []string{"s.>", "t.>"}, got.Subjects)
	require.Equal(t, "yes", got.Metadata["more"])
	require.NotEmpty(t, got.Metadata[natsx.Owned])
	require.NotContains(t, cfg.Metadata, natsx.Owned, "the caller's map is his")
}

// What the operator has set beside our settings stays.
func TestEnsureStreamKeepsTheRest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}
	s := b.stream(t, cfg)
	tuned := s.CachedInfo().Config
	tuned.Duplicates = time.Minute
	tuned.Compression = jetstream.S2Compression
	_, err := b.js.UpdateStream(t.Context(), tuned)
	require.NoError(t, err)
	cfg.MaxMsgs = 10
	b.stream(t, cfg)
	s, err = b.js.Stream(t.Context(), "S")
	require.NoError(t, err)
	require.Equal(t, time.Minute, s.CachedInfo().Config.Duplicates)
	require.Equal(t, jetstream.S2Compression, s.CachedInfo().Config.Compression)
	require.EqualValues(t, 10, s.CachedInfo().Config.MaxMsgs)
}

func TestEnsureStreamByManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := natsx.EnsureStream(t.Context(), b.js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxAge: time.Hour})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A setting that no server changes in place is named, with what to do.
func TestEnsureStreamDrift(t *testing.T) {
	t.Parallel()
	b := setup(t)
	base := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, DenyDelete: true, AllowMsgTTL: true, AllowMsgSchedules: true}
	b.stream(t, base)
	for name, c := range map[string]struct {
		change     func(*jetstream.StreamConfig)
		have, want string
	}{
		"retention":               {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "Limits", "WorkQueue"},
		"storage":                 {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "File", "Memory"},
		"deny delete":             {func(c *jetstream.StreamConfig) { c.DenyDelete = false }, "true", "false"},
		"allow message ttl":       {func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "true", "false"},
		"allow message schedules": {func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = false }, "true", "false"},
	} {
		cfg := base
		c.change(&cfg)
		_, err := natsx.EnsureStream(t.Context(), b.js, cfg)
		var drift *natsx.DriftError
		require.ErrorAs(t, err, &drift, name)
		require.Equal(t, natsx.DriftError{Stream: "S", Setting: name, Have: c.have, Want: c.want}, *drift)
		require.ErrorContains(t, err, "back the stream up")
		// The table is right: the server refuses the change as well.
		cfg.Metadata = map[string]string{natsx.Owned: "1"}
		_, err = b.js.UpdateStream(t.Context(), cfg)
		require.Error(t, err, name)
	}
}

func TestEnsureStreamRefusesForeign(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.NoError(t, err)
	_, err = natsx.EnsureStream(t.Context(), b.js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	var foreign *natsx.ForeignError
	require.ErrorAs(t, err, &foreign)
	require.Equal(t, natsx.ForeignError{Stream: "S"}, *foreign)

	_, err = natsx.EnsureStream(t.Context(), b.js, jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>", "s.a.>"}})
	require.ErrorAs(t, err, &foreign)
	require.Equal(t, natsx.ForeignError{Stream: "S", Subject: "s.a.>"}, *foreign)

	b.stream(t, jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}})
	_, err = natsx.EnsureStream(t.Context(), b.js, jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>", "s.b"}})
	require.ErrorAs(t, err, &foreign, "also when an update is in the way")
	require.Equal(t, natsx.ForeignError{Stream: "S", Subject: "s.b"}, *foreign)
}

func TestEnsureStreamSaysWhatTheServerSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := natsx.EnsureStream(t.Context(), b.js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
	require.ErrorContains(t, err, "create stream S")
	b.stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	_, err = natsx.EnsureStream(t.Context(), b.js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
	require.ErrorContains(t, err, "update stream S (replicas 3 (was 1))")
}

func TestEnsureConsumer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	cfg := jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second}
	_, err := natsx.EnsureConsumer(t.Context(), s, cfg)
	require.NoError(t, err)
	cfg.AckWait = 2 * time.Second
	c, err := natsx.EnsureConsumer(t.Context(), s, cfg)
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, c.CachedInfo().Config.AckWait)

	cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	_, err = natsx.EnsureConsumer(t.Context(), s, cfg)
	require.ErrorContains(t, err, "consumer c of stream S: deliver policy is all, want new")
}
