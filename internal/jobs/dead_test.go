package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestDeadLetter(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Namespace: "staging"})
	r := b.consume(t, ConsumerConfig{Slots: 1})
	b.send(t, "staging.low.task.run.bob", `{"id":"a","session":"s","agrv":1}`, "traceparent", "00-ab")
	h := r.next(t)
	var bad *Invalid
	require.ErrorAs(t, h.Err, &bad)
	letter := DeadLetter{Job: h.Job, Class: bad.Class, Reason: bad.Reason + "\r\nX-Evil: 1", Pointer: bad.Pointer, Attempts: 2}
	for range 3 { // a worker that died before the ack writes it again
		require.NoError(t, b.q.Dead(t.Context(), letter))
	}
	h.finish(t)

	page, err := b.q.DeadList(t.Context(), DeadFilter{})
	require.NoError(t, err)
	require.Len(t, page.Letters, 1, "twice is once")
	require.Empty(t, page.Next)
	require.Nil(t, page.Letters[0].Body)
	l, err := b.q.DeadGet(t.Context(), page.Letters[0].Seq)
	require.NoError(t, err)
	require.Equal(t, h.Body, l.Body)
	require.Equal(t, "00-ab", l.Header.Get("traceparent"))
	require.Empty(t, l.Header.Get("X-Evil"))
	require.Contains(t, l.Reason, bad.Reason)
	l.Time, l.Reason, l.Body, l.Header = time.Time{}, "", nil, nil
	require.Equal(t, Letter{
		Seq: 1, Kind: TaskRun, Job: "a", Session: "s", Owner: "bob", Proven: "bob", Subject: "staging.low.task.run.bob",
		Pointer: "/agrv", Class: ClassInvalid, Attempts: 2, Origin: 1, Size: len(h.Body),
	}, l)

	require.NoError(t, b.q.DeadDiscard(t.Context(), 1))
	require.ErrorIs(t, b.q.DeadDiscard(t.Context(), 1), ErrNoLetter)
	_, err = b.q.DeadGet(t.Context(), 1)
	require.ErrorIs(t, err, ErrNoLetter)
	_, err = b.q.DeadReplay(t.Context(), 1)
	require.ErrorIs(t, err, ErrNoLetter)
}

// Twice is once also when the server has forgotten the message id.
func TestDeadLetterAfterTheDedupWindow(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	j, err := Decode(raw("task.run", echo), "")
	require.NoError(t, err)
	letter := DeadLetter{Job: j, Class: ClassPolicy, Reason: "no"}
	require.NoError(t, b.q.Dead(t.Context(), letter))
	_, err = b.js.Publish(t.Context(), "dead.x.y.z", nil, jetstream.WithMsgID("marker"))
	require.NoError(t, err)
	s, err := b.js.Stream(t.Context(), StreamDead)
	require.NoError(t, err)
	cfg := s.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond
	eventually(t, func() bool { // when the later id is forgotten, so is the letter's
		cfg.Duplicates++ // the server looks through its ids when the window changes
		if _, err := b.js.UpdateStream(t.Context(), cfg); err != nil {
			return false
		}
		ack, err := b.js.Publish(t.Context(), "dead.x.y.z", nil, jetstream.WithMsgID("marker"))
		return err == nil && !ack.Duplicate
	}, "forgotten")
	require.NoError(t, b.q.Dead(t.Context(), letter))
	page, err := b.q.DeadList(t.Context(), DeadFilter{Kind: TaskRun})
	require.NoError(t, err)
	require.Len(t, page.Letters, 1)
}

// What a subject proves counts, not what a body says; and a walk that finds nothing for
// long goes on with the next page.
func TestDeadListOfAProvenOwner(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Namespace: "staging"})
	b.q.deadBudget = 4
	for i := range 23 {
		j := &Job{Kind: TaskRun, Common: Common{ID: fmt.Sprintf("j%d", i), Session: "s", Owner: "ann"}, Origin: uint64(i + 1)}
		j.Subject = "staging." + []string{"task.run", "task.run.bob", "task.run.ann", "high.task.run.bob", "task.run.a.b", "task.run.ann"}[i%6]
		require.NoError(t, b.q.Dead(t.Context(), DeadLetter{Job: j, Class: ClassPolicy}))
	}
	for who, want := range map[string]int{"ann": 7, "bob": 8, "carl": 0, "": 23} {
		seen, empty := map[string]bool{}, 0
		for f := (DeadFilter{Proven: who, Limit: 3}); ; {
			page, err := b.q.DeadList(t.Context(), f)
			require.NoError(t, err)
			for _, l := range page.Letters {
				require.False(t, seen[l.Job], "%s came twice", l.Job)
				seen[l.Job] = true
				if who != "" {
					require.Equal(t, who, l.Proven)
				}
			}
			if len(page.Letters) == 0 {
				empty++
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		require.Len(t, seen, want, "of %q", who)
		require.Equal(t, who == "carl", empty > 1, "%d empty pages for %q", empty, who)
	}
}

func TestDeadList(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for i := range 25 {
		kind, class := TaskRun, ClassPolicy
		if i%5 == 0 {
			kind = SandboxPause
		}
		if i%2 == 0 {
			class = ClassAuth
		}
		j := &Job{Kind: kind, Common: Common{ID: fmt.Sprintf("j%d", i), Session: "s"}, Subject: string(kind), Origin: uint64(i + 1)}
		require.NoError(t, b.q.Dead(t.Context(), DeadLetter{Job: j, Class: class}))
	}
	list := func(f DeadFilter) (ids []string) {
		for pages := 0; ; pages++ {
			require.Less(t, pages, 20)
			page, err := b.q.DeadList(t.Context(), f)
			require.NoError(t, err)
			for _, l := range page.Letters {
				ids = append(ids, l.Job)
			}
			if page.Next == "" {
				return ids
			}
			require.Len(t, page.Letters, f.Limit)
			f.Cursor = page.Next
		}
	}
	require.Len(t, list(DeadFilter{}), 25)
	require.Len(t, list(DeadFilter{Limit: 4}), 25)
	require.Len(t, list(DeadFilter{Limit: 5}), 25)
	require.Equal(t, []string{"j0", "j5", "j10", "j15", "j20"}, list(DeadFilter{Kind: SandboxPause, Limit: 2}))
	require.Equal(t, []string{"j0", "j10", "j20"}, list(DeadFilter{Kind: SandboxPause, Class: ClassAuth, Limit: 1}))
	require.Empty(t, list(DeadFilter{Kind: GitClone}))
	require.Empty(t, list(DeadFilter{Owner: "eve"}))
	require.Empty(t, list(DeadFilter{Proven: "eve"}))
	_, err := b.q.DeadList(t.Context(), DeadFilter{Cursor: "0; drop"})
	require.ErrorContains(t, err, "cursor")
}

// A replay is a job of its own with a new series of attempts; it is not
// swallowed by the dedup window.
func TestDeadReplay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body   string
		header []string
		id     string
	}{
		"id in the body":   {`{"id":"a","session":"s","argv":["x"]}`, []string{"Nats-Msg-Id", "m"}, "a"},
		"id of the header": {`{"session":"s","argv":["x"]}`, []string{"Nats-Msg-Id", "m"}, "m"},
		"id of the stream": {`{"session":"s","argv":["x"]}`, nil, "j1"},
		"its own session":  {`{"argv":["x"]}`, nil, "j1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{})
			r := b.consume(t, ConsumerConfig{Slots: 1})
			b.send(t, "high.task.run.bob", tc.body, append(tc.header, "traceparent", "00-ab")...)
			h := r.next(t)
			require.Equal(t, tc.id, h.ID)
			require.NoError(t, b.q.Dead(t.Context(), DeadLetter{Job: h.Job, Class: ClassTransport, Attempts: 3}))
			h.finish(t)

			p, err := b.q.DeadReplay(t.Context(), 1)
			require.NoError(t, err)
			id, session := tc.id+"-r1", h.Session
			if h.Ephemeral {
				session = id
			}
			require.Equal(t, Published{Session: session, Job: id, Subject: "high.task.run.bob", Stream: StreamJobs, StreamSeq: 2}, p)
			again := r.next(t)
			require.NoError(t, again.Err)
			require.Equal(t, id, again.ID)
			require.Equal(t, session, again.Session)
			require.Equal(t, h.Ephemeral, again.Ephemeral)
			require.Equal(t, "bob", again.Owner)
			require.Equal(t, High, again.Priority)
			require.Equal(t, uint64(1), again.Replay)
			require.Equal(t, uint64(2), again.Origin)
			require.Equal(t, "00-ab", again.Header.Get("traceparent"))
			require.Zero(t, b.msgs(t, StreamDead), "off the shelf")

			require.NoError(t, b.q.Dead(t.Context(), DeadLetter{Job: again.Job, Class: ClassTransport, Attempts: 3}))
			again.finish(t)
			require.Equal(t, uint64(1), b.msgs(t, StreamDead), "a new series has a letter of its own")
		})
	}
}

// A body beyond our limit goes on the shelf in part, and says so.
func TestDeadLetterOfALargeBody(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, MaxPayload: 2 << 20,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(10*time.Second))
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	b := connect(t, srv, Config{})
	r := b.consume(t, ConsumerConfig{Slots: 2})

	whole := `{"id":"whole","argv":["` + strings.Repeat("x", 3<<19) + `"]}`
	b.send(t, "task.run", whole)
	h := r.next(t)
	require.ErrorAs(t, h.Err, new(*Invalid))
	require.Equal(t, "j1", h.ID, "too large to look into")
	require.NoError(t, b.q.Dead(t.Context(), DeadLetter{Job: h.Job, Class: ClassInvalid, Reason: h.Err.Error()}))
	h.finish(t)
	l, err := b.q.DeadGet(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, l.Cut())
	require.Equal(t, whole, string(l.Body))

	b.send(t, "task.run", strings.Repeat("x", 2<<20))
	h = r.next(t)
	require.NoError(t, b.q.Dead(t.Context(), DeadLetter{Job: h.Job, Class: ClassInvalid, Reason: h.Err.Error()}))
	h.finish(t)
	l, err = b.q.DeadGet(t.Context(), 2)
	require.NoError(t, err)
	require.True(t, l.Cut())
	require.Equal(t, 2<<20, l.Size)
	require.Greater(t, len(l.Body), 2<<20-4096)
	_, err = b.q.DeadReplay(t.Context(), 2)
	require.ErrorIs(t, err, ErrCutLetter)

	// Headers alone may fill a message, too.
	b.send(t, "task.run", `{`, "X", strings.Repeat("h", maxHeader-100))
	h = r.next(t)
	require.NoError(t, b.q.Dead(t.Context(), DeadLetter{Job: h.Job, Class: ClassInvalid, Reason: strings.Repeat("because ", 1000)}))
	h.finish(t)
	l, err = b.q.DeadGet(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, "{", string(l.Body))
}
