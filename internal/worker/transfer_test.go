package worker_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

func (w *world) move(kind jobs.Kind, path, object string) events.Job {
	return w.publish(kind, &jobs.File{Common: jobs.Common{Session: "s1"}, Path: path, Object: object})
}

// Transfers that break off in the middle go on without an attempt, and slow ones
// have the time that they need.
func TestTransfersGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "true")).Kind)
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	data := bytes.Repeat([]byte("0123456789abcdef"), 8<<16)
	sum := sha256.Sum256(data)
	_, err = bucket.PutBytes(t.Context(), "in", data)
	require.NoError(t, err)

	faults := w.e2b.Faults()
	writes := faults.Count("write")
	faults.Add(local.Fault{Op: "write", Action: local.LostAnswer{}})
	faults.Add(local.Fault{Op: "write", Action: local.Delay(6 * time.Second)})
	e := w.follow(w.move(jobs.FileUpload, "f", "in"))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
	require.Equal(t, 2, faults.Count("write")-writes, "the slow one had its time")
	require.Equal(t, hex.EncodeToString(sum[:]), strings.Fields(string(w.follow(w.run("s1", "sha256sum", "f")).Stdout))[0])

	reads := faults.Count("read")
	faults.Add(local.Fault{Op: "read", Count: 2, Action: local.CutAfter{Bytes: 3 << 20}})
	e = w.follow(w.move(jobs.FileDownload, "f", "out"))
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
	require.Equal(t, hex.EncodeToString(sum[:]), e.ObjectSHA)
	require.Equal(t, 3, faults.Count("read")-reads, "read on, not anew")
	got, err := bucket.GetBytes(t.Context(), "out")
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

// A download that is cancelled in the middle leaves the old object, and nothing
// of the new one.
func TestCancelledDownload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "head -c 8000000 /dev/zero >f")).Kind)
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	_, err = bucket.PutString(t.Context(), "out", "old")
	require.NoError(t, err)
	faults := w.e2b.Faults()
	reads := faults.Count("read")
	faults.Add(local.Fault{Op: "read", Action: local.CutAfter{Bytes: 4 << 20}})
	faults.Add(local.Fault{Op: "read", Count: -1, Action: local.Hang{}})
	job := w.move(jobs.FileDownload, "f", "out")
	require.Eventually(t, func() bool { return faults.Count("read") >= reads+2 }, eventually, tick)
	require.NoError(t, w.facts.Cancel(t.Context(), job, events.CancelRequested{}))
	require.Equal(t, events.Cancelled, w.follow(job).Kind)
	got, err := bucket.GetString(t.Context(), "out")
	require.NoError(t, err)
	require.Equal(t, "old", got)
	stream, err := w.js.Stream(t.Context(), "OBJ_"+events.BucketArtifact)
	require.NoError(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	require.Len(t, info.State.Subjects, 2, "chunks and entry of the old object alone: %v", info.State.Subjects)
}
