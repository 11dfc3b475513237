package local

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestManyAtOnce creates SANDJET_TEST_MANY (200) sandboxes at once, runs a command
// in each and ends them all. The server then holds what it held before.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	many := 200
	if s := os.Getenv("SANDJET_TEST_MANY"); s != "" {
		var err error
		many, err = strconv.Atoi(s)
		require.NoError(t, err, "SANDJET_TEST_MANY is a number")
	}
	best := levels(t)
	a := startAlone(t, best[len(best)-1])
	warm := a.create("")
	require.NoError(t, warm.run("true").err)
	require.Equal(t, 204, a.call("DELETE", warm.on(""), "").status)
	before := a.holds()

	boxes := make([]*testBox, many)
	each := func(do func(i int)) time.Duration {
		began := time.Now()
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() { do(i) })
		}
		all.Wait()
		return time.Since(began).Round(time.Millisecond)
	}
	create := each(func(i int) {
		r, err := a.try("POST", "/v2/sandboxes", `{"templateID":"base"}`)
		if assert.NoError(t, err) && assert.Equal(t, http.StatusCreated, r.status, r.body) {
			boxes[i] = &testBox{client: a.client}
			r.into(t, &boxes[i].Sandbox)
		}
	})
	require.False(t, t.Failed())
	idle := a.holds()
	run := each(func(i int) {
		st, err := boxes[i].processes().Start(t.Context(), ask(boxes[i], sh(fmt.Sprintf("echo %d >n; sleep 0.1; cat n", i))))
		if assert.NoError(t, err) {
			r := finish(st)
			assert.NoError(t, r.err)
			assert.Equal(t, fmt.Sprintln(i), r.stdout.String())
		}
	})
	end := each(func(i int) {
		r, err := a.try("DELETE", boxes[i].on(""), "")
		if assert.NoError(t, err) {
			assert.Equal(t, http.StatusNoContent, r.status, r.body)
		}
	})
	t.Logf("%d at once: created in %s, a command in each in %s, ended in %s; with all: %v", many, create, run, end, idle)
	a.http.CloseIdleConnections()
	var after map[string]int
	require.Eventually(t, func() bool {
		after = a.holds()
		for what, n := range after {
			if what != "threads" && n > before[what] { // the runtime keeps threads; it must not need one a sandbox
				return false
			}
		}
		return true
	}, patience, 20*time.Millisecond, "%v before, %v after", before, &after)
	require.Less(t, after["threads"], before["threads"]+many/4, "%v", after)
	unharmed(a.client, a.create(""))
}

// TestMachineIsFull creates sandboxes until the server has no more files to open.
// One more is refused as by a cloud that is full, leaves nothing, and there is
// room again when one ends.
func TestMachineIsFull(t *testing.T) {
	t.Parallel()
	best := levels(t)
	a := startAlone(t, best[len(best)-1])
	neighbour := a.create("")
	require.NoError(t, unix.Prlimit(a.pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 100}, nil))
	var boxes []*testBox
	var full reply
	for len(boxes) < 100 {
		if full = a.call("POST", "/v2/sandboxes", `{"templateID":"base"}`); full.status != http.StatusCreated {
			break
		}
		boxes = append(boxes, &testBox{client: a.client})
		full.into(t, &boxes[len(boxes)-1].Sandbox)
	}
	require.Equal(t, http.StatusServiceUnavailable, full.status, "%s", full.body)
	require.Contains(t, full.body, `"error_code":"sandbox_capacity_unavailable"`)
	require.Contains(t, full.body, "too many open files")
	require.NotEmpty(t, boxes)
	held := a.holds()
	for range 20 {
		require.Equal(t, http.StatusServiceUnavailable, a.call("POST", "/v2/sandboxes", `{"templateID":"base"}`).status)
	}
	delete(held, "threads")
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		now := a.holds()
		delete(now, "threads")
		assert.Equal(t, held, now, "what could not be made leaves nothing")
	}, patience, 20*time.Millisecond)
	for range 2 {
		last := boxes[len(boxes)-1]
		boxes = boxes[:len(boxes)-1]
		require.Equal(t, 204, a.call("DELETE", last.on(""), "").status)
	}
	unharmed(a.client, neighbour)
	a.create("")
}

// holds counts what the server has of the machine.
func (a *alone) holds() map[string]int {
	a.Helper()
	count := func(pattern string) int {
		m, _ := filepath.Glob(pattern)
		return len(m)
	}
	proc := fmt.Sprintf("/proc/%d/", a.pid)
	n := map[string]int{
		"files": count(proc + "fd/*"), "threads": count(proc + "task/*"), "processes": len(descendants(a.pid)),
		"mounts":         strings.Count(readFile(a.T, proc+"mountinfo"), "\n"),
		"control groups": a.groups(), "loop devices": len(loops(a.T, a.dir)),
	}
	entries, err := os.ReadDir(a.dir)
	require.NoError(a, err)
	n["directories"] = len(entries)
	return n
}

// descendants are all processes below one.
func descendants(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(b)) {
			child, _ := strconv.Atoi(word)
			all = append(append(all, child), descendants(child)...)
		}
	}
	return all
}

// groups counts the control groups of the server's sandboxes.
func (a *alone) groups() (n int) {
	own := fmt.Sprintf("/%s%d-", groupPrefix, a.pid)
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(filepath.Dir(path), own) {
			n++
		}
		return nil // groups of others come and go meanwhile
	})
	return n
}
