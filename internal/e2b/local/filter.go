package local

import (
	"os"

	"github.com/elastic/go-seccomp-bpf"
)

// refused are the calls to the kernel that no command of a sandbox may make:
// they act on the whole machine or on what namespaces do not divide, as keys do,
// or have opened the kernel before. Programs of 32 bits are not asked.
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
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: os.Getuid() != 0,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls:      []seccomp.SyscallGroup{{Action: seccomp.ActionErrno, Names: refused}},
		},
	})
}
