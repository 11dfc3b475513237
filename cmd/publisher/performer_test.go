package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
)

// performer takes jobs off the queue and does them on this machine, below dir:
// real jobs, real claims, real events; only the sandbox is missing.
type performer struct {
	*deployment
	dir string

	mu      sync.Mutex
	running map[events.Job]context.CancelCauseFunc
	wishes  map[events.Job]events.CancelRequested
}

var errCancelled = errors.New("cancelled")

// perform starts one; it has stopped when cleanup is done.
func (d *deployment) perform(dir string, cleanup func(func())) error {
	p := &performer{
		deployment: d, dir: dir,
		running: map[events.Job]context.CancelCauseFunc{},
		wishes:  map[events.Job]events.CancelRequested{},
	}
	c, err := jobs.NewConsumer(d.queue, jobs.ConsumerConfig{Slots: 4})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := d.log.WatchCancels(ctx, p.wished); err != nil {
		cancel()
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx, p.handle)
	}()
	cleanup(func() {
		cancel()
		<-done
	})
	return nil
}

func (p *performer) wished(j events.Job, r events.CancelRequested) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wishes[j] = r
	if cancel := p.running[j]; cancel != nil {
		cancel(errCancelled)
	}
}

func (p *performer) begin(ctx context.Context, j events.Job) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[j] = cancel
	if _, wished := p.wishes[j]; wished {
		cancel(errCancelled)
	}
	return ctx
}

func (p *performer) handle(ctx context.Context, d *jobs.Delivery) {
	j := events.Job{Session: d.Session, ID: d.ID}
	c, err := p.log.Claim(ctx, j, events.Claimed{Worker: "test", Attempt: 1, StreamSeq: d.StreamSeq, Origin: d.Origin}, 0)
	if err == nil {
		kind, out := p.do(p.begin(ctx, j), c, d)
		out.Attempts = 1
		err = c.End(context.WithoutCancel(ctx), kind, out)
		c.Release()
	}
	if err == nil || errors.Is(err, events.ErrLost) {
		_ = d.Ack()
	}
}

func (p *performer) do(ctx context.Context, c *events.Claim, d *jobs.Delivery) (events.Kind, events.Outcome) {
	switch payload := d.Payload.(type) {
	case *jobs.Run:
		return p.run(ctx, c, payload)
	case *jobs.File:
		return closing(p.transfer(ctx, d.Kind, payload))
	case *jobs.Provision:
		return closing(p.put(ctx, session.Record{Session: d.Session, State: session.Active, SandboxID: "i1", Template: payload.Template, Owner: d.Owner}))
	case *jobs.Lifecycle:
		state := map[jobs.Kind]session.State{
			jobs.SandboxPause: session.Paused, jobs.SandboxResume: session.Active, jobs.SandboxDestroy: session.Destroyed,
		}[d.Kind]
		return closing(p.put(ctx, session.Record{Session: d.Session, State: state, SandboxID: "i1"}))
	}
	return events.Dead, events.Outcome{Class: string(jobs.ClassInvalid), Reason: "not performed"}
}

func closing(err error) (events.Kind, events.Outcome) {
	if err != nil {
		return events.Dead, events.Outcome{Class: string(jobs.ClassNotFound), Reason: err.Error()}
	}
	return events.Succeeded, events.Outcome{Class: string(jobs.ClassOK)}
}

func (p *performer) put(ctx context.Context, rec session.Record) error {
	_, prev, err := p.log.Session(ctx, rec.Session)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return err
	}
	rec.Generation = 1
	_, err = p.log.PutSession(ctx, rec, prev)
	return err
}

func (p *performer) transfer(ctx context.Context, kind jobs.Kind, f *jobs.File) error {
	b, err := p.js.ObjectStore(ctx, events.BucketArtifact)
	if err != nil {
		return err
	}
	name := filepath.Join(p.dir, f.Path)
	if kind == jobs.FileUpload {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return b.GetFile(ctx, f.Object, name)
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = b.Put(ctx, jetstream.ObjectMeta{Name: f.Object}, in)
	return err
}

func (p *performer) run(ctx context.Context, c *events.Claim, r *jobs.Run) (events.Kind, events.Outcome) {
	argv := r.Argv
	if r.Shell != "" {
		argv = []string{"sh", "-c", r.Shell}
	}
	if err := c.Publish(ctx, events.KindStarted, events.Started{Attempt: 1, Argv: argv}); err != nil {
		return events.Dead, events.Outcome{Class: string(jobs.ClassInternal), Reason: err.Error()}
	}
	stdout, stderr := c.Output(events.Stdout, 0, events.OutputOptions{}), c.Output(events.Stderr, 0, events.OutputOptions{})
	limit, stop := context.WithTimeout(ctx, r.Timeout.Or(jobs.DefaultTimeout))
	defer stop()
	cmd := exec.CommandContext(limit, argv[0], argv[1:]...)
	cmd.WaitDelay = patience // a child that it leaves may hold its output open
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.dir, strings.NewReader(r.Stdin), stdout, stderr
	for k, v := range r.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	err := cmd.Run()
	flush := context.WithoutCancel(ctx)
	err = errors.Join(err, stdout.Close(flush), stderr.Close(flush))

	kind, out := verdictOf(ctx, limit, err)
	out.StdoutBytes, out.StdoutSHA256 = stdout.Offset(), stdout.Sum()
	out.StderrBytes, out.StderrSHA256 = stderr.Offset(), stderr.Sum()
	return kind, out
}

func verdictOf(ctx, limit context.Context, err error) (events.Kind, events.Outcome) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return closing(nil)
	case errors.Is(context.Cause(ctx), errCancelled):
		return events.Cancelled, events.Outcome{Class: string(jobs.ClassCancelled), Reason: "somebody asked"}
	case limit.Err() != nil:
		return events.Failed, events.Outcome{Class: string(jobs.ClassCommandTimeout), Reason: "ran too long"}
	case errors.As(err, &exit):
		out := events.Outcome{Class: string(jobs.ClassCommandFailed)}
		code := exit.ExitCode()
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			code, out.Signal = 128+int(st.Signal()), "SIG"+strings.ToUpper(st.Signal().String())
			if st.Signal() == syscall.SIGKILL {
				out.Signal = "SIGKILL"
			}
		}
		out.ExitCode = &code
		return events.Failed, out
	}
	return events.Dead, events.Outcome{Class: string(jobs.ClassNotFound), Reason: err.Error()}
}
