package worker_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/worker"
)

// Without a byte cap, and why.
var uncapped = map[string]string{
	jobs.StreamSchedules: "dropping its oldest would lose jobs, and with schedules the server cannot refuse; the worker does",
}

// Whatever a worker stores in NATS has a byte cap, the one that it was told.
func TestEveryStreamIsCapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) {
		c.EventsCap, c.JobsCap, c.DeadCap, c.SessionsCap, c.ArtifactsCap = 11<<20, 12<<20, 13<<20, 14<<20, 15<<20
		c.EventsAge, c.DeadAge = 5*time.Hour, 6*time.Hour
	})
	found := map[string]jetstream.StreamConfig{}
	for info := range w.js.ListStreams(t.Context()).Info() {
		found[info.Config.Name] = info.Config
		if uncapped[info.Config.Name] == "" {
			require.Positive(t, info.Config.MaxBytes, "%s may fill the disk", info.Config.Name)
		}
	}
	for name, limit := range map[string]int64{
		events.StreamEvents: 11 << 20, jobs.StreamJobs: 12 << 20, jobs.StreamDead: 13 << 20,
		events.StreamSessions: 14 << 20, "OBJ_" + events.BucketArtifact: 15 << 20,
	} {
		require.Equal(t, limit, found[name].MaxBytes, name)
	}
	require.Equal(t, 5*time.Hour, found[events.StreamEvents].MaxAge)
	require.Equal(t, 6*time.Hour, found[jobs.StreamDead].MaxAge)
	for _, name := range []string{jobs.StreamJobs, "OBJ_" + events.BucketArtifact} {
		require.Equal(t, jetstream.DiscardNew, found[name].Discard, "%s would drop what nobody has taken", name)
	}
}

// A full bucket keeps what it has, and the job says what to do.
func TestFullBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.ArtifactsCap = 1 << 20 })
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "head -c 4000000 /dev/zero >large; echo hi >small")).Kind)
	require.Equal(t, events.Succeeded, w.follow(w.move(jobs.FileDownload, "small", "out")).Kind)

	e := w.follow(w.move(jobs.FileDownload, "large", "out"))
	require.Equal(t, events.Dead, e.Kind, "%+v", e.Outcome)
	require.Equal(t, string(jobs.ClassFull), e.Class)
	require.Contains(t, e.Reason, "raise WORKER_ARTIFACTS_CAP")
	require.Equal(t, 1, e.Attempts, "another try would meet the same bucket")
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	got, err := bucket.GetString(t.Context(), "out")
	require.NoError(t, err)
	require.Equal(t, "hi\n", got)
	status, err := bucket.Status(t.Context())
	require.NoError(t, err)
	require.Less(t, status.Size(), uint64(10_000), "nothing stays of what did not fit")
	require.Equal(t, events.Succeeded, w.follow(w.move(jobs.FileDownload, "small", "other")).Kind)
}

// The list of jobs in Redis stays as short as it shall be.
func TestJobListIsCapped(t *testing.T) {
	t.Parallel()
	const jobsRun, kept, late = 40, 4, 16 // the list is cut once in 16 writes
	w := newWorld(t)
	w.worker(func(c *worker.Config) { c.ViewJobs = kept })
	for range jobsRun - 1 {
		w.run("s1", "true")
	}
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind, "the last of the session")
	require.Eventually(t, func() bool {
		var reply query.JobListReply
		w.ask(query.JobList, query.JobListRequest{Limit: jobsRun}, &reply)
		return len(reply.Jobs) > 0 && len(reply.Jobs) <= kept+late
	}, eventually, tick)
}
