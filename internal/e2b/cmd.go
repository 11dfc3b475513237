package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// DefaultKeepAlive is how often envd is asked for a sign of life on a silent
// stream.
const DefaultKeepAlive = 50 * time.Second

// maxOutput bounds what Cmd.Output collects.
const maxOutput = 16 << 20

// Cmd is a command in a sandbox, shaped like exec.Cmd. Fill the exported
// fields before Start and use a Cmd for one run only.
//
// A Cmd is a view of a process, not its owner: when the stream ends early, by
// the context, by a broken link or by a pause, the process lives on, and what
// it writes while nobody listens is lost. Find it again with Box.Attach.
type Cmd struct {
	Path string            // program; found by envd's PATH
	Args []string          // arguments, without the program
	Env  map[string]string // added to the sandbox's own; envd logs the values
	Dir  string            // empty is the default working directory
	User string            // empty is the Box's user

	// Stdin is what the process reads; nil gives it none. It is copied until
	// its end by a goroutine that Wait does not wait for, as a Read under way
	// cannot be taken back.
	Stdin io.Reader
	// Stdout and Stderr receive the output as it comes, one write at a time
	// even if they are the same; nil drops it. A slow Write slows the process
	// itself. A Write that fails ends the stream, and Wait returns its error.
	Stdout, Stderr io.Writer

	// KeepAlive is how often envd shall show life on a silent stream, in whole
	// seconds; 0 is DefaultKeepAlive. After two missed signs the stream is
	// given up with ErrStalled.
	KeepAlive time.Duration

	box     *Box
	attach  bool
	pid     int
	receive func() (*process.ProcessEvent, error)
	guard   *guard
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the stream is over
	err     error         // valid once done is closed
}

// Command returns a Cmd that runs a program with arguments. No shell is
// involved.
func (b *Box) Command(name string, args ...string) *Cmd {
	return &Cmd{Path: name, Args: args, box: b}
}

// Attach returns a Cmd that listens to a process that runs already: only
// Stdout, Stderr and KeepAlive count. It hears what is written from then on.
// Up to 30 s after the end of the process it still tells the exit code, later
// Start fails with ErrNotFound.
func (b *Box) Attach(pid int) *Cmd {
	return &Cmd{box: b, attach: true, pid: pid}
}

// Start starts the process, or attaches to it, and returns once envd has said
// its pid. When ctx ends, the stream ends and the process lives on; a deadline
// of ctx is not told to envd, which would kill the process by it.
//
// Never repeat the start of a command blindly after ErrUnknown: it may run.
// Attaching may be repeated.
func (c *Cmd) Start(ctx context.Context) (err error) {
	if c.done != nil {
		return errors.New("e2b: command already started")
	}
	c.done = make(chan struct{})
	began := time.Now()
	defer func() {
		c.box.client.observe(c.op(), 0, err, began)
		if err != nil {
			c.finish(err)
		}
	}()

	ctx, c.cancel = context.WithCancelCause(ctx)
	c.guard = newGuard(2*c.keepAlive(), func() { c.cancel(ErrStalled) })
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.begun(ctx); err != nil {
		return err
	}
	if c.Stdin != nil && !c.attach {
		go c.feed(ctx)
	}
	go func() { c.finish(c.follow(ctx)) }()
	return nil
}

// Wait waits for the end of the process and of its output: nil for success, an
// *ExitError for any other end, an *Error (ErrCut, ErrStalled, ...) or a
// writer's error if the stream ended first. It may be called again and from
// anywhere.
func (c *Cmd) Wait() error {
	if c.done == nil {
		return errors.New("e2b: command not started")
	}
	<-c.done
	return c.err
}

// Run is Start and Wait.
func (c *Cmd) Run(ctx context.Context) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns what it wrote to stdout. More than 16
// MiB is an error.
func (c *Cmd) Output(ctx context.Context) ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("e2b: Stdout already set")
	}
	var buf capped
	c.Stdout = &buf
	err := c.Run(ctx)
	return buf.Bytes(), err
}

// PID returns the process's id in the sandbox, valid after Start.
func (c *Cmd) PID() int { return c.pid }

func (c *Cmd) op() string {
	if c.attach {
		return "process.connect"
	}
	return "process.start"
}

func (c *Cmd) keepAlive() time.Duration {
	if c.KeepAlive <= 0 {
		return DefaultKeepAlive
	}
	return c.KeepAlive
}

// finish ends the stream and tells the result.
func (c *Cmd) finish(err error) {
	if c.cancel != nil {
		c.cancel(nil)
	}
	c.err = err
	close(c.done)
}

// next waits for one event.
func (c *Cmd) next() (*process.ProcessEvent, error) {
	c.guard.begin()
	defer c.guard.end()
	return c.receive()
}

// begun reads up to the event that says the pid.
func (c *Cmd) begun(ctx context.Context) error {
	for {
		ev, err := c.next()
		if err != nil {
			return c.streamError(ctx, err, false)
		}
		switch ev.GetEvent().(type) {
		case *process.ProcessEvent_Start:
			c.pid = int(ev.GetStart().GetPid())
			return nil
		case *process.ProcessEvent_Keepalive:
		default:
			return &Error{Op: c.op(), Sandbox: c.box.ref.ID, Kind: ErrBadAnswer, Unknown: true, Message: "the first event is no start"}
		}
	}
}

// follow copies the output until the end event.
func (c *Cmd) follow(ctx context.Context) error {
	for {
		ev, err := c.next()
		if err != nil {
			return c.streamError(ctx, err, true)
		}
		switch ev.GetEvent().(type) {
		case *process.ProcessEvent_Data:
			if err := c.write(ev.GetData()); err != nil {
				return err
			}
		case *process.ProcessEvent_End:
			c.drain()
			return exit(ev.GetEnd())
		}
	}
}

// drain reads the frame behind the end event, so that the connection can serve
// again. The result is known, so it is not waited for long.
func (c *Cmd) drain() {
	last := newGuard(time.Second, func() { c.cancel(nil) })
	last.begin()
	defer last.end()
	_, _ = c.receive()
}

func (c *Cmd) write(data *process.ProcessEvent_DataEvent) error {
	if err := writeAll(c.Stdout, data.GetStdout()); err != nil {
		return fmt.Errorf("write stdout: %w", err)
	}
	if err := writeAll(c.Stderr, data.GetStderr()); err != nil {
		return fmt.Errorf("write stderr: %w", err)
	}
	return nil
}

func writeAll(w io.Writer, p []byte) error {
	if w == nil || len(p) == 0 {
		return nil
	}
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// exit reads an end event. envd leaves zero values out: success is exited with
// no code, a signal is a code of -1 and not exited.
func exit(end *process.ProcessEvent_EndEvent) error {
	code := int(end.GetExitCode())
	if end.GetExited() && code == 0 {
		return nil
	}
	e := &ExitError{Code: code, Status: clean(end.GetStatus(), nil)}
	if !end.GetExited() {
		e.Code = -1
		e.Signal, _ = strings.CutPrefix(e.Status, "signal: ")
	}
	return e
}

// capped is a buffer that refuses to grow without end.
type capped struct{ bytes.Buffer }

// Write appends p, or fails if that were too much.
func (b *capped) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("more than %d bytes of output", maxOutput)
	}
	return b.Buffer.Write(p)
}
