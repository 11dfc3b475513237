package local

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are the calls to the kernel that no command of a sandbox may make:
// they act on the whole machine or on what namespaces do not divide, as keys do,
// or have opened the kernel before.
var refused = []string{
	"acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "delete_module", "fanotify_init", "finit_module",
	"init_module", "io_uring_enter", "io_uring_register", "io_uring_setup", "kexec_file_load", "kexec_load", "keyctl",
	"lookup_dcookie", "move_pages", "nfsservctl", "open_by_handle_at", "perf_event_open", "quotactl", "reboot",
	"request_key", "settimeofday", "swapoff", "swapon", "syslog", "userfaultfd", "vhangup",
}

// fence puts this thread, and all that it starts from now on, under the filter.
// A thread that may do so without giving up setuid programs keeps them: sudo is
// one.
func fence() error {
	err := seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: os.Getuid() != 0,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls:      []seccomp.SyscallGroup{{Action: seccomp.ActionErrno, Names: refused}},
		},
	})
	if err != nil {
		return err
	}
	return oneNumbering()
}

// oneNumbering refuses every call that is made by the numbers of another
// architecture, as programs of 32 bits do: the filter of names lets those
// through, whatever they mean. (It refuses x32, which shares the architecture.)
func oneNumbering() error {
	own, err := arch.GetInfo("")
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	const archOffset = 4 // of seccomp_data
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: archOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(own.ID), SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	})
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	filter := make([]unix.SockFilter, len(program))
	for i, r := range program {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}
