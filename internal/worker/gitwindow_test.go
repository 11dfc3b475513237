package worker_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	e2blocal "github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/worker"
)

// rules are the egress rules of a session's sandbox, as E2B shows them.
func (w *world) rules(session string) string {
	w.t.Helper()
	b := w.box(session)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.e2b.URL()+"/sandboxes/"+b.ID(), nil)
	require.NoError(w.t, err)
	req.Header.Set("X-API-KEY", w.e2b.APIKey())
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	var detail struct {
		Network struct {
			Rules map[string]json.RawMessage
		}
	}
	require.NoError(w.t, json.Unmarshal(text, &detail), "%s", text)
	var hosts []string
	for host := range detail.Network.Rules {
		hosts = append(hosts, host)
	}
	return strings.Join(hosts, " ")
}

// spyOn looks for the token in the session's sandbox during each request to the git
// server, and returns where it was.
func (g *gitWorld) spyOn(session string) (found func() []string) {
	var mu sync.Mutex
	var seen []string
	find := g.box(session).Command("/bin/sh", "-c", `grep -rlF "$1$2" /dev/shm /tmp /home 2>/dev/null; exit 0`, "x", planted[:20], planted[20:])
	g.set(func(*http.Request) {
		cmd := *find
		out, err := cmd.Output(g.t.Context())
		if err != nil {
			g.t.Errorf("look into the sandbox: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, strings.Fields(string(out))...)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// The sandbox never has the token: E2B adds it to the requests of git, for as long as an
// operation takes. By file it is there, which shows that the test would see it.
func TestTokenStaysOutOfTheSandbox(t *testing.T) {
	t.Parallel()
	for _, way := range []string{worker.CredentialAuto, worker.CredentialFile} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			g := newGitWorld(t)
			rec := g.recorder()
			g.worker(g.with(rec.through, func(c *worker.Config) { c.Git.Credential = way }))
			require.Equal(t, events.Succeeded, g.follow(g.run("s1", "true")).Kind)
			seen := g.spyOn("s1")
			e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: g.block(),
				Shell: "echo more >>README.md; GIT_TERMINAL_PROMPT=0 git ls-remote " + g.url + " 2>&1",
			}))
			require.Equal(t, events.Failed, e.Kind, "the window was open while the command ran: %s", e.Stdout)
			require.Contains(t, string(e.Stdout), "could not read Username")
			e = g.follow(g.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{ID: "j2", Session: "s1"}, Repo: g.block(), Shell: "echo more >>README.md",
			}))
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			require.Empty(t, g.rules("s1"))

			b64 := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + planted))
			var bearers []string
			for _, a := range rec.all() {
				if strings.Contains(a, planted) || strings.Contains(a, b64) {
					where, _, _ := strings.Cut(a, "\n")
					bearers = append(bearers, path.Base(where))
				}
			}
			if way == worker.CredentialAuto {
				require.Empty(t, seen())
				require.Equal(t, []string{"network", "network", "network", "network"}, bearers, "for a clone, one that finds its place taken, and a push")
				return
			}
			require.NotEmpty(t, seen())
			require.NotContains(t, bearers, "network")
			require.Zero(t, g.e2b.Faults().Count("network"))
		})
	}
}

// A worker that dies while the sandbox's requests carry the token leaves them so for no
// longer than until the job has ended, in whichever way.
func TestWindowOfADeadWorker(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"in the clone": "e2b.network=crash@1", "in the push": "e2b.network=crash@3", "closed unheard": "e2b.network=crash@4",
	} {
		for _, cancelled := range []bool{false, true} {
			if cancelled && name == "closed unheard" {
				continue // there is nothing left to close
			}
			t.Run(name+map[bool]string{true: ", cancelled"}[cancelled], func(t *testing.T) {
				t.Parallel()
				g := newGitWorld(t)
				env := []string{"GITHUB_TOKEN=" + planted, "GITHUB_API_URL=" + g.git.URL, "WORKER_ACK_WAIT=2s"}
				first := g.spawnPoints("first", append(env, "SANDJET_POINTS="+rule)...)
				require.Equal(t, events.Succeeded, g.follow(g.run("s1", "true")).Kind)
				job := g.publish(jobs.TaskRun, &jobs.Run{Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: g.block(), Shell: "echo more >>README.md"})
				<-first.done
				if name != "closed unheard" {
					require.Equal(t, "127.0.0.1", g.rules("s1"), "the worker did not die over an open window")
				}
				if cancelled {
					require.NoError(t, g.facts.Cancel(t.Context(), job, events.CancelRequested{Reason: "enough"}))
				}
				g.spawnPoints("second", env...)
				e := g.follow(job)
				want := events.Succeeded
				if cancelled {
					want = events.Cancelled
				}
				require.Equal(t, want, e.Kind, "%+v", e.Outcome)
				require.Empty(t, g.rules("s1"))
			})
		}
	}
}

// Where a header does not help, the credential goes by file, and the next job does not
// try again; a token that is refused in any case is refused once more and no oftener.
func TestHeaderDoesNotHelp(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"refused": http.StatusBadRequest, "without effect": http.StatusNoContent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGitWorld(t)
			g.e2b.Faults().Add(e2blocal.Fault{Op: "network", Count: -1, Action: e2blocal.Status{Code: code}})
			g.worker(g.with())
			for i, id := range []string{"j1", "j2"} {
				e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{
					Common: jobs.Common{ID: id, Session: id}, Repo: g.block(), Shell: "echo " + id + " >>README.md",
				}))
				require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
				require.Equal(t, 1, e.Attempts)
				require.Equal(t, map[string]int{"refused": 1, "without effect": 2}[name], g.e2b.Faults().Count("network"), "job %d", i)
			}
		})
	}
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		g := newGitWorld(t)
		g.worker(g.with(func(c *worker.Config) {
			c.Git.GitHubToken = func() (string, error) { return "revoked-token-of-old", nil }
		}))
		e := g.follow(g.publish(jobs.GitClone, &jobs.Git{Common: jobs.Common{Session: "s1", MaxAttempts: 1}, Repo: g.block()}))
		require.Equal(t, events.Dead, e.Kind)
		require.Equal(t, string(jobs.ClassGitAuth), e.Class)
		require.Contains(t, e.Reason, "does not take the credential")
		require.Equal(t, 2, g.e2b.Faults().Count("network"))
		require.Empty(t, g.rules("s1"))
	})
	t.Run("cleared again", func(t *testing.T) {
		t.Parallel()
		g := newGitWorld(t)
		g.e2b.Faults().Add(e2blocal.Fault{Op: "network", Skip: 1, Count: 2, Action: e2blocal.Status{Code: http.StatusServiceUnavailable}})
		g.worker(g.with())
		e := g.follow(g.publish(jobs.GitClone, &jobs.Git{Common: jobs.Common{Session: "s1"}, Repo: g.block()}))
		require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		require.Equal(t, 4, g.e2b.Faults().Count("network"))
		require.Empty(t, g.rules("s1"))
	})
	t.Run("not to be cleared", func(t *testing.T) {
		t.Parallel()
		g := newGitWorld(t)
		mend := g.e2b.Faults().Add(e2blocal.Fault{Op: "network", Skip: 1, Count: -1, Action: e2blocal.Status{Code: http.StatusServiceUnavailable}})
		g.worker(g.with(func(c *worker.Config) { c.DrainTimeout = time.Second }))
		job := g.publish(jobs.GitClone, &jobs.Git{Common: jobs.Common{Session: "s1"}, Repo: g.block()})
		g.reaches(job, func(h events.History) bool { return h.Waiting.OK() })
		mend()
		e := g.follow(job)
		require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		require.Equal(t, 1, e.Attempts)
		require.Empty(t, g.rules("s1"))
	})
	// Jobs beside each other have one set of rules: those are left alone.
	t.Run("not exclusive", func(t *testing.T) {
		t.Parallel()
		g := newGitWorld(t)
		g.worker(g.with())
		beside := false
		e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{
			Common: jobs.Common{ID: "j1", Session: "s1", Exclusive: &beside}, Repo: g.block(), Shell: "echo more >>README.md",
		}))
		require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
		require.Zero(t, g.e2b.Faults().Count("network"))
	})
}

// Over TLS all is the same, by header and by file. Git speaks HTTP/1.1, also with servers
// that offer HTTP/2: there git before 2.44 with curl 7.84 to 8.4, which is what Debian 12
// has, hangs in a large push for ever.
func TestRepoOverTLS(t *testing.T) {
	t.Parallel()
	for _, way := range []string{worker.CredentialAuto, worker.CredentialFile} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			var g *gitWorld
			var mu sync.Mutex
			var spoken []string
			secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				spoken = append(spoken, r.Proto)
				mu.Unlock()
				g.git.ServeHTTP(w, r)
			}))
			secure.EnableHTTP2 = true
			secure.StartTLS()
			t.Cleanup(secure.Close)
			ca := filepath.Join(t.TempDir(), "ca.pem")
			require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
			g = newGitWorld(t, func(c *e2blocal.Config) { c.EgressCA = ca })
			g.worker(g.with(func(c *worker.Config) { c.Git.Credential = way }), withSecrets("WORKER_SECRET_TLS="+planted))
			repo := g.block()
			repo.Credential, repo.PushMode = "tls", jobs.PushSandbox
			repo.URL, repo.PullRequest = strings.Replace(repo.URL, g.git.URL, secure.URL, 1), nil
			e := g.follow(g.publish(jobs.TaskRun, &jobs.Run{
				Common: jobs.Common{ID: "j1", Session: "s1"}, Repo: repo, Shell: "head -c 3000000 /dev/urandom >big",
			}))
			require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
			require.NotEmpty(t, g.on("rev-parse", "task-j1"))
			mu.Lock()
			defer mu.Unlock()
			require.NotEmpty(t, spoken)
			if way == worker.CredentialFile { // by header it is E2B that speaks with the server
				for _, proto := range spoken {
					require.Equal(t, "HTTP/1.1", proto)
				}
			}
		})
	}
}
