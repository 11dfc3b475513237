package store

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

func TestNewerRecordStays(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		_, _, err := s.Session(ctx, "s")
		require.ErrorIs(t, err, ErrNotFound)
		put := func(state session.State, seq uint64) {
			require.NoError(t, s.PutSession(ctx, session.Record{Session: "s", State: state}, seq))
		}
		// As strings, 9 is above 10.
		for _, step := range []struct {
			state session.State
			seq   uint64
			want  session.State
		}{
			{session.Provisioning, 9, session.Provisioning},
			{session.Active, 10, session.Active},
			{session.Provisioning, 9, session.Active},
			{session.Lost, 10, session.Active},
			{session.Paused, 1 << 52, session.Paused},
			{session.Active, 1<<52 - 1, session.Paused},
		} {
			put(step.state, step.seq)
			rec, _, err := s.Session(ctx, "s")
			require.NoError(t, err)
			require.Equal(t, step.want, rec.State, "after %s at %d", step.state, step.seq)
		}
		_, seq, err := s.Session(ctx, "s")
		require.NoError(t, err)
		require.EqualValues(t, 1<<52, seq)
	})
}

func TestDestroyedSessionLeaves(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.forget = time.Millisecond
		require.NoError(t, s.PutSession(t.Context(), session.Record{Session: "s", State: session.Destroyed}, 1))
		soon(t, func() bool { _, _, err := s.Session(t.Context(), "s"); return err != nil }, "it stays")

		// One that is made anew does not inherit the end of the old one.
		s.opts.forget = long
		require.NoError(t, s.PutSession(t.Context(), session.Record{Session: "s", State: session.Destroyed}, 2))
		require.NoError(t, s.PutSession(t.Context(), session.Record{Session: "s", State: session.Provisioning}, 3))
		ttl, err := s.client.PTTL(t.Context(), s.keys.record("s")).Result()
		require.NoError(t, err)
		require.Negative(t, ttl)
	})
}

func TestDropSession(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		require.NoError(t, s.PutSession(ctx, session.Record{Session: "s"}, 1))
		for _, kind := range []Deadline{Idle, Stale, Transition} {
			require.NoError(t, s.SetDeadline(ctx, kind, "s", time.Minute))
		}
		require.NoError(t, s.DropSession(ctx, "s"))
		keys, err := s.client.Keys(ctx, s.keys.prefix+"*").Result()
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}

// TestRecordComesBack fills every field, so that one that was added to the
// record and forgotten here fails.
func TestRecordComesBack(t *testing.T) {
	t.Parallel()
	var rec session.Record
	fill(t, reflect.ValueOf(&rec).Elem(), "x")
	body, err := encodeRecord(rec)
	require.NoError(t, err)
	got, seq, err := decodeRecord(rec.Session, "77 "+string(body))
	require.NoError(t, err)
	require.Equal(t, rec, got)
	require.EqualValues(t, 77, seq)

	body, err = encodeRecord(session.Record{Session: "s"})
	require.NoError(t, err)
	got, _, err = decodeRecord("s", "1 "+string(body))
	require.NoError(t, err)
	require.Equal(t, session.Record{Session: "s"}, got)

	_, _, err = decodeRecord("s", "not ours")
	require.Error(t, err)
}

func fill(t *testing.T, v reflect.Value, text string) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 11, 21, 2, 29, 11, 123456789, time.UTC)
		return
	case *wire.Duration:
		*x = wire.Duration(90*time.Second + 1)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"k": text}))
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{text}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

func TestSessionsInPages(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		var all, paused []string
		for i := range 120 {
			r := session.Record{Session: fmt.Sprintf("s%03d", i), State: session.Active, Owner: "o", Labels: map[string]string{"n": fmt.Sprint(i % 3)}}
			if i%10 == 0 {
				r.State = session.Paused
				paused = append(paused, r.Session)
			}
			all = append(all, r.Session)
			require.NoError(t, s.PutSession(ctx, r, uint64(i+1)))
			enter(t, s, job(r.Session, "j", 1), long) // other keys of the session are not sessions
		}
		for _, limit := range []int{1, 7, 1000} {
			require.Equal(t, all, walk(t, s, Filter{}, limit), "limit %d", limit)
			require.Equal(t, paused, walk(t, s, Filter{State: session.Paused}, limit), "limit %d", limit)
		}
		require.Len(t, walk(t, s, Filter{Label: "n=2", Owner: "o"}, 33), 40)
		require.Empty(t, walk(t, s, Filter{Owner: "nobody"}, 100))

		for _, bad := range []string{"x", "1.2", "-1.0.", "0.x.", "9"} {
			_, _, err := s.Sessions(ctx, Filter{}, bad, 10)
			require.ErrorIs(t, err, ErrCursor, bad)
		}
	})
}

// walk reads all pages and checks each one's size.
func walk(t *testing.T, s *Store, f Filter, limit int) []string {
	t.Helper()
	var ids []string
	for cursor := ""; ; {
		page, next, err := s.Sessions(t.Context(), f, cursor, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		for _, r := range page {
			ids = append(ids, r.Session)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids) // the keyspace may grow under the walk: tests run side by side
}

// A walk sees all that was there from its begin to its end, whatever comes and
// goes meanwhile.
func TestSessionsWhileTheyChange(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		var stay []string
		for i := range 100 {
			id := fmt.Sprintf("stay%03d", i)
			stay = append(stay, id)
			require.NoError(t, s.PutSession(ctx, session.Record{Session: id}, 1))
			require.NoError(t, s.PutSession(ctx, session.Record{Session: fmt.Sprintf("go%d", i)}, 1))
		}
		seen := map[string]bool{}
		turn := 0
		for cursor := ""; ; turn++ {
			page, next, err := s.Sessions(ctx, Filter{}, cursor, 5)
			require.NoError(t, err)
			for _, r := range page {
				seen[r.Session] = true
			}
			require.NoError(t, s.DropSession(ctx, fmt.Sprintf("go%d", turn)))
			require.NoError(t, s.PutSession(ctx, session.Record{Session: fmt.Sprintf("come%d", turn)}, 1))
			if cursor = next; cursor == "" {
				break
			}
		}
		for _, id := range stay {
			require.True(t, seen[id], id)
		}
	})
}

func TestFilter(t *testing.T) {
	t.Parallel()
	r := session.Record{State: session.Active, Owner: "o", OwnerProven: true, Template: "base", Labels: map[string]string{"team": "x"}}
	for _, c := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true},
		{Filter{State: session.Active, Owner: "o", Template: "base", Label: "team=x"}, true},
		{Filter{State: session.Paused}, false},
		{Filter{Owner: "p"}, false},
		{Filter{Proven: "o"}, true},
		{Filter{Proven: "p"}, false},
		{Filter{Proven: "o", Owner: "p"}, false},
		{Filter{Template: "other"}, false},
		{Filter{Label: "team"}, true},
		{Filter{Label: "team=y"}, false},
		{Filter{Label: "team="}, false},
		{Filter{Label: "none"}, false},
	} {
		require.Equal(t, c.want, c.f.Match(r), "%+v", c.f)
	}
	r.OwnerProven = false
	require.True(t, Filter{Owner: "o"}.Match(r))
	require.False(t, Filter{Proven: "o"}.Match(r), "only a body has said so")
}
