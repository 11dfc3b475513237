package local

import (
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// exit is how a command ended.
type exit struct {
	code   int
	exited bool   // false: by a signal
	text   string // "exit status 3", "signal: killed"
}

// wait returns when the command has ended, however many descendants it left.
// It waits in the runtime's poller first: waiting for a child costs a thread.
func (l *launched) wait() exit {
	l.proc.wait()
	over := make(chan struct{})
	var nudging sync.WaitGroup
	nudging.Go(func() { l.nudge(over) })
	err := l.cmd.Wait()
	close(over)
	nudging.Wait()
	return exitOf(l.cmd.ProcessState, err)
}

// nudge wakes the one that led the command in: nsenter stops itself when its
// child is stopped, and would sleep through the child's end.
func (l *launched) nudge(over <-chan struct{}) {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-over:
			return
		case <-t.C:
			_ = l.cmd.Process.Signal(syscall.SIGCONT)
		}
	}
}

func exitOf(st *os.ProcessState, err error) exit {
	if st == nil {
		return exit{code: -1, text: err.Error()}
	}
	ws, ok := st.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return exit{code: -1, text: "signal: " + ws.Signal().String()}
	}
	return exit{code: st.ExitCode(), exited: true, text: "exit status " + strconv.Itoa(st.ExitCode())}
}
