package stack

import (
	"os/exec"
	"runtime"
)

// StartTied starts a command that is to die with its parent, and has wait run until
// the command has ended. The kernel takes the thread that forked for the parent: the
// command gets one that stays, since others end, as those of a sandbox server do.
func StartTied(cmd *exec.Cmd, wait func()) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			wait()
		}
	}()
	return <-started
}
