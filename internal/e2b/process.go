package e2b

import (
	"context"
	"syscall"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// Process is one process that envd started and that still runs.
type Process struct {
	PID  int
	Path string
	Args []string
	Dir  string
}

// Processes lists what was started through envd and still runs, not its
// children. It may be repeated.
func (b *Box) Processes(ctx context.Context) ([]Process, error) {
	res, err := brief(ctx, b, "process.list", b.processes.List, &process.ListRequest{})
	if err != nil {
		return nil, err
	}
	var ps []Process
	for _, p := range res.GetProcesses() {
		ps = append(ps, Process{
			PID:  int(p.GetPid()),
			Path: p.GetConfig().GetCmd(),
			Args: p.GetConfig().GetArgs(),
			Dir:  p.GetConfig().GetCwd(),
		})
	}
	return ps, nil
}

// Signal sends SIGTERM or SIGKILL, the two that envd knows, to one process;
// its children get nothing. ErrNotFound means that it is over. It may be
// repeated.
func (b *Box) Signal(ctx context.Context, pid int, sig syscall.Signal) error {
	const op = "process.signal"
	var s process.Signal
	switch sig {
	case syscall.SIGTERM:
		s = process.Signal_SIGNAL_SIGTERM
	case syscall.SIGKILL:
		s = process.Signal_SIGNAL_SIGKILL
	default:
		return invalid(op, b.ref.ID, "signal "+sig.String()+" is neither SIGTERM nor SIGKILL")
	}
	_, err := brief(ctx, b, op, b.processes.SendSignal, &process.SendSignalRequest{Process: byPID(pid), Signal: s})
	return err
}
