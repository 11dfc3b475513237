package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/sandjet/sandjet/internal/point"
)

// Script is a POSIX shell script that a Runner runs as
//
//	/bin/sh -c <Text> sandjet-git <Args...>
type Script struct {
	Op   string // what it does, for people: "clone", "push"
	Text string
	Args []string
	Env  map[string]string // on top of the runner's own; nothing secret
	// Stdin is what the script reads. Secrets come this way and no other: the
	// runner must not log it, and not keep it where it outlives the script.
	Stdin []byte
	// Stderr takes git's progress while the script runs; it is never nil.
	Stderr io.Writer
	// MaxOutput is how many bytes of standard output are wanted at most; more is
	// an error of the runner.
	MaxOutput int64
}

// Output is what became of a script.
type Output struct {
	Code   int // the exit code
	Stdout []byte
}

// Runner runs scripts where the repository is, as the user who owns it. In
// production it is a sandbox. It may be used concurrently.
type Runner interface {
	// Run runs the script to its end. A non-zero exit is no error. An error
	// means that how the script ended is not known, or that it never began.
	Run(context.Context, Script) (Output, error)
	// Open reads a file that a script left, which is Work.Desk and below.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
}

// Local runs scripts on this machine: the worker's side of a push from the host,
// and tests. The zero value is ready.
type Local struct {
	Shell []string // what runs the text; nil is /bin/sh -c
	Env   []string // nil is PATH alone
}

// ErrOutput happens when a script prints more than was wanted.
var ErrOutput = errors.New("more output than wanted")

// Run implements Runner. A cancelled context ends the script and its children by
// TERM, then KILL.
func (l Local) Run(ctx context.Context, s Script) (Output, error) {
	shell := l.Shell
	if shell == nil {
		shell = []string{"/bin/sh", "-c"}
	}
	cmd := exec.CommandContext(ctx, shell[0], append(append(append([]string(nil), shell[1:]...), s.Text, "sandjet-git"), s.Args...)...)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, l.Env...)
	for k, v := range s.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Dir = "/"
	out := &limited{max: s.MaxOutput}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(s.Stdin), out, s.Stderr
	ownGroup(cmd)
	cmd.WaitDelay = 10 * time.Second
	err := l.run(ctx, cmd)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Output{}, fmt.Errorf("run %s: %w", s.Op, context.Cause(ctx))
	case out.over:
		return Output{}, fmt.Errorf("run %s: %w", s.Op, ErrOutput)
	case errors.As(err, &exit):
		return Output{Code: exit.ExitCode(), Stdout: out.buf.Bytes()}, nil
	case err != nil:
		return Output{}, fmt.Errorf("run %s: %w", s.Op, err)
	}
	return Output{Stdout: out.buf.Bytes()}, nil
}

// run runs a script's shell. What it has pushed may be there although its answer is
// lost.
func (l Local) run(ctx context.Context, cmd *exec.Cmd) error {
	at := point.Of("git", "script")
	if err := point.Before(ctx, at); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return err
	}
	return point.After(ctx, at)
}

// Open implements Runner.
func (l Local) Open(_ context.Context, path string) (io.ReadCloser, error) {
	return os.Open(path)
}

// limited keeps up to max bytes; the rest is counted as too much.
type limited struct {
	buf  bytes.Buffer
	max  int64
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(l.buf.Len()+len(p)) > l.max {
		l.over = true
		return len(p), nil
	}
	return l.buf.Write(p)
}
