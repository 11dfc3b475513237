package e2b

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// open sends the request of the stream and prepares c.receive.
func (c *Cmd) open(ctx context.Context) error {
	b := c.box
	if b.err != nil {
		return invalid(c.op(), b.ref.ID, b.err.Error())
	}
	user := b.user
	if c.User != "" {
		user = c.User
	}
	ctx = rpcContext(ctx, c.op(), user)
	c.guard.begin()
	defer c.guard.end()
	var err error
	if c.attach {
		c.receive, err = opened(c, &process.ConnectRequest{Process: byPID(c.pid)}, func(r *connect.Request[process.ConnectRequest]) (*connect.ServerStreamForClient[process.ConnectResponse], error) {
			return b.processes.Connect(ctx, r)
		}, (*process.ConnectResponse).GetEvent)
	} else {
		c.receive, err = opened(c, c.startRequest(), func(r *connect.Request[process.StartRequest]) (*connect.ServerStreamForClient[process.StartResponse], error) {
			return b.processes.Start(ctx, r)
		}, (*process.StartResponse).GetEvent)
	}
	if err != nil {
		return c.streamError(ctx, err, false)
	}
	return nil
}

// opened sends msg and returns what receives one event of the stream.
func opened[Req, Res any](c *Cmd, msg *Req,
	send func(*connect.Request[Req]) (*connect.ServerStreamForClient[Res], error),
	event func(*Res) *process.ProcessEvent,
) (func() (*process.ProcessEvent, error), error) {
	req := connect.NewRequest(msg)
	secs := max(1, (c.keepAlive()+time.Second-1)/time.Second)
	req.Header().Set("Keepalive-Ping-Interval", strconv.Itoa(int(secs)))
	stream, err := send(req)
	if err != nil {
		return nil, err
	}
	return func() (*process.ProcessEvent, error) {
		if stream.Receive() {
			return event(stream.Msg()), nil
		}
		err := stream.Err()
		_ = stream.Close()
		if err == nil {
			err = io.EOF
		}
		return nil, err
	}, nil
}

func (c *Cmd) startRequest() *process.StartRequest {
	stdin := c.Stdin != nil // absent would mean an open pipe that nobody feeds
	r := &process.StartRequest{
		Process: &process.ProcessConfig{Cmd: c.Path, Args: c.Args, Envs: c.Env},
		Stdin:   &stdin,
	}
	if c.Dir != "" {
		r.Process.Cwd = &c.Dir
	}
	return r
}

func byPID(pid int) *process.ProcessSelector {
	return &process.ProcessSelector{Selector: &process.ProcessSelector_Pid{Pid: uint32(pid)}}
}

// streamError tells why a stream ended. Before the start event envd's own word
// counts: no such directory, no such process. After it, whatever is not an end
// event leaves the process's fate open.
func (c *Cmd) streamError(ctx context.Context, err error, begun bool) error {
	if errors.Is(err, io.EOF) {
		return &Error{Op: c.op(), Sandbox: c.box.ref.ID, Kind: ErrCut, Unknown: true, Message: "no end event"}
	}
	var refused *Error
	if errors.As(err, &refused) {
		return refused
	}
	e := c.box.rpcError(ctx, c.op(), err)
	switch {
	case e.Kind == ErrBadAnswer: // frames that break off or cannot be read
		e.Kind = ErrCut
	case begun && ctx.Err() == nil:
		e.Kind, e.Unknown = ErrCut, true
	}
	return e
}

// stdinChunk is what one message to stdin holds at most.
const stdinChunk = 64 << 10

// feed copies Stdin to the process and closes its end.
func (c *Cmd) feed(ctx context.Context) {
	buf := make([]byte, stdinChunk)
	for {
		n, readErr := c.Stdin.Read(buf)
		if ctx.Err() != nil {
			return
		}
		if n > 0 {
			if err := c.box.sendStdin(ctx, c.pid, buf[:n]); err != nil {
				c.feedFailed(err)
				return
			}
		}
		switch {
		case readErr == io.EOF:
			if err := c.box.closeStdin(ctx, c.pid); err != nil {
				c.feedFailed(err)
			}
			return
		case readErr != nil:
			c.cancel(failure{fmt.Errorf("read stdin: %w", readErr)})
			return
		}
	}
}

// feedFailed ends the stream, unless the process is over or closed its input:
// that is its own business, as a broken pipe is in os/exec.
func (c *Cmd) feedFailed(err error) {
	var e *Error
	if errors.As(err, &e) && (e.Code == "not_found" || e.Code == "internal") {
		return
	}
	c.cancel(failure{fmt.Errorf("write stdin: %w", err)})
}

// sendStdin takes as long as the process takes to read: a full pipe is no
// fault, and a dead link is noticed by the stream's own guard.
func (b *Box) sendStdin(ctx context.Context, pid int, p []byte) error {
	_, err := unary(ctx, b, "process.input", b.processes.SendInput, &process.SendInputRequest{
		Process: byPID(pid),
		Input:   &process.ProcessInput{Input: &process.ProcessInput_Stdin{Stdin: p}},
	})
	return err
}

func (b *Box) closeStdin(ctx context.Context, pid int) error {
	_, err := brief(ctx, b, "process.close_stdin", b.processes.CloseStdin, &process.CloseStdinRequest{Process: byPID(pid)})
	return err
}
