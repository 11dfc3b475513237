package local

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// endKept is how long the end of a command is told to those who connect late.
const endKept = 30 * time.Second

// chunk is the most output in one message; a terminal's are smaller.
const (
	chunk    = 32 << 10
	ttyChunk = 16 << 10
)

// proc is one command in a sandbox.
type proc struct {
	pid    int
	config *process.ProcessConfig
	tag    *string
	l      *launched
	life   *time.Timer   // kills it at the end of its time; nil without one
	input  chan struct{} // a lock that a context can give up on
	hub    hub

	mu    sync.Mutex
	stdin *os.File // nil when off or closed
	end   *process.ProcessEvent_EndEvent
}

func newProc(l *launched, config *process.ProcessConfig, tag *string) *proc {
	p := &proc{pid: l.pid, config: config, tag: tag, l: l, stdin: l.stdin, input: make(chan struct{}, 1)}
	if l.tty != nil {
		p.stdin = nil
	}
	return p
}

// run reads the command's output to its end and then tells how it ended.
// Descendants that hold the output open delay that, as with envd.
func (p *proc) run() {
	var pumps sync.WaitGroup
	for _, s := range []struct {
		f    *os.File
		size int
		wrap func([]byte) *process.ProcessEvent_DataEvent
	}{
		{p.l.stdout, chunk, func(b []byte) *process.ProcessEvent_DataEvent {
			return &process.ProcessEvent_DataEvent{Output: &process.ProcessEvent_DataEvent_Stdout{Stdout: b}}
		}},
		{p.l.stderr, chunk, func(b []byte) *process.ProcessEvent_DataEvent {
			return &process.ProcessEvent_DataEvent{Output: &process.ProcessEvent_DataEvent_Stderr{Stderr: b}}
		}},
		{p.l.tty, ttyChunk, func(b []byte) *process.ProcessEvent_DataEvent {
			return &process.ProcessEvent_DataEvent{Output: &process.ProcessEvent_DataEvent_Pty{Pty: b}}
		}},
	} {
		if s.f != nil {
			pumps.Go(func() { p.pump(s.f, s.size, s.wrap) })
		}
	}
	st := p.l.wait()
	pumps.Wait()
	if p.life != nil {
		p.life.Stop()
	}
	p.finish(st)
}

func (p *proc) finish(st exit) {
	end := &process.ProcessEvent_EndEvent{ExitCode: int32(st.code), Exited: st.exited, Status: st.text}
	if st.code != 0 || !st.exited {
		end.Error = &st.text
	}
	p.mu.Lock()
	p.end, p.stdin = end, nil
	p.mu.Unlock()
	p.hub.close()
	p.l.close()
}

// pump hands output on as it comes. It is what stands still when a reader
// does, and through the full pipe the command with it.
func (p *proc) pump(f *os.File, size int, wrap func([]byte) *process.ProcessEvent_DataEvent) {
	buf := make([]byte, size)
	for {
		n, err := f.Read(buf)
		if n > 0 && p.hub.heard() {
			p.hub.send(&process.ProcessEvent{Event: &process.ProcessEvent_Data{Data: wrap(append([]byte(nil), buf[:n]...))}})
		}
		if err != nil { // the end, a terminal's EIO, or our own close
			return
		}
	}
}

// ended returns the end event, or nil while the command runs.
func (p *proc) ended() *process.ProcessEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		return nil
	}
	return &process.ProcessEvent{Event: &process.ProcessEvent_End{End: p.end}}
}

func (p *proc) signal(sig syscall.Signal) error { return p.l.proc.signal(sig) }

var (
	errNoStdin  = errors.New("error writing to stdin: stdin not enabled or closed")
	errNoTTY    = errors.New("error writing to tty: tty not assigned to process")
	errTTYStdin = errors.New("cannot close stdin for PTY process - send Ctrl+D (0x04) instead")
)

// write hands input to the command. It waits while the command does not read.
func (p *proc) write(ctx context.Context, b []byte, toTTY bool) error {
	select {
	case p.input <- struct{}{}:
		defer func() { <-p.input }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	f, missing := p.stdin, errNoStdin
	if toTTY {
		f, missing = p.l.tty, errNoTTY
	}
	over := p.end != nil
	p.mu.Unlock()
	if f == nil || over {
		return missing
	}
	_ = f.SetWriteDeadline(time.Time{})
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(late)
		_ = f.SetWriteDeadline(time.Now())
	})
	defer func() {
		if !stop() {
			<-late // else it would end the next one's write
		}
	}()
	if _, err := f.Write(b); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

// closeStdin lets the command read the end of its input.
func (p *proc) closeStdin() error {
	if p.l.tty != nil {
		return errTTYStdin
	}
	p.mu.Lock()
	f := p.stdin
	p.stdin = nil
	p.mu.Unlock()
	if f != nil {
		return f.Close()
	}
	return nil
}

// processes are a sandbox's commands by pid. The zero value is ready.
type processes struct {
	mu  sync.Mutex
	all map[int]*proc
}

func (ps *processes) add(p *proc) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all == nil {
		ps.all = make(map[int]*proc)
	}
	ps.all[p.pid] = p
}

// retire keeps an ended command for those who connect late, then drops it.
func (ps *processes) retire(p *proc) {
	time.AfterFunc(endKept, func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if ps.all[p.pid] == p { // the pid may be another's by now
			delete(ps.all, p.pid)
		}
	})
}

// forget drops all: their jail is gone.
func (ps *processes) forget() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.all = nil
}

// list is every command there is, the ended ones too.
func (ps *processes) list() []*proc {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	list := make([]*proc, 0, len(ps.all))
	for _, p := range ps.all {
		list = append(list, p)
	}
	return list
}
