package local

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Limits bound what one sandbox may use. 0 means the default, less than 0 no
// limit. A command that wants more memory is killed; one more process is
// refused with EAGAIN, one more block of the disk with ENOSPC.
type Limits struct {
	Memory    int64 // bytes; 2 GiB
	Processes int   // threads count too; 1024
	Disk      int64 // bytes, those of the file system's own tables among them; 10 GiB
}

const (
	defaultMemory    = 2 << 30
	defaultProcesses = 1024
	defaultDisk      = 10 << 30
)

func (l Limits) withDefaults() Limits {
	if l.Memory == 0 {
		l.Memory = defaultMemory
	}
	if l.Processes == 0 {
		l.Processes = defaultProcesses
	}
	if l.Disk == 0 {
		l.Disk = defaultDisk
	}
	return l
}

// bound puts a command under the sandbox's limits before it takes its first
// step: into its control groups, and where the machine lets us make none, under
// limits of each process, which the kernel hands down to what it forks.
func (j *jail) bound(pid int) error {
	// A core dump goes where the machine says, and that may be a program of it.
	if err := setRlimit(pid, unix.RLIMIT_CORE, 0); err != nil {
		return err
	}
	if _, ok := j.groups.tree("memory"); !ok && j.bounds.Memory > 0 {
		if err := setRlimit(pid, unix.RLIMIT_DATA, uint64(j.bounds.Memory)); err != nil {
			return err
		}
	}
	if _, ok := j.groups.tree("pids"); !ok && j.bounds.Processes > 0 {
		if err := setRlimit(pid, unix.RLIMIT_NPROC, uint64(j.bounds.Processes)); err != nil {
			return err
		}
	}
	if j.disk.device == "" && j.bounds.Disk > 0 {
		if err := setRlimit(pid, unix.RLIMIT_FSIZE, uint64(j.bounds.Disk)); err != nil {
			return err
		}
	}
	return j.group.add(pid)
}

func setRlimit(pid, which int, n uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, which, nil, &now); err != nil {
		return fmt.Errorf("limit %d of process %d: %w", which, pid, err)
	}
	n = min(n, now.Max)
	if err := unix.Prlimit(pid, which, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limit %d of process %d: %w", which, pid, err)
	}
	return nil
}

// Hold is one thing that holds a sandbox, and how well on this machine.
type Hold struct{ Name, How string }

// InForce says what holds this server's sandboxes.
func (s *Server) InForce() []Hold {
	l := s.bounds
	list := []Hold{
		{"isolation", string(s.isolation)},
		{"memory", s.limitText(l.Memory > 0, bytesText(l.Memory), "memory", "of each process (RLIMIT_DATA)")},
		{"processes", s.limitText(l.Processes > 0, fmt.Sprint(l.Processes), "pids", s.processFallback())},
		{"disk", s.diskText()},
	}
	pause, network, calls, sudo := "stops the processes (SIGSTOP)", "the machine's, its loopback included", "no filter", "no"
	egress := "proxy: the network rules hold for programs that heed http_proxy"
	if _, ok := s.groups.tree("freezer"); ok {
		pause = "freezes the processes (cgroup v2)"
	}
	if s.ownNetwork(s.isolation) {
		network = "of its own, with a proxy as the only way out"
		egress = "wall: the network rules hold for every program"
	}
	if s.forks.fenced {
		calls = fmt.Sprint("seccomp refuses ", len(refused), " calls to the kernel, and all of other architectures")
	}
	if s.sudo {
		sudo = "yes, to a root that is root only in the sandbox"
	}
	return append(list, Hold{"pause", pause}, Hold{"network", network}, Hold{"egress", egress}, Hold{"kernel", calls}, Hold{"sudo", sudo})
}

func (s *Server) limitText(set bool, value, controller, otherwise string) string {
	if !set {
		return "no limit"
	}
	if h, ok := s.groups.tree(controller); ok {
		return value + " a sandbox (" + h.name() + ")"
	}
	return value + " " + otherwise
}

func (s *Server) diskText() string {
	switch size := bytesText(s.bounds.Disk); {
	case s.bounds.Disk < 0:
		return "no limit"
	case s.blank != nil:
		return size + " a sandbox (" + imageType + " in a file)"
	default:
		return fmt.Sprintf("%s of each file (RLIMIT_FSIZE): %v", size, s.noDisk)
	}
}

func (s *Server) processFallback() string {
	if s.isolation == None {
		return "for all that this user runs (RLIMIT_NPROC; not for root)"
	}
	return "of each user in a sandbox (RLIMIT_NPROC)"
}

func bytesText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprint(n/u.size, " ", u.name)
		}
	}
	return fmt.Sprint(n, " bytes")
}
