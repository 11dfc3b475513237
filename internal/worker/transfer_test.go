package worker_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/worker"
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

// A bucket that nobody answers for, as before a new leader is there, makes a download
// wait: it spends no attempt.
func TestBucketWithoutAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "echo text >f")).Kind)
	stream, err := w.js.Stream(t.Context(), "OBJ_"+events.BucketArtifact)
	require.NoError(t, err)
	whole := stream.CachedInfo().Config
	deaf := whole
	deaf.Subjects = slices.DeleteFunc(slices.Clone(whole.Subjects), func(s string) bool { return strings.Contains(s, ".C.") })
	require.Len(t, deaf.Subjects, 1, "chunks go to a subject of their own")
	_, err = w.js.UpdateStream(t.Context(), deaf)
	require.NoError(t, err)
	job := w.move(jobs.FileDownload, "f", "out")
	w.waiting(job, events.WaitBreaker)
	_, err = w.js.UpdateStream(t.Context(), whole)
	require.NoError(t, err)
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
}

// An object of which nothing comes, as when the server that sends it has died, makes an
// upload wait: it hangs on nothing and spends no attempt.
func TestBucketThatFallsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	_, err = bucket.PutString(t.Context(), "in", "text")
	require.NoError(t, err)
	stream, err := w.js.Stream(t.Context(), "OBJ_"+events.BucketArtifact)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$O."+events.BucketArtifact+".C.>")))
	job := w.move(jobs.FileUpload, "f", "in")
	w.waiting(job, events.WaitBreaker)
	_, err = bucket.PutString(t.Context(), "in", "text")
	require.NoError(t, err)
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
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

// A worker is killed in the middle of an upload, and of a download. The next one
// begins the transfer again: the file is whole, and so is the object. What the dead
// one has left in the bucket is removed in time, and only that.
func TestTransferTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.spawn("first", "WORKER_ACK_WAIT=2s")
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "seq 1000000 >f")).Kind)
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	data := bytes.Repeat([]byte("0123456789abcdef"), 8<<16)
	_, err = bucket.PutBytes(t.Context(), "in", data)
	require.NoError(t, err)
	faults := w.e2b.Faults()
	stream, err := w.js.Stream(t.Context(), "OBJ_"+events.BucketArtifact)
	require.NoError(t, err)
	chunks := func() map[string]uint64 {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$O."+events.BucketArtifact+".C.>"))
		require.NoError(t, err)
		return info.State.Subjects
	}

	free := faults.Add(local.Fault{Op: "write", Action: local.Hang{}})
	writes := faults.Count("write")
	up := w.move(jobs.FileUpload, "copy", "in")
	require.Eventually(t, func() bool { return faults.Count("write") > writes }, eventually, tick)
	first.Kill()
	free()
	first = w.spawn("second", "WORKER_ACK_WAIT=2s")
	e := w.follow(up)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	sum := sha256.Sum256(data)
	require.Equal(t, hex.EncodeToString(sum[:]), strings.Fields(string(w.follow(w.run("s1", "sha256sum", "copy")).Stdout))[0])
	require.Equal(t, "copy\nf\n", string(w.follow(w.run("s1", "sh", "-c", "ls -A | grep -e copy -e f")).Stdout), "half a file is left")

	// The answer stops after some chunks, and the next read hangs.
	faults.Add(local.Fault{Op: "read", Action: local.CutAfter{Bytes: 3 << 20}})
	free = faults.Add(local.Fault{Op: "read", Action: local.Hang{}})
	reads, before := faults.Count("read"), len(chunks())
	down := w.move(jobs.FileDownload, "f", "out")
	require.Eventually(t, func() bool { return faults.Count("read") >= reads+2 && len(chunks()) > before }, eventually, tick)
	first.Kill()
	free()
	w.worker(func(c *worker.Config) {
		c.AckWait, c.ReconcileEvery, c.ChunkAge = 2*time.Second, time.Second, 5*time.Second
	})
	e = w.follow(down)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	want := w.follow(w.run("s1", "sha256sum", "f"))
	require.Equal(t, strings.Fields(string(want.Stdout))[0], e.ObjectSHA)
	require.Eventually(t, func() bool { return len(chunks()) == 2 }, eventually, tick, "remains are left: %v", chunks())
	for _, name := range []string{"in", "out"} {
		_, err := bucket.GetBytes(t.Context(), name)
		require.NoError(t, err, name)
	}
}

// A chunk comes to the bucket out of its place, as when a new leader has taken over in
// the middle: the download does not count as done, and is made again without an
// attempt.
func TestTornObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	// Large, so that there is a middle.
	require.Equal(t, events.Succeeded, w.follow(w.run("s1", "sh", "-c", "head -c 32000000 /dev/zero >f")).Kind)
	var once sync.Once
	_, err := w.nc.Subscribe("$O."+events.BucketArtifact+".C.*", func(m *nats.Msg) {
		once.Do(func() { _ = w.nc.Publish(m.Subject, []byte("out of its place")) })
	})
	require.NoError(t, err)
	require.NoError(t, w.nc.Flush())
	job := w.move(jobs.FileDownload, "f", "out")
	w.waiting(job, events.WaitBreaker)
	e := w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	require.Equal(t, 1, e.Attempts)
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	got, err := bucket.GetBytes(t.Context(), "out")
	require.NoError(t, err)
	sum := sha256.Sum256(got)
	require.Equal(t, e.ObjectSHA, hex.EncodeToString(sum[:]))
}

// peak is the most memory that the process has had, in bytes.
func (p *process) peak() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	require.True(p.t, ok)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(p.t, err)
	return kib << 10
}

// Files go through a worker, not into it: what it needs for one does not grow with it.
func TestTransfersAreStreamed(t *testing.T) {
	t.Parallel()
	const size = 160 << 20
	w := newWorld(t)
	p := w.spawn("w1", "WORKER_ARTIFACTS_CAP=1GiB")
	w.done(w.run("s1", "true"))
	bucket, err := w.js.ObjectStore(t.Context(), events.BucketArtifact)
	require.NoError(t, err)
	for _, n := range []int64{1 << 20, size} {
		_, err = bucket.Put(t.Context(), jetstream.ObjectMeta{Name: fmt.Sprint(n)}, io.LimitReader(zeros{}, n))
		require.NoError(t, err)
	}
	w.done(w.move(jobs.FileUpload, "small", fmt.Sprint(1<<20)))
	w.done(w.move(jobs.FileDownload, "small", "out"))
	before := p.peak()
	w.done(w.move(jobs.FileUpload, "large", fmt.Sprint(size)))
	e := w.done(w.move(jobs.FileDownload, "large", "out"))
	require.EqualValues(t, size, e.ObjectBytes)
	t.Logf("peak %d MiB before, %d MiB after %d MiB each way", before>>20, p.peak()>>20, size>>20)
	require.Less(t, p.peak()-before, size/2)
}

// zeros is zero bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
