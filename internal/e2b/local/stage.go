package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// The stage is where a jail that is being made finds its tree and what it
// trusts. Its root is nobody on the machine and need not get through the
// directories above them, which may be the server's alone. It is there for the
// thread of the forker and what comes of it, and empty but for that moment.
const (
	stageDir    = "/mnt"
	stagedRoot  = stageDir + "/root"
	stagedTrust = stageDir + "/trust"
)

// openStage gives this thread mounts of its own, and the stage among them.
func openStage() error {
	if os.Getuid() != 0 {
		return nil // nobody's jail needs it
	}
	err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	}
	if err == nil {
		err = unix.Mount("stage", stageDir, "tmpfs", 0, "mode=755,size=1m")
	}
	if err == nil {
		err = os.Mkdir(stagedRoot, 0o755)
	}
	if err == nil {
		err = os.WriteFile(stagedTrust, nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("make a place to start sandboxes from: %w", err)
	}
	return nil
}

// stage starts the jail's holder with its tree in place. The holder has mounts
// of its own from its first moment on, so that the place is free again at once.
func (j *jail) stage(cmd *exec.Cmd) error {
	if j.forks.stage != nil {
		return j.forks.stage
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNS
	return j.forks.startWith(cmd, func() (undo func() error, err error) {
		if err := j.disk.mountAt(stagedRoot); err != nil {
			return nil, fmt.Errorf("stage %s: %w", j.root, err)
		}
		undo = func() error { return unix.Unmount(stagedRoot, unix.MNT_DETACH) }
		if j.trust == nil {
			return undo, nil
		}
		if err := unix.Mount(j.trust.file, stagedTrust, "", unix.MS_BIND, ""); err != nil {
			return nil, errors.Join(fmt.Errorf("stage %s: %w", j.trust.file, err), undo())
		}
		return func() error {
			return errors.Join(unix.Unmount(stagedTrust, unix.MNT_DETACH), unix.Unmount(stagedRoot, unix.MNT_DETACH))
		}, nil
	})
}
