package local

import (
	"os/exec"
	"runtime"
	"syscall"
)

// forker starts processes that die with the server, however it dies. The
// kernel watches over the thread that started them, not over the process, so
// they all come from one thread that stays.
type forker struct {
	fenced bool // the thread has the filter for calls to the kernel
	work   chan func()
	done   chan struct{}
}

func newForker() *forker {
	f := &forker{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(f.done)
		runtime.LockOSThread() // and never unlocked: the filter stays with the thread
		f.fenced = fence() == nil
		close(ready)
		for do := range f.work {
			do()
		}
	}()
	<-ready
	return f
}

// start starts a command. It must not be called after close.
func (f *forker) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	err := make(chan error, 1)
	f.work <- func() { err <- cmd.Start() }
	return <-err
}

func (f *forker) close() {
	close(f.work)
	<-f.done
}
