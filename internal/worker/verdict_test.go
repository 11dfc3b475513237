package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
)

func TestReadMark(t *testing.T) {
	t.Parallel()
	meta := func(change ...string) map[string]string {
		m := map[string]string{metaNamespace: "prod", metaSession: "s1", metaGeneration: "2", metaAttempt: "a1"}
		for i := 0; i < len(change); i += 2 {
			if m[change[i]] = change[i+1]; change[i+1] == "-" {
				delete(m, change[i])
			}
		}
		return m
	}
	for name, tt := range map[string]struct {
		meta map[string]string
		want string
	}{
		"ours":               {meta(), ""},
		"no metadata":        {nil, query.VerdictUnmarked},
		"somebody's":         {map[string]string{"session": "s1"}, query.VerdictUnmarked},
		"all but the marker": {meta(metaNamespace, "-"), query.VerdictUnmarked},
		"another namespace":  {meta(metaNamespace, "staging"), query.VerdictForeign},
		"no namespace":       {meta(metaNamespace, ""), query.VerdictForeign},
		"no session":         {meta(metaSession, "-"), query.VerdictUnclear},
		"no id":              {meta(metaSession, "a.b"), query.VerdictUnclear},
		"no generation":      {meta(metaGeneration, "-"), query.VerdictUnclear},
		"no number":          {meta(metaGeneration, "two"), query.VerdictUnclear},
		"generation 0":       {meta(metaGeneration, "0"), query.VerdictUnclear},
		"no attempt":         {meta(metaAttempt, ""), query.VerdictUnclear},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, got, _ := readMark("prod", tt.meta)
			require.Equal(t, tt.want, got)
			if got == "" {
				require.Equal(t, mark{"s1", 2, "a1"}, m)
			}
		})
	}
	_, got, _ := readMark("", meta(metaNamespace, ""))
	require.Empty(t, got, "without a namespace the marker is there and empty")
}

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const grace = 2 * time.Minute
	// A sandbox of generation 2 that nobody has known for long.
	base := evidence{
		mark: mark{"s1", 2, "a1"}, sandbox: "i1", startedAt: now.Add(-time.Hour),
		seen: store.Sighting{Times: 9, For: time.Hour}, grace: grace, now: now,
	}
	rec := func(st session.State, generation int, sandbox, attempt string) func(*evidence) {
		return func(e *evidence) {
			e.record = session.Record{Session: "s1", State: st, Generation: generation, SandboxID: sandbox, Attempt: attempt}
		}
	}
	for name, tt := range map[string]struct {
		with []func(*evidence)
		want string
	}{
		"active":                 {with: []func(*evidence){rec(session.Active, 2, "i1", "")}, want: query.VerdictOwned},
		"paused":                 {with: []func(*evidence){rec(session.Paused, 2, "i1", "")}, want: query.VerdictOwned},
		"pausing":                {with: []func(*evidence){rec(session.Pausing, 2, "i1", "")}, want: query.VerdictOwned},
		"resuming":               {with: []func(*evidence){rec(session.Resuming, 2, "i1", "")}, want: query.VerdictOwned},
		"destroying":             {with: []func(*evidence){rec(session.Destroying, 2, "i1", "")}, want: query.VerdictOwned},
		"error with its sandbox": {with: []func(*evidence){rec(session.Error, 2, "i1", "")}, want: query.VerdictOwned},

		"being made":                 {with: []func(*evidence){rec(session.Provisioning, 2, "", "a1")}, want: query.VerdictMaking},
		"made, to be destroyed":      {with: []func(*evidence){rec(session.Destroying, 2, "", "a1")}, want: query.VerdictMaking},
		"another attempt being made": {with: []func(*evidence){rec(session.Provisioning, 3, "", "a2")}, want: query.VerdictOrphan},
		"given up":                   {with: []func(*evidence){rec(session.Error, 2, "", "")}, want: query.VerdictOrphan},

		"no session":                {want: query.VerdictOrphan},
		"older generation":          {with: []func(*evidence){rec(session.Active, 3, "i2", "")}, want: query.VerdictOrphan},
		"second of its generation":  {with: []func(*evidence){rec(session.Active, 2, "i2", "")}, want: query.VerdictOrphan},
		"newer generation":          {with: []func(*evidence){rec(session.Active, 1, "i0", "")}, want: query.VerdictNewer},
		"destroyed":                 {with: []func(*evidence){rec(session.Destroyed, 2, "i1", "")}, want: query.VerdictOrphan},
		"lost":                      {with: []func(*evidence){rec(session.Lost, 2, "i1", "")}, want: query.VerdictOrphan},
		"same id, older generation": {with: []func(*evidence){rec(session.Destroyed, 3, "i1", "")}, want: query.VerdictOrphan},

		"unreadable":       {with: []func(*evidence){func(e *evidence) { e.unread = true }}, want: query.VerdictUnreadable},
		"unreadable, busy": {with: []func(*evidence){func(e *evidence) { e.unread, e.busy = true, true }}, want: query.VerdictUnreadable},
		"busy":             {with: []func(*evidence){func(e *evidence) { e.busy = true }}, want: query.VerdictBusy},

		"never seen before":     {with: []func(*evidence){func(e *evidence) { e.seen = store.Sighting{} }}, want: query.VerdictSuspect},
		"seen once, long ago":   {with: []func(*evidence){func(e *evidence) { e.seen.Times = 1 }}, want: query.VerdictSuspect},
		"seen twice, in a row":  {with: []func(*evidence){func(e *evidence) { e.seen = store.Sighting{Times: 2, For: time.Second} }}, want: query.VerdictSuspect},
		"just before the grace": {with: []func(*evidence){func(e *evidence) { e.seen.For = grace - 1 }}, want: query.VerdictSuspect},
		"at the grace":          {with: []func(*evidence){func(e *evidence) { e.seen = store.Sighting{Times: 2, For: grace} }}, want: query.VerdictOrphan},
		"just started":          {with: []func(*evidence){func(e *evidence) { e.startedAt = now.Add(-grace + 1) }}, want: query.VerdictSuspect},
		"started in the future": {with: []func(*evidence){func(e *evidence) { e.startedAt = now.Add(time.Hour) }}, want: query.VerdictSuspect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := base
			for _, f := range tt.with {
				f(&e)
			}
			got, why := judge(e)
			require.Equal(t, tt.want, got, why)
			require.NotEmpty(t, why)
			if got != query.VerdictOrphan && got != query.VerdictSuspect {
				e.seen = store.Sighting{}
				again, _ := judge(e)
				require.Equal(t, got, again, "what has an owner needs no sighting")
			}
		})
	}
}
