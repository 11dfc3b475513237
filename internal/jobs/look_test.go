package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Looking delivers nothing, and shows what was delivered and what was not.
func TestUnderway(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for i := range 40 {
		subject := []string{"task.run", "high.task.run", "low.task.run"}[i%3]
		b.send(t, subject, fmt.Sprintf(`{"id":"j%d","session":"s1","argv":["true"]}`, i+1))
	}
	b.send(t, "task.run", `no job`)
	r := b.consume(t, ConsumerConfig{Slots: 5})
	for range 5 {
		r.next(t)
	}
	all, err := b.q.Positions(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Position{
		{DurableHigh, 5, 14}, {DurableNormal, 0, 0}, {DurableLow, 0, 0},
	}, all)

	look := func(after, upto uint64) (seqs []uint64) {
		err := b.q.Underway(t.Context(), after, upto, func(j *Job) error {
			require.Equal(t, fmt.Sprintf("j%d", j.StreamSeq), j.ID)
			require.Equal(t, j.StreamSeq, j.Origin)
			seqs = append(seqs, j.StreamSeq)
			return nil
		})
		require.NoError(t, err)
		return seqs
	}
	require.Len(t, look(0, 1000), 40)
	require.ElementsMatch(t, []uint64{9, 10, 11}, look(8, 11))
	require.Empty(t, look(11, 8))
	require.NoError(t, b.purge(t, "JOBS", 1, 39))
	require.Equal(t, []uint64{40}, look(0, 1000))
	require.ErrorIs(t, b.q.Underway(t.Context(), 0, 1000, func(*Job) error { return context.Canceled }), context.Canceled)
}

// purge removes messages one by one.
func (b *bench) purge(t *testing.T, stream string, from, to uint64) error {
	s, err := b.js.Stream(t.Context(), stream)
	require.NoError(t, err)
	for seq := from; seq <= to; seq++ {
		if err := s.DeleteMsg(t.Context(), seq); err != nil {
			return err
		}
	}
	return nil
}

// Jobs in the schedules are shown with their time and with what they wait for; also
// one that has come back.
func TestScheduled(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for i := range 3 {
		b.send(t, "low.task.run.agent", fmt.Sprintf(`{"id":"j%d","session":"s1","argv":["true"]}`, i+1))
	}
	r := b.consume(t, ConsumerConfig{Slots: 3})
	at := time.Now().Add(time.Hour).UTC()
	for range 3 {
		d := r.next(t)
		switch d.ID {
		case "j1":
			require.NoError(t, b.q.Reschedule(t.Context(), d.Job, at))
		case "j2":
			require.NoError(t, b.q.LeaveLane(t.Context(), d.Job, at))
		case "j3":
			require.NoError(t, b.q.LeaveLane(t.Context(), d.Job, time.Now()))
		}
		d.finish(t)
	}
	back := r.next(t)
	require.Equal(t, "j3", back.ID)
	got := map[string]Waiting{}
	require.NoError(t, b.q.Scheduled(t.Context(), func(w Waiting) error {
		got[w.ID] = w
		return nil
	}))
	require.Len(t, got, 3)
	for i := range 3 {
		w := got[fmt.Sprintf("j%d", i+1)]
		require.EqualValues(t, i+1, w.Origin)
		require.Equal(t, Low, w.Priority)
		require.Equal(t, "agent", w.Owner)
	}
	require.False(t, got["j1"].Lane)
	require.Equal(t, at, got["j1"].At)
	require.True(t, got["j2"].Lane)
	require.Zero(t, got["j3"].At, "it has come back")

	// What is called back waits for its turn still; and put back for another reason
	// it does not.
	require.NoError(t, b.q.Reschedule(t.Context(), back.Job, at))
	back.finish(t)
	require.NoError(t, b.q.Scheduled(t.Context(), func(w Waiting) error {
		got[w.ID] = w
		return nil
	}))
	require.False(t, got["j3"].Lane)
	require.Equal(t, at, got["j3"].At)
}

// Every delivery is announced once, before its handler: also one that waits for a
// slot.
func TestArrived(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	arrived := make(chan *Delivery, 100)
	r := b.consume(t, ConsumerConfig{Slots: 1, Patience: time.Hour, Linger: time.Hour, Arrived: func(d *Delivery) {
		d.Note = d.ID
		arrived <- d
	}})
	wait := func() *Delivery { return answer(t, arrived) }
	b.send(t, "low.task.run", `{"id":"a","session":"s1","argv":["true"]}`)
	h := r.next(t)
	d := wait()
	require.Same(t, h.Delivery, d)
	require.Equal(t, "a", h.Note)
	require.Equal(t, DurableLow, d.Durable)
	require.EqualValues(t, 1, d.ConsumerSeq)
	require.NoError(t, h.GiveBack(0))
	h.done()
	again := r.next(t)
	require.Same(t, again.Delivery, wait())
	require.EqualValues(t, 2, again.ConsumerSeq, "deliveries are counted, not messages")

	// The source of high priority has a pull waiting, and there is no slot.
	b.send(t, "high.task.run", `{"id":"b","session":"s1","argv":["true"]}`)
	landed := wait()
	require.Equal(t, "b", landed.ID)
	require.Empty(t, r.got)
	again.finish(t)
	require.Same(t, landed, r.next(t).Delivery)
	require.Empty(t, arrived, "announced once")
}
