package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/stack"
)

func TestOneCreatesTheGeneration(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const n = 20
		type answer struct {
			id      string
			created bool
			err     error
		}
		got := make(chan answer, n)
		for range n {
			go func() {
				g, err := s.Generation(t.Context())
				got <- answer{g.ID, g.Created, err}
			}()
		}
		ids, created := map[string]bool{}, 0
		for range n {
			a := next(t, got, "the generation")
			require.NoError(t, a.err)
			ids[a.id] = true
			if a.created {
				created++
			}
		}
		require.Len(t, ids, 1)
		require.Equal(t, 1, created)
	})
}

func TestWipe(t *testing.T) {
	for _, kind := range []string{onServer, onMini} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == onServer {
				needServer(t)
			}
			r, err := stack.StartRedis(stack.RedisOptions{Embedded: kind == onMini})
			require.NoError(t, err)
			t.Cleanup(r.Kill)
			wipe(t, open(t, r.URL()+calm, WithSettle(time.Nanosecond)))
		})
	}
}

// wipe loses everything while a job runs and another waits.
func wipe(t *testing.T, s *Store) {
	ctx := t.Context()
	first, err := s.Generation(ctx)
	require.NoError(t, err)
	require.True(t, first.Created)
	marked, err := s.MarkFilled(ctx, first.ID)
	require.NoError(t, err)
	require.True(t, marked)
	same, err := s.Generation(ctx)
	require.NoError(t, err)
	require.Equal(t, Generation{ID: first.ID, Filled: true}, same)
	marked, err = s.MarkListed(ctx, first.ID)
	require.NoError(t, err)
	require.True(t, marked)
	same, err = s.Generation(ctx)
	require.NoError(t, err)
	require.Equal(t, Generation{ID: first.ID, Filled: true, Listed: true}, same)
	running, waiting := job("s", "j6", 6), job("s", "j5", 5)
	require.True(t, enter(t, s, running, long).Turn)
	require.False(t, enter(t, s, waiting, long).Turn)
	require.NoError(t, s.PutSession(ctx, session.Record{Session: "s", State: session.Active}, 3))
	soon(t, func() bool { return !s.Young() }, "it never grows up")

	s.opts.settle = long
	require.NoError(t, s.client.FlushAll(ctx).Err())
	require.NoError(t, s.Ping(ctx))
	require.True(t, s.Young(), "the first call after a wipe sees it")

	running.Running = true
	require.NoError(t, s.Renew(ctx, []Entry{running, waiting}, long))
	a := enter(t, s, waiting, long)
	require.False(t, a.Turn, "Renew gave the turn to the one that had it, though it is not the first")
	require.Equal(t, "j6", a.Head)
	require.False(t, a.Known)
	require.True(t, a.Young)

	second, err := s.Generation(ctx)
	require.NoError(t, err)
	require.True(t, second.Created)
	require.False(t, second.Filled)
	require.NotEqual(t, first.ID, second.ID)
	marked, err = s.MarkFilled(ctx, first.ID)
	require.NoError(t, err)
	require.False(t, marked, "filled by whoever had not seen the second wipe")
	require.NoError(t, s.PutSession(ctx, session.Record{Session: "s", State: session.Active}, 3))
	require.Equal(t, "j5", leave(t, s, running))
	a = enter(t, s, waiting, long)
	require.True(t, a.Turn)
	require.True(t, a.Known)

	token, _, err := s.Lease(ctx, "sweep", "a", long)
	require.NoError(t, err)
	require.NoError(t, s.client.FlushAll(ctx).Err())
	again, _, err := s.Lease(ctx, "sweep", "b", long)
	require.NoError(t, err)
	require.Greater(t, again, token, "a token from before the wipe would win")
}

// A worker that was not the one to begin the new generation sees it as well.
func TestOthersSeeTheNewGeneration(t *testing.T) {
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	var stores []*Store
	for range 2 {
		s, err := Open(t.Context(), r.URL()+calm, "shared", WithSettle(time.Nanosecond))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		_, err = s.Generation(t.Context())
		require.NoError(t, err)
		stores = append(stores, s)
	}
	soon(t, func() bool { return !stores[0].Young() && !stores[1].Young() }, "they never grow up")
	for _, s := range stores {
		s.opts.settle = long
	}
	require.NoError(t, stores[0].client.FlushAll(t.Context()).Err())
	g, err := stores[0].Generation(t.Context())
	require.NoError(t, err)
	require.True(t, g.Created)
	require.False(t, stores[1].Young(), "it has not looked yet")
	require.NoError(t, stores[1].Ping(t.Context()))
	require.True(t, stores[1].Young())
}

func TestScaleOfMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("puts 62,500 sessions")
	}
	t.Parallel()
	r := own(t, stack.RedisOptions{})
	s := open(t, r.URL()+calm)
	used := func() float64 {
		var n float64
		_, err := fmt.Sscan(s.info(t.Context(), "memory", "used_memory"), &n)
		require.NoError(t, err)
		return n
	}
	// A sixteenth of a million: hash tables are as full as with all.
	const part, all = 62_500, 1_000_000
	begin := used()
	each := make(chan int)
	errs := make(chan error, 64)
	for range cap(errs) {
		go func() {
			var err error
			for i := range each {
				if err == nil {
					err = putTypical(t, s, i)
				}
			}
			errs <- err
		}()
	}
	for i := range part {
		each <- i
	}
	close(each)
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	total := (used() - begin) / part * all
	t.Logf("a million sessions: %.0f MB", total/1e6)
	require.Less(t, total, 0.5e9)
}

func putTypical(t *testing.T, s *Store, i int) error {
	rec := typical(i)
	rec.State = session.Paused
	if err := s.PutSession(t.Context(), rec, uint64(i+1)); err != nil {
		return err
	}
	return s.SetDeadline(t.Context(), Stale, rec.Session, 24*time.Hour)
}

// typical is an active session as most are.
func typical(i int) session.Record {
	id, now := fmt.Sprintf("agent-%07d", i), time.Now()
	return session.Record{
		Session: id, State: session.Active, Generation: 1, SandboxID: fmt.Sprintf("i%019d", i), Owner: "agent-7", Template: "base",
		IdleTimeout: 300e9, MaxAge: 86400e9, CreatedAt: now, UpdatedAt: now, StaleAt: now.Add(24 * time.Hour),
		Reason: "idle", Worker: "worker-5f6c8", Job: fmt.Sprintf("j%07d", i),
	}
}
