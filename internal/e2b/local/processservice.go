package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// processService is envd's process service for the sandbox in the context.
type processService struct{}

func (processService) Start(ctx context.Context, req *connect.Request[process.StartRequest], out *connect.ServerStream[process.StartResponse]) error {
	if err := ctx.Err(); err != nil { // Connect-Timeout-Ms: 0
		return err
	}
	sb := box(ctx)
	cmd, err := sb.command(req.Msg, req.Header())
	if err != nil {
		return err
	}
	// The listener is there before the command runs, so that it misses nothing.
	p, l, err := sb.start(ctx, cmd, req.Msg)
	if err != nil {
		return err
	}
	defer p.hub.leave(l)
	return p.stream(ctx, l, req.Header(), func(ev *process.ProcessEvent) error {
		return out.Send(&process.StartResponse{Event: ev})
	})
}

func (processService) Connect(ctx context.Context, req *connect.Request[process.ConnectRequest], out *connect.ServerStream[process.ConnectResponse]) error {
	p, err := box(ctx).procs.find(req.Msg.GetProcess())
	if err != nil {
		return err
	}
	l := p.hub.listen(ctx)
	defer p.hub.leave(l)
	return p.stream(ctx, l, req.Header(), func(ev *process.ProcessEvent) error {
		return out.Send(&process.ConnectResponse{Event: ev})
	})
}

const defaultKeepalive = 90 * time.Second

func keepalive(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Keepalive-Ping-Interval"))
	if err != nil || n <= 0 {
		return defaultKeepalive
	}
	return time.Duration(n) * time.Second
}

// stream tells a client of the command from now to its end, with a sign of
// life after each silence.
func (p *proc) stream(ctx context.Context, l *listener, h http.Header, send func(*process.ProcessEvent) error) error {
	start := &process.ProcessEvent_StartEvent{Pid: uint32(p.pid)}
	if err := send(&process.ProcessEvent{Event: &process.ProcessEvent_Start{Start: start}}); err != nil {
		return err
	}
	every := keepalive(h)
	silence := time.NewTimer(every)
	defer silence.Stop()
	for {
		select {
		case ev := <-l.events:
			if err := send(ev); err != nil {
				return err
			}
		case <-l.over:
			if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
				return context.DeadlineExceeded // it was its deadline that killed it
			}
			return send(p.ended())
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			alive := &process.ProcessEvent{Event: &process.ProcessEvent_Keepalive{Keepalive: &process.ProcessEvent_KeepAlive{}}}
			if err := send(alive); err != nil {
				return err
			}
		}
		silence.Reset(every)
	}
}

func (processService) List(ctx context.Context, _ *connect.Request[process.ListRequest]) (*connect.Response[process.ListResponse], error) {
	out := &process.ListResponse{}
	for _, p := range box(ctx).procs.list() {
		if p.ended() == nil {
			out.Processes = append(out.Processes, &process.ProcessInfo{Config: p.config, Pid: uint32(p.pid), Tag: p.tag})
		}
	}
	return connect.NewResponse(out), nil
}

func (processService) SendInput(ctx context.Context, req *connect.Request[process.SendInputRequest]) (*connect.Response[process.SendInputResponse], error) {
	p, err := box(ctx).procs.alive(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if err := p.feed(ctx, req.Msg.GetInput()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&process.SendInputResponse{}), nil
}

func (processService) StreamInput(ctx context.Context, in *connect.ClientStream[process.StreamInputRequest]) (*connect.Response[process.StreamInputResponse], error) {
	var p *proc
	for in.Receive() {
		var err error
		switch ev := in.Msg().GetEvent().(type) {
		case *process.StreamInputRequest_Start:
			p, err = box(ctx).procs.alive(ev.Start.GetProcess())
		case *process.StreamInputRequest_Data:
			if p == nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the first message must be a start"))
			}
			err = p.feed(ctx, ev.Data.GetInput())
		}
		if err != nil {
			return nil, err
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&process.StreamInputResponse{}), nil
}

// feed writes one input message to the command.
func (p *proc) feed(ctx context.Context, in *process.ProcessInput) error {
	var err error
	switch in := in.GetInput().(type) {
	case *process.ProcessInput_Stdin:
		err = p.write(ctx, in.Stdin, false)
	case *process.ProcessInput_Pty:
		err = p.write(ctx, in.Pty, true)
	default:
		return connect.NewError(connect.CodeUnimplemented, errors.New("invalid input type"))
	}
	if err != nil {
		return connect.NewError(connect.CodeInternal, err)
	}
	return nil
}

func (processService) CloseStdin(ctx context.Context, req *connect.Request[process.CloseStdinRequest]) (*connect.Response[process.CloseStdinResponse], error) {
	p, err := box(ctx).procs.alive(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if err := p.closeStdin(); err != nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return connect.NewResponse(&process.CloseStdinResponse{}), nil
}

func (processService) SendSignal(ctx context.Context, req *connect.Request[process.SendSignalRequest]) (*connect.Response[process.SendSignalResponse], error) {
	p, err := box(ctx).procs.alive(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	sig := req.Msg.GetSignal()
	if sig != process.Signal_SIGNAL_SIGKILL && sig != process.Signal_SIGNAL_SIGTERM {
		return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("invalid signal: %s", sig))
	}
	err = p.signal(syscall.Signal(sig))
	if errors.Is(err, os.ErrProcessDone) {
		return nil, noProcess(strconv.Itoa(p.pid))
	}
	if err != nil {
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("error sending signal: %w", err))
	}
	return connect.NewResponse(&process.SendSignalResponse{}), nil
}

func (processService) Update(ctx context.Context, req *connect.Request[process.UpdateRequest]) (*connect.Response[process.UpdateResponse], error) {
	p, err := box(ctx).procs.alive(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if size := req.Msg.GetPty().GetSize(); size != nil {
		if p.l.tty == nil {
			return nil, connect.NewError(connect.CodeFailedPrecondition, errNoTTY)
		}
		if err := setSize(p.l.tty, winsize{cols: uint16(size.GetCols()), rows: uint16(size.GetRows())}); err != nil {
			return nil, connect.NewError(connect.CodeInternal, err)
		}
	}
	return connect.NewResponse(&process.UpdateResponse{}), nil
}

// find finds a command by pid or tag, one that ended lately included.
func (ps *processes) find(sel *process.ProcessSelector) (*proc, error) {
	switch by := sel.GetSelector().(type) {
	case *process.ProcessSelector_Pid:
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if p, ok := ps.all[int(by.Pid)]; ok {
			return p, nil
		}
		return nil, noProcess(strconv.Itoa(int(by.Pid)))
	case *process.ProcessSelector_Tag:
		for _, p := range ps.list() {
			if p.tag != nil && *p.tag == by.Tag {
				return p, nil
			}
		}
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("process with tag %s not found", by.Tag))
	}
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("invalid process selector"))
}

// alive is find for what needs the command itself.
func (ps *processes) alive(sel *process.ProcessSelector) (*proc, error) {
	p, err := ps.find(sel)
	if err == nil && p.ended() != nil {
		return nil, noProcess(strconv.Itoa(p.pid))
	}
	return p, err
}

func noProcess(pid string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("process with pid %s not found", pid))
}
