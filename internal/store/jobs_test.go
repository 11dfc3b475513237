package store

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJobView(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		_, err := s.Job(ctx, "s", "j")
		require.ErrorIs(t, err, ErrNotFound)
		v := JobView{
			Session: "s", Job: "j", Seq: 10, Origin: 4, Kind: "task.run", State: "started", Owner: "o",
			Labels: map[string]string{"a": "b"}, Worker: "w", Attempt: 2, Waiting: "quota",
			AcceptedAt: time.Now().UTC().Round(0), UpdatedAt: time.Now().UTC().Round(0), Class: "internal",
			Outcome: json.RawMessage(`{"exit_code":0}`),
		}
		require.NoError(t, s.PutJob(ctx, v))
		got, err := s.Job(ctx, "s", "j")
		require.NoError(t, err)
		require.Equal(t, v, got)

		old := v
		old.Seq, old.State = 9, "old"
		require.NoError(t, s.PutJob(ctx, old))
		got, err = s.Job(ctx, "s", "j")
		require.NoError(t, err)
		require.Equal(t, v, got, "an older one overwrote it")
		same := v
		same.State = "succeeded"
		require.NoError(t, s.PutJob(ctx, same))
		got, err = s.Job(ctx, "s", "j")
		require.NoError(t, err)
		require.Equal(t, same, got)

		require.NoError(t, s.PutJob(ctx, JobView{Session: "s2", Job: "j", Seq: 1, Origin: 5}))
		require.NoError(t, s.PutJob(ctx, JobView{Session: "s2", Job: "xj", Seq: 1, Origin: 6}))
		found, err := s.FindJob(ctx, "j")
		require.NoError(t, err)
		require.Len(t, found, 2)
	})
}

func TestJobsInPages(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const n = 250
		for i := range n {
			require.NoError(t, s.PutJob(t.Context(), JobView{
				Session: fmt.Sprintf("s%d", i%2), Job: fmt.Sprintf("j%d", i), Seq: 1, Origin: uint64(i), Kind: fmt.Sprintf("k%d", i%10),
			}))
		}
		for _, limit := range []int{10, 100, 1000} {
			all := walkJobs(t, s, JobFilter{}, limit)
			require.Len(t, all, n)
			require.Equal(t, "j249", all[0])
			require.Equal(t, "j0", all[n-1])
			mine := walkJobs(t, s, JobFilter{Session: "s1"}, limit)
			require.Len(t, mine, n/2)
			require.Equal(t, "j1", mine[n/2-1])
			require.Len(t, walkJobs(t, s, JobFilter{Kind: "k3"}, limit), n/10)
			require.Empty(t, walkJobs(t, s, JobFilter{Kind: "k3", Session: "s0"}, limit))
		}
		_, _, err := s.Jobs(t.Context(), JobFilter{}, "x", 10)
		require.ErrorIs(t, err, ErrCursor)
	})
}

// More jobs of one origin than one step reads: after a stream was made anew.
func TestJobsOfOneOrigin(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const n = 2*jobStep + 50
		for i := range n {
			require.NoError(t, s.PutJob(t.Context(), JobView{Session: "s", Job: fmt.Sprintf("j%d", i), Seq: 1, Origin: 3}))
		}
		require.Len(t, walkJobs(t, s, JobFilter{}, 70), n)
		require.Len(t, walkJobs(t, s, JobFilter{Session: "s"}, 70), n)
	})
}

// A proven owner's page is his own, and its cursor names no job that he was not shown:
// also where the walk ends in the middle of others', or of many of one origin.
func TestJobsOfAProvenOwner(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.jobBudget = jobStep
		const n = 5*jobStep + 50
		for i := range n {
			v := JobView{Session: "theirs", Job: fmt.Sprintf("j%d", i), Seq: 1, Origin: uint64(i / 70), Owner: "o", Proven: i%2 == 0}
			if i%20 == 1 {
				v.Session, v.Proven = "zz-own", true
			}
			if v.Session == "theirs" && v.Proven {
				v.Owner = "p"
			}
			require.NoError(t, s.PutJob(t.Context(), v))
		}
		short := 0
		seen := map[string]bool{}
		for cursor := ""; ; {
			page, next, err := s.Jobs(t.Context(), JobFilter{Proven: "o"}, cursor, 100)
			require.NoError(t, err)
			for _, v := range page {
				require.Equal(t, "zz-own", v.Session)
				require.False(t, seen[v.Job], "%s came twice", v.Job)
				seen[v.Job] = true
			}
			require.NotContains(t, next, "theirs")
			if next != "" && len(page) < 100 {
				short++
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		require.Positive(t, short, "no walk has ended at its budget")
		require.Len(t, seen, (n+19)/20)
		require.Empty(t, walkJobs(t, s, JobFilter{Proven: "q"}, 100))
		require.Empty(t, walkJobs(t, s, JobFilter{Proven: "o", Owner: "p"}, 100))
		require.Len(t, walkJobs(t, s, JobFilter{}, 100), n, "the budget has left some out")
	})
}

func walkJobs(t *testing.T, s *Store, f JobFilter, limit int) []string {
	t.Helper()
	var ids []string
	for cursor := ""; ; {
		page, next, err := s.Jobs(t.Context(), f, cursor, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		for _, v := range page {
			ids = append(ids, v.Job)
		}
		if cursor = next; cursor == "" {
			return ids
		}
	}
}

func TestJobsAreCapped(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.jobCap = 10
		for i := range 4*trimEvery + 1 {
			require.NoError(t, s.PutJob(t.Context(), JobView{Session: "s", Job: fmt.Sprintf("j%d", i), Seq: 1, Origin: uint64(i)}))
		}
		require.Len(t, walkJobs(t, s, JobFilter{}, 100), 10)
		for _, key := range []string{s.keys.order(), s.keys.jobsOf("s")} {
			n, err := s.client.ZCard(t.Context(), key).Result()
			require.NoError(t, err)
			require.EqualValues(t, 10, n, key)
		}
		n, err := s.client.HLen(t.Context(), s.keys.view()).Result()
		require.NoError(t, err)
		require.EqualValues(t, 10, n)
	})
}

func TestOldJobsGo(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.opts.jobTTL = time.Millisecond
		for i := range 5 {
			require.NoError(t, s.PutJob(t.Context(), JobView{Session: "s", Job: fmt.Sprintf("j%d", i), Seq: 1, Origin: uint64(i)}))
		}
		soon(t, func() bool { _, err := s.Job(t.Context(), "s", "j4"); return err != nil }, "it stays")
		require.Empty(t, walkJobs(t, s, JobFilter{}, 10))
		for i := range trimEvery {
			require.NoError(t, s.PutJob(t.Context(), JobView{Session: "s", Job: fmt.Sprintf("n%d", i), Seq: 1, Origin: uint64(10 + i)}))
		}
		n, err := s.client.HLen(t.Context(), s.keys.view()).Result()
		require.NoError(t, err)
		require.LessOrEqual(t, n, int64(trimEvery), "old ones are still stored")
	})
}
