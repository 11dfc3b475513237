package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/git"
)

// gitBox runs git's scripts in a sandbox, as the user of its handle.
type gitBox struct{ *e2b.Box }

// Run implements git.Runner. When ctx ends, or the stream breaks, the script may go on:
// the next one at its desk ends it.
func (b gitBox) Run(ctx context.Context, s git.Script) (git.Output, error) {
	out := &upTo{max: s.MaxOutput}
	cmd := b.Command("/bin/sh", append([]string{"-c", s.Text, "sandjet-git"}, s.Args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.Env, out, s.Stderr
	// The empty line is the end for the script, whether or not envd can close its input.
	cmd.Stdin = bytes.NewReader(append(bytes.Clone(s.Stdin), '\n'))
	err := cmd.Run(ctx)
	var exit *e2b.ExitError
	switch {
	case err == nil:
		return git.Output{Stdout: out.Bytes()}, nil
	case errors.As(err, &exit) && exit.Code > 0:
		return git.Output{Code: exit.Code, Stdout: out.Bytes()}, nil
	case errors.As(err, &exit):
		return git.Output{}, fmt.Errorf("script was ended (%s): %w", exit.Status, e2b.ErrCut)
	}
	return git.Output{}, err
}

// Open implements git.Runner.
func (b gitBox) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	rc, _, err := b.Box.Open(ctx, path, 0)
	return rc, err
}

// upTo is a buffer with a bound: what is written past it is an error.
type upTo struct {
	bytes.Buffer
	max int64
}

func (b *upTo) Write(p []byte) (int, error) {
	if int64(b.Len()+len(p)) > b.max {
		return 0, git.ErrOutput
	}
	return b.Buffer.Write(p)
}
