package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/worker"
)

// Fifty jobs on one repository at once: fifty branches, fifty pull requests, each with
// its own job's one commit and nothing of another's.
func TestFiftyRepoJobs(t *testing.T) {
	t.Parallel()
	g := newGitWorld(t)
	const n = 50
	// Two workers with four slots each: the machine's bound, not the product's.
	for range 2 {
		g.worker(g.with(func(c *worker.Config) { c.Concurrency = 4 }))
	}
	var published []events.Job
	for i := range n {
		id := fmt.Sprintf("t%d", i)
		repo := g.block()
		repo.Commit.Subject = "work of " + id
		if i%10 == 0 {
			repo.PushMode = jobs.PushHost
		}
		published = append(published, g.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{ID: id}, Repo: repo,
			Shell: "echo " + id + " >>README.md; echo " + id + " >own-" + id,
		}))
	}
	var rows []string
	numbers := map[int]string{}
	for _, job := range published {
		id, e := job.ID, g.follow(job)
		require.Equal(t, events.Succeeded, e.Kind, "%s: %+v", id, e.Outcome)
		require.Equal(t, 1, e.Attempts, id)
		require.NotNil(t, e.PullRequest, id)
		require.Empty(t, numbers[e.PullRequest.Number], "pull request %d is of two jobs", e.PullRequest.Number)
		numbers[e.PullRequest.Number] = id
		branch := "task-" + id
		require.Equal(t, branch, e.Branch)
		require.Equal(t, e.Commit, g.on("rev-parse", "refs/heads/"+branch))
		require.Equal(t, "feat(app): work of "+id, g.on("log", "--format=%s", "main.."+branch), id)
		require.Equal(t, "README.md\nown-"+id, g.on("diff", "--name-only", "main", branch), id)
		require.Equal(t, "# app\n"+id, g.on("show", branch+":README.md"), id)
		rows = append(rows, fmt.Sprintf("#%-3d %-9s %s %5d ms", e.PullRequest.Number, branch, e.Commit[:10], e.DurationMS))
	}
	require.Len(t, strings.Split(g.on("branch", "--format=%(refname:short)"), "\n"), n+1)
	require.Len(t, g.git.Hub.Pulls, n)
	for i, p := range g.git.Hub.Pulls {
		require.Equal(t, "task-"+numbers[i+1], p["head"].(map[string]any)["ref"])
		require.Contains(t, p["body"], "sandjet-task: "+numbers[i+1]+" ")
	}
	t.Logf("%d branches, %d pull requests\n%s", n, len(numbers), strings.Join(rows, "\n"))
}
