package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachBound runs a test on a server that bounds by control groups and on one
// that has to do without. What the machine lacks is named.
func eachBound(t *testing.T, controller string, limits Limits, f func(c *client)) {
	t.Helper()
	t.Parallel()
	if best := levels(t); best[len(best)-1] != Strong {
		missing(t, "no strong isolation here")
	}
	for _, noGroups := range []bool{false, true} {
		srv := start(t, Config{Isolation: Strong, Limits: limits, noGroups: noGroups})
		h, ok := srv.groups.tree(controller)
		name := "each process"
		if ok {
			name = h.name()
		}
		for _, version := range []string{"cgroup v1", "cgroup v2"} {
			if !noGroups && name != version {
				t.Logf("NOT PROVEN HERE: %s by %s; this machine has it by: %s", controller, version, name)
			}
		}
		if !noGroups && !ok {
			continue
		}
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { f(newClient(t, srv)) })
	}
}

// unharmed checks that a neighbour and the server answer.
func unharmed(c *client, neighbour *testBox) {
	c.Helper()
	require.Equal(c, "well\n", neighbour.run("sh -c 'echo well'").stdout.String())
	require.Equal(c, 200, c.call("GET", neighbour.on(""), "").status)
}

func TestForkBomb(t *testing.T) {
	eachBound(t, "pids", Limits{Processes: 48}, func(c *client) {
		a, b := c.create(""), c.create("")
		r := a.run(`i=0; while [ $i -lt 200 ]; do sleep 300 >/dev/null 2>&1 & i=$((i+1)); done; echo all`)
		require.NotContains(c, r.stdout.String(), "all")
		require.Regexp(c, "(?i)cannot fork|temporarily unavailable", r.stderr.String(), "EAGAIN, in the shell's words")
		unharmed(c, b)

		bomber := c.create("")
		_, _ = bomber.begin(sh(`bomb() { bomb | bomb & }; while :; do bomb; done 2>/dev/null`))
		for range 3 {
			unharmed(c, b)
		}
		for _, x := range []*testBox{a, bomber} {
			require.Equal(c, 204, c.call("DELETE", x.on(""), "").status)
		}
		unharmed(c, b)
		for _, h := range c.srv.groups.trees {
			require.NoDirExists(c, filepath.Join(h.dir, bomber.SandboxID), "nothing of it is left")
		}
	})
}

func TestMemoryHog(t *testing.T) {
	eachBound(t, "memory", Limits{Memory: 48 << 20}, func(c *client) {
		a, b := c.create(""), c.create("")
		const hog = "head -c 200000000 /dev/zero | tail -n 1 | wc -c" // tail holds the whole line
		r := a.run(hog)
		require.NotContains(c, r.stdout.String(), "200000000")
		unharmed(c, b)
		require.Equal(c, "on\n", a.run("echo on").stdout.String(), "the sandbox itself goes on")

		_, _ = a.begin(sh("while :; do " + hog + "; done >/dev/null 2>&1"))
		for range 3 {
			unharmed(c, b)
		}
	})
}

// TestMemoryHogIsKilled: one that takes more than its sandbox has dies of it.
func TestMemoryHogIsKilled(t *testing.T) {
	t.Parallel()
	srv := start(t, Config{Limits: Limits{Memory: 48 << 20}})
	if _, ok := srv.groups.tree("memory"); !ok {
		t.Log("NOT PROVEN HERE: no control group bounds memory on this machine")
		return
	}
	c := newClient(t, srv)
	a := c.create("")
	st, err := a.processes().Start(t.Context(), ask(a, sh("head -c 200000000 /dev/zero >/dev/null; exec tail -n 1 /dev/zero")))
	require.NoError(t, err)
	r := finish(st)
	require.NoError(t, r.err)
	require.Equal(t, "signal: killed", r.end.GetStatus())
	st, err = a.processes().Start(t.Context(), as(ask(a, sh("exec head -c 200000000 /dev/zero >/dev/shm/file")), "root"))
	require.NoError(t, err)
	require.Equal(t, "signal: killed", finish(st).end.GetStatus(), "a file in memory counts too")
}

func TestUseIsTheSandboxsOwn(t *testing.T) {
	t.Parallel()
	srv := start(t, Config{Limits: Limits{Memory: 256 << 20}})
	if _, ok := srv.groups.tree("memory"); !ok {
		t.Log("NOT PROVEN HERE: no control group counts memory on this machine")
		return
	}
	c := newClient(t, srv)
	b := c.create("")
	require.NoError(t, b.run("true").err)
	var m struct {
		Total int64 `json:"mem_total"`
		Used  int64 `json:"mem_used"`
	}
	b.envd("GET", "/metrics", "").into(t, &m)
	require.EqualValues(t, 256<<20, m.Total)
	require.Equal(t, 256, b.detail().MemoryMB)
	require.Equal(t, runtime.NumCPU(), b.detail().CPUCount)
	require.Less(t, m.Used, m.Total)
}

// TestGroupsOfAKilledServer: who starts next removes them, with who is inside.
func TestGroupsOfAKilledServer(t *testing.T) {
	t.Parallel()
	own := openCgroups()
	t.Cleanup(own.close)
	if len(own.trees) == 0 {
		t.Log("NOT PROVEN HERE: this machine lets us make no control groups")
		return
	}
	for _, h := range own.trees {
		dead := filepath.Join(filepath.Dir(h.dir), groupPrefix+"999999999-x")
		require.NoError(t, os.MkdirAll(filepath.Join(dead, "isandbox"), 0o755))
		other := openCgroups()
		t.Cleanup(other.close)
		require.NoDirExists(t, dead)
		require.DirExists(t, h.dir, "of a server that lives")
	}
}

func TestInForceIsTold(t *testing.T) {
	t.Parallel()
	for _, noGroups := range []bool{false, true} {
		c := newClient(t, start(t, Config{Limits: Limits{Memory: 4096, Processes: 77}, noGroups: noGroups}))
		health := c.call("GET", "/health", "", "X-API-Key", "").body
		for _, h := range c.srv.InForce() {
			t.Log(h.Name+":", h.How)
		}
		require.Contains(t, health, "\nmemory: 4 KiB ")
		require.Contains(t, health, "\nprocesses: 77 ")
		if noGroups {
			require.Contains(t, health, "\npause: stops")
			require.NotContains(t, health, "cgroup")
		}
	}
	c := newClient(t, start(t, Config{Limits: Limits{Memory: -1, Processes: -1, Disk: -1}}))
	require.EqualValues(t, machineMemory()>>20, c.create("").detail().MemoryMB)
	require.Equal(t, leastMemoryMB, newClient(t, start(t, Config{Isolation: None, Limits: Limits{Memory: 1 << 20}})).create("").detail().MemoryMB)
	require.Contains(t, c.call("GET", "/health", "").body, "\nmemory: no limit\nprocesses: no limit\ndisk: no limit\n")
	require.Equal(t, "2 GiB", bytesText(defaultMemory))
	require.Equal(t, "1025 bytes", bytesText(1025))
}

// TestPauseOutrunsForks: a tree of processes that forks as fast as it can and
// hands its work on to its child at each step stands still while paused.
func TestPauseOutrunsForks(t *testing.T) {
	t.Parallel()
	for _, noGroups := range []bool{false, true} {
		for _, level := range levels(t) {
			if noGroups && level == None {
				continue // without both, what forks away is not found in time: the price of None
			}
			name := fmt.Sprintf("%s/groups=%v", level, !noGroups)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, start(t, Config{Isolation: level, noGroups: noGroups}))
				if strings.Contains(c.call("GET", "/health", "").body, "\npause: stops") && !noGroups {
					t.Log("NOT PROVEN HERE: the freezer of cgroup v2")
				}
				b := c.create("")
				// Each generation lives for one step, in a session of its own.
				b.put("run", `#!/bin/sh
echo >>"$1/steps"
exec 3>&-
setsid sh "$1/run" "$1" &
`)
				home := strings.TrimSpace(b.run("echo $HOME").stdout.String())
				require.NoError(t, b.run("sh "+home+"/run "+home+" >/dev/null 2>&1").err)
				steps := b.outside("/home/user/steps")
				size := func() int64 {
					st, err := os.Stat(steps)
					require.NoError(t, err)
					return st.Size()
				}
				for range 5 {
					before := size()
					require.Eventually(t, func() bool { return size() > before+5 }, patience, patience/2000, "they run")
					require.Equal(t, 204, c.call("POST", b.on("/pause"), "").status)
					still := size()
					require.Never(t, func() bool { return size() != still }, patience/100, patience/2000, "they stand still")
					require.Equal(t, 201, c.call("POST", "/v2"+b.on("/connect"), `{"timeout":300}`).status)
				}
			})
		}
	}
}
