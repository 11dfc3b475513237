package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is one tree of control groups in which we may make our own.
type hierarchy struct {
	dir         string // our group in it, which the sandboxes' are below
	unified     bool   // cgroup v2
	controllers []string
}

func (h hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// cgroups are the control groups of a server. The zero value has none.
type cgroups struct{ trees []hierarchy }

// groupPrefix and the server's pid name our groups: who starts later knows by
// them what a server left that was killed.
const groupPrefix = "sandjet-"

// openCgroups finds the hierarchies that this process may make groups in, of
// either version; machines have both at once.
func openCgroups() *cgroups {
	c := &cgroups{}
	own, err := ownGroups("/proc/self/cgroup")
	if err != nil {
		return c
	}
	name := groupPrefix + strconv.Itoa(os.Getpid()) + "-" + newID()[1:9]
	for _, m := range cgroupMounts("/proc/self/mountinfo") {
		h, err := m.open(own, name)
		if err != nil {
			continue // not ours to use
		}
		c.trees = append(c.trees, h)
	}
	return c
}

// cgroupMount is where a hierarchy is mounted.
type cgroupMount struct {
	point, root string
	controllers []string // of v1; v2 says itself what it has
	unified     bool
}

func cgroupMounts(mountinfo string) []cgroupMount {
	f, err := os.Open(mountinfo)
	if err != nil {
		return nil
	}
	defer f.Close()
	var list []cgroupMount
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, _ := strings.Cut(s.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(rest) < 3 {
			continue
		}
		m := cgroupMount{root: fields[3], point: fields[4], unified: rest[0] == "cgroup2"}
		if m.unified {
			list = append(list, m)
		} else if rest[0] == "cgroup" {
			for _, o := range strings.Split(rest[2], ",") {
				if slices.Contains([]string{"memory", "pids", "cpu"}, o) {
					m.controllers = append(m.controllers, o)
				}
			}
			if m.controllers != nil {
				list = append(list, m)
			}
		}
	}
	return list
}

// ownGroups reads which group this process is in, by controller; v2's has the
// empty name.
func ownGroups(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	own := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own, nil
}

// open makes the server's group and sees what it can do.
func (m cgroupMount) open(own map[string]string, name string) (hierarchy, error) {
	key := ""
	if !m.unified {
		key = m.controllers[0]
	}
	rel, err := filepath.Rel(m.root, own[key])
	if err != nil || strings.HasPrefix(rel, "..") { // the mount shows another part of the tree
		rel = "."
	}
	parent := filepath.Join(m.point, rel)
	sweepGroups(parent)
	h := hierarchy{dir: filepath.Join(parent, name), unified: m.unified, controllers: m.controllers}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return h, err
	}
	if m.unified {
		h.controllers = delegate(parent, h.dir)
		if _, err := os.Stat(filepath.Join(h.dir, "cgroup.freeze")); err == nil {
			h.controllers = append(h.controllers, "freezer")
		}
	}
	return h, nil
}

// delegate hands the controllers that we bound by from a v2 group to one below,
// and on. A group that has processes cannot; then we move out of it.
func delegate(parent, dir string) []string {
	var got []string
	for _, c := range []string{"memory", "pids", "cpu"} {
		if !slices.Contains(words(filepath.Join(parent, "cgroup.controllers")), c) {
			continue
		}
		to := filepath.Join(parent, "cgroup.subtree_control")
		err := writeGroup(to, "+"+c)
		if errors.Is(err, unix.EBUSY) {
			self := dir + "-self"
			if err = os.Mkdir(self, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
				err = writeGroup(filepath.Join(self, "cgroup.procs"), strconv.Itoa(os.Getpid()))
			}
			if err == nil {
				err = writeGroup(to, "+"+c)
			}
		}
		if err == nil && writeGroup(filepath.Join(dir, "cgroup.subtree_control"), "+"+c) == nil {
			got = append(got, c)
		}
	}
	return got
}

func words(path string) []string {
	b, _ := os.ReadFile(path)
	return strings.Fields(string(b))
}

func writeGroup(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// sweepGroups removes what servers left that were killed, and who is in it.
func sweepGroups(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"*"))
	for _, d := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), groupPrefix), "-")
		n, err := strconv.Atoi(pid)
		if err != nil || !errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			continue
		}
		below, _ := filepath.Glob(filepath.Join(d, "*", "cgroup.procs"))
		for _, p := range below {
			g := &group{id: filepath.Base(filepath.Dir(p)), dirs: []string{filepath.Dir(p)}}
			g.killAll()
			g.remove()
		}
		_ = os.Remove(d)
	}
}

// tree is the hierarchy that has a controller.
func (c *cgroups) tree(controller string) (hierarchy, bool) {
	for _, h := range c.trees {
		if h.has(controller) {
			return h, true
		}
	}
	return hierarchy{}, false
}

// name says which version bounds by a controller.
func (h hierarchy) name() string {
	if h.unified {
		return "cgroup v2"
	}
	return "cgroup v1"
}

func (c *cgroups) close() {
	for _, h := range c.trees {
		_ = os.Remove(h.dir)
		if h.unified {
			_ = os.Remove(h.dir + "-self")
		}
	}
}

// group is a sandbox's place in every hierarchy.
type group struct {
	id     string
	dirs   []string
	freeze string // the group that can freeze; empty where none can
	memory string // the file that tells what it uses; empty where none does
}

// make makes a sandbox's groups with its limits.
func (c *cgroups) make(id string, l Limits) (*group, error) {
	g := &group{id: id}
	for _, h := range c.trees {
		dir := filepath.Join(h.dir, id)
		if err := os.Mkdir(dir, 0o755); err != nil {
			g.remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
		g.dirs = append(g.dirs, dir)
		if h.has("freezer") {
			g.freeze = dir
		}
		if err := g.bound(h, dir, l); err != nil {
			g.remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
	}
	return g, nil
}

func (g *group) bound(h hierarchy, dir string, l Limits) error {
	if h.has("memory") {
		limit, swap, used := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.usage_in_bytes"
		swapText := strconv.FormatInt(l.Memory, 10) // v1 counts memory and swap together
		if h.unified {
			limit, swap, used, swapText = "memory.max", "memory.swap.max", "memory.current", "0"
		}
		g.memory = filepath.Join(dir, used)
		if l.Memory > 0 {
			if err := writeGroup(filepath.Join(dir, limit), strconv.FormatInt(l.Memory, 10)); err != nil {
				return err
			}
			if err := writeGroup(filepath.Join(dir, swap), swapText); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if h.has("pids") && l.Processes > 0 {
		return writeGroup(filepath.Join(dir, "pids.max"), strconv.Itoa(l.Processes))
	}
	return nil
}

// add puts a process into the group; what it forks from then on is in it too.
func (g *group) add(pid int) error {
	for _, d := range g.dirs {
		if err := writeGroup(filepath.Join(d, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// setFrozen freezes or thaws the group and returns once the kernel says that it
// is done. None of its processes takes a step in between, so none forks away.
func (g *group) setFrozen(ctx context.Context, frozen bool) error {
	want := "0"
	if frozen {
		want = "1"
	}
	events, err := os.Open(filepath.Join(g.freeze, "cgroup.events"))
	if err != nil {
		return fmt.Errorf("freezer: %w", err)
	}
	defer events.Close()
	if err := writeGroup(filepath.Join(g.freeze, "cgroup.freeze"), want); err != nil {
		return fmt.Errorf("freezer: %w", err)
	}
	buf := make([]byte, 256)
	for {
		n, err := events.ReadAt(buf, 0) // reading arms the poll below
		if n == 0 && err != nil {
			return fmt.Errorf("freezer: %w", err)
		}
		if strings.Contains(string(buf[:n]), "frozen "+want) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("freezer: %w", err)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, 100)
	}
}

// killAll ends every process of the group, frozen or not.
func (g *group) killAll() {
	for _, d := range g.dirs {
		if writeGroup(filepath.Join(d, "cgroup.kill"), "1") == nil {
			continue
		}
		for _, p := range words(filepath.Join(d, "cgroup.procs")) {
			if pid, err := strconv.Atoi(p); err == nil && pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// used is the memory that the sandbox uses now.
func (g *group) used() (int64, bool) {
	if g == nil || g.memory == "" {
		return 0, false
	}
	b, err := os.ReadFile(g.memory)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// removePatience is how long a group may stay busy with processes that are
// killed: v1 has no word for the last one gone, so we ask again.
const removePatience = 5 * time.Second

func (g *group) remove() {
	until := time.Now().Add(removePatience)
	for _, d := range g.dirs {
		for errors.Is(os.Remove(d), unix.EBUSY) && time.Now().Before(until) {
			time.Sleep(2 * time.Millisecond)
		}
	}
}
