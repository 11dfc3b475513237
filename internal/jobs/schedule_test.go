package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A job that waits in a schedule comes back as the same job, when it is due and
// not before.
func TestRescheduleKeepsTheJob(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Namespace: "staging"})
	r := b.consume(t, ConsumerConfig{Slots: 2})
	for range 5 { // so that sequences differ
		b.send(t, "staging.task.run", echo)
		r.next(t).finish(t)
	}
	b.send(t, "staging.high.task.run.bob", `{"argv":["x"],"owner":"eve"}`,
		"Nats-Msg-Id", "mine", "traceparent", "00-ab", HeaderReplay, "17", HeaderJob, "forged", "nats-expected-last-sequence", "99")
	h := r.next(t)
	require.NoError(t, h.Err)
	due := time.Now().Add(3 * time.Second)
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, due))
	h.finish(t)
	eventually(t, func() bool { return b.msgs(t, StreamJobs) == 0 }, "off the queue")
	d, err := b.q.Depth(t.Context())
	require.NoError(t, err)
	require.Equal(t, Depth{Waiting: 1}, d)

	again := r.next(t)
	require.NoError(t, again.Err)
	require.False(t, time.Now().Before(due), "came early")
	for range 2 { // and a second time, from where it is now
		require.True(t, again.Rescheduled)
		require.Equal(t, StreamSchedules, strings.TrimPrefix(again.Stream, "staging_"))
		require.NotEqual(t, h.Origin, again.StreamSeq)
		require.Equal(t, "mine", again.ID)
		require.Equal(t, "mine", again.Session)
		require.Equal(t, "bob", again.Owner)
		require.True(t, again.OwnerProven)
		require.True(t, again.Ephemeral)
		require.Equal(t, High, again.Priority)
		require.Equal(t, h.Origin, again.Origin)
		require.Equal(t, uint64(17), again.Replay)
		require.True(t, h.PublishedAt.Equal(again.PublishedAt))
		require.Equal(t, "staging.high.task.run.bob", again.Subject)
		require.Equal(t, "00-ab", again.Header.Get("traceparent"))
		require.Equal(t, h.Body, again.Body)
		require.NoError(t, b.q.Reschedule(t.Context(), again.Job, time.Now()))
		again.finish(t)
		again = r.next(t)
	}
	again.finish(t)
	eventually(t, func() bool { return b.msgs(t, StreamSchedules) == 0 }, "nothing left behind")
}

// A worker that dies between the schedule and the ack: the message comes again
// and is rescheduled again, and the job still comes back once.
func TestRescheduleTwiceIsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 2})
	b.send(t, "task.run", echo)
	h := r.next(t)
	due := time.Now().Add(500 * time.Millisecond)
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, due))
	again := r.next(t)
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, due), "as after a redelivery")
	require.Zero(t, b.msgs(t, StreamSchedules)-1)
	h.finish(t)
	// The one that came back may be put off to the very same time: it must not be
	// taken for the first.
	require.NoError(t, b.q.Reschedule(t.Context(), again.Job, due))
	again.finish(t)
	last := r.next(t)
	require.Equal(t, h.ID, last.ID)
	last.finish(t)
	r.none(t, 500*time.Millisecond)
}

func TestRescheduleMovesTheDate(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", echo)
	h := r.next(t)
	first := time.Now().Add(3 * time.Second)
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, first))
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, time.Now().Add(time.Hour)))
	h.finish(t)
	r.none(t, time.Until(first)+500*time.Millisecond)
	require.Equal(t, uint64(1), b.msgs(t, StreamSchedules))

	ok, err := b.q.Hasten(t.Context(), h.Session, h.ID)
	require.NoError(t, err)
	require.True(t, ok)
	again := r.next(t)
	require.Equal(t, h.Origin, again.Origin)
	again.finish(t)
	ok, err = b.q.Hasten(t.Context(), h.Session, h.ID)
	require.NoError(t, err)
	require.False(t, ok, "it waits no more")
	r.none(t, 500*time.Millisecond)
}

// The schedule fires between the look at it and the word that it should.
func TestHastenTooLate(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", echo)
	h := r.next(t)
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, time.Now().Add(3*time.Second)))
	h.finish(t)
	s, err := b.js.Stream(t.Context(), StreamSchedules)
	require.NoError(t, err)
	old, err := s.GetLastMsgForSubject(t.Context(), scheduleSubject("", h.Session, h.ID))
	require.NoError(t, err)
	r.next(t).finish(t)
	ok, err := b.q.hasten(t.Context(), old)
	require.NoError(t, err)
	require.False(t, ok)
	// The ack is not waited for: the server takes the message off in its own time.
	eventually(t, func() bool { return b.msgs(t, StreamSchedules) == 0 }, "nothing left")
	r.none(t, 500*time.Millisecond)
}

// What cannot be read can still be put off: a body for a newer worker.
func TestRescheduleNewerVersion(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run.bob", `{"v":2,"id":"new","session":"s","command":{"argv":["a"]}}`)
	h := r.next(t)
	require.ErrorAs(t, h.Err, new(*NewerVersion))
	require.NoError(t, b.q.Reschedule(t.Context(), h.Job, time.Now()))
	h.finish(t)
	again := r.next(t)
	require.ErrorAs(t, again.Err, new(*NewerVersion))
	require.Equal(t, []string{"new", "s", "bob"}, []string{again.ID, again.Session, again.Owner})
	require.Equal(t, h.Origin, again.Origin)
	again.finish(t)
}

func TestScheduleFull(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{SchedulesMaxBytes: 4096})
	other := connect(t, b.srv, Config{SchedulesMaxBytes: 4096})
	j := func(i int) *Job {
		j, err := Decode(raw("task.run", fmt.Sprintf(`{"id":"j%d","argv":["a"]}`, i)), "")
		require.NoError(t, err)
		return j
	}
	stored := 0
	var err error
	for i := 0; err == nil && i < 100; i++ {
		if err = b.q.Reschedule(t.Context(), j(i), time.Now().Add(time.Hour)); err == nil {
			stored++
		}
	}
	require.ErrorIs(t, err, ErrScheduleFull)
	require.Greater(t, stored, 3)
	require.Less(t, stored, 15)
	for err, i := error(nil), 0; !errors.Is(err, ErrScheduleFull); i++ {
		require.Less(t, i, 4, "the other worker sees it too")
		err = other.q.Reschedule(t.Context(), j(200+i), time.Now().Add(time.Hour))
	}

	// The job is given back instead, and the pressure stays in JOBS.
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", echo)
	h := r.next(t)
	rescheduled, err := b.q.Postpone(t.Context(), h.Delivery, time.Hour)
	require.NoError(t, err)
	require.False(t, rescheduled)
	require.True(t, h.Settled())
	h.done()
	require.NoError(t, b.nc.Flush())
	require.Equal(t, uint64(1), b.msgs(t, StreamJobs))
}

func TestPostpone(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "task.run", echo)
	h := r.next(t)
	rescheduled, err := b.q.Postpone(t.Context(), h.Delivery, 100*time.Millisecond)
	require.NoError(t, err)
	require.False(t, rescheduled)
	h.done()
	h = r.next(t)
	require.Equal(t, 2, h.Delivered)
	rescheduled, err = b.q.Postpone(t.Context(), h.Delivery, time.Hour)
	require.NoError(t, err)
	require.True(t, rescheduled)
	h.done()
	eventually(t, func() bool { return b.msgs(t, StreamJobs) == 0 }, "off the queue")
	require.Equal(t, uint64(1), b.msgs(t, StreamSchedules))
}

// A body of just the size that the server takes leaves no room for our headers.
func TestRescheduleTooLarge(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	head, tail := `{"argv":["a"],"metadata":"`, `"}`
	n := int(b.nc.MaxPayload()) - len(head) - len(tail)
	b.send(t, "task.run", head+strings.Repeat("x", n)+tail)
	r := b.consume(t, ConsumerConfig{Slots: 1})
	h := r.next(t)
	require.ErrorIs(t, b.q.Reschedule(t.Context(), h.Job, time.Now()), ErrTooLarge)
	_, err := b.q.Postpone(t.Context(), h.Delivery, time.Hour)
	require.NoError(t, err)
	h.done()
	require.NoError(t, b.nc.Flush())
	require.Equal(t, uint64(1), b.msgs(t, StreamJobs))

	j, err := Decode(raw("task.run", echo, "X", strings.Repeat("h", maxHeader-100)), "")
	require.NoError(t, err)
	require.ErrorIs(t, b.q.Reschedule(t.Context(), j, time.Now()), ErrTooLarge)
}

// 500 jobs that wait do not delay one that need not.
func TestWaitingJobsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	const n = 500
	b := setup(t, Config{MaxAckPending: 50})
	r := b.consume(t, ConsumerConfig{Slots: 8})
	for i := range n {
		b.send(t, "task.run", fmt.Sprintf(`{"id":"w%d","argv":["a"],"delay":"1h"}`, i))
	}
	b.send(t, "task.run", `{"id":"now","argv":["a"]}`)
	ran := false
	for range n + 1 {
		h := r.next(t)
		if h.ID == "now" {
			ran = true
			h.finish(t)
			continue
		}
		_, err := b.q.Postpone(t.Context(), h.Delivery, time.Until(h.NotBefore()))
		require.NoError(t, err)
		h.done()
	}
	require.True(t, ran)
	eventually(t, func() bool { return b.msgs(t, StreamSchedules) == n }, "all wait")
	eventually(t, func() bool {
		d, err := b.q.Depth(t.Context())
		return err == nil && d == Depth{Waiting: n}
	}, "acks have arrived")
}

// Schedules survive the server, and what fell due meanwhile comes once.
func TestSchedulesSurviveARestart(t *testing.T) {
	t.Parallel()
	srv, restart := restartable(t)
	b := connect(t, srv, Config{})
	for i := range 20 {
		j, err := Decode(raw("task.run", fmt.Sprintf(`{"id":"j%d","argv":["a"]}`, i)), "")
		require.NoError(t, err)
		require.NoError(t, b.q.Reschedule(t.Context(), j, time.Now().Add(300*time.Millisecond)))
	}
	restart()
	eventually(t, func() bool { return b.nc.Stats().Reconnects > 0 && b.nc.IsConnected() }, "reconnected")
	r := b.consume(t, ConsumerConfig{Slots: 20})
	seen := map[string]bool{}
	for range 20 {
		h := r.next(t)
		require.False(t, seen[h.ID])
		seen[h.ID] = true
		h.finish(t)
	}
	r.none(t, 300*time.Millisecond)
}

func TestKeepHeaders(t *testing.T) {
	t.Parallel()
	src := nats.Header{"A": {"1", "2"}, "Nats-Msg-Id": {"x"}, "nats-schedule": {"@at 1"}, "SANDJET-JOB": {"y"}, "Sandjet-Job": {"z"}}
	dst := nats.Header{}
	keepHeaders(dst, src)
	require.Equal(t, nats.Header{"A": {"1", "2"}}, dst)
	dst["A"][0] = "changed"
	require.Equal(t, "1", src["A"][0])
}
