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
	stage  error // why nothing can be staged; nil where it can
}

func newForker() *forker {
	f := &forker{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(f.done)
		runtime.LockOSThread() // and never unlocked: the filter stays with the thread
		f.stage = openStage()
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
	return f.startWith(cmd, func() (func() error, error) { return func() error { return nil }, nil })
}

// startWith starts a command between what do does on the forker's thread and
// what undoes it. If either fails there is no command.
func (f *forker) startWith(cmd *exec.Cmd, do func() (undo func() error, err error)) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	f.work <- func() {
		undo, err := do()
		if err != nil {
			started <- err
			return
		}
		err = cmd.Start()
		if e := undo(); err == nil && e != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			err = e
		}
		started <- err
	}
	return <-started
}

func (f *forker) close() {
	close(f.work)
	<-f.done
}
