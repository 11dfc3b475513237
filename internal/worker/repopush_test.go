package worker_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/worker"
)

// isPush reports whether a request is the one of a push that moves branches.
func isPush(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack")
}

// onto publishes a job that adds a file and pushes it to a branch.
func (g *gitWorld) onto(branch, id string) events.Job {
	repo := g.block()
	repo.Branch, repo.PullRequest = branch, nil
	repo.Commit.Subject = "work of " + id
	return g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: id, MaxAttempts: 1}, Repo: repo, Shell: "echo " + id + " >own-" + id})
}

// Jobs that push to one branch at once take turns on all workers: each pushes once,
// and no attempt is spent.
func TestPushesToOneBranchTakeTurns(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	var pushes atomic.Int32
	g.set(func(r *http.Request) {
		if isPush(r) {
			pushes.Add(1)
		}
	})
	const n = 20
	for range 2 {
		g.worker(g.with(func(c *worker.Config) { c.Concurrency, c.LaneHold = 8, 5*time.Minute }))
	}
	var published []events.Job
	for i := range n {
		published = append(published, g.onto("shared", fmt.Sprintf("t%d", i)))
	}
	waited := 0
	for _, job := range published {
		e := g.follow(job)
		require.Equal(t, events.Succeeded, e.Kind, "%s: %+v", job.ID, e.Outcome)
		require.Equal(t, 1, e.Attempts)
		for _, ev := range e.Events {
			if ev.Kind == events.KindProgress && strings.Contains(string(ev.Data), "waits for its turn to push to shared") {
				waited++
			}
		}
	}
	require.Equal(t, fmt.Sprint(n), g.on("rev-list", "--count", "main..shared"))
	require.Len(t, strings.Split(g.on("diff", "--name-only", "main", "shared"), "\n"), n)
	require.Positive(t, waited, "nobody waited: nothing is shown")
	t.Logf("%d jobs, %d pushes, %d waited", n, pushes.Load(), waited)
	require.LessOrEqual(t, pushes.Load(), int32(n+n/4), "they overtake each other")
}

// A turn ends with its worker's lease, and a wipe of Redis in the middle of a push
// costs nothing but the order.
func TestPushTurnOfADeadWorkerAndAWipe(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	pushed, release := make(chan struct{}, 10), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	g.set(func(r *http.Request) {
		if isPush(r) {
			select {
			case pushed <- struct{}{}:
			default: // seen often enough
			}
			<-release
		}
	})
	g.worker(g.with(func(c *worker.Config) { c.LaneHold = 5 * time.Minute }))
	first := g.onto("shared", "first")
	soon(t, pushed, "a push")

	opt, err := redis.ParseURL(g.redis.URL())
	require.NoError(t, err)
	client := redis.NewClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	keys, err := client.Keys(t.Context(), "*{@push-*}:jobs").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	_, lane, _ := strings.Cut(keys[0], "{")
	lane, _, _ = strings.Cut(lane, "}")

	g.flushRedis()
	view, err := store.Open(t.Context(), g.redis.URL(), "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = view.Close() })
	_, err = view.Enter(t.Context(), store.Entry{Session: lane, Job: "gone/gone", Origin: 1, Exclusive: true}, time.Second)
	require.NoError(t, err)
	second := g.onto("shared", "second")
	g.reaches(second, func(h events.History) bool {
		return strings.Contains(h.Progress.Value.Message, "turn to push") || len(pushed) > 0
	})
	letGo()
	for _, job := range []events.Job{first, second} {
		e := g.follow(job)
		require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		require.Equal(t, 1, e.Attempts)
	}
	require.Equal(t, "2", g.on("rev-list", "--count", "main..shared"))
	require.Eventually(t, func() bool {
		left, err := client.Keys(t.Context(), "*{@push-*}*").Result()
		return err == nil && len(left) == 0
	}, eventually, tick, "the lane is left")
}
