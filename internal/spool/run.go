package spool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
)

// Errors of a run, beside those of package e2b.
var (
	// ErrVanished happens when the runner is gone without having recorded an
	// end: the sandbox killed it, or was started anew without its memory. What
	// the command did is not known.
	ErrVanished = errors.New("the command's runner vanished")
	// ErrNotBegun happens when the sandbox could not begin the run at all, for
	// instance because its disk is full or its /tmp read-only; what the sandbox says
	// of it follows. Joining again is safe.
	ErrNotBegun = errors.New("the run could not be begun: the sandbox's disk is full, or something is in the way")
	// ErrMismatch happens when what was read of an output is not what the
	// sandbox says the command wrote.
	ErrMismatch = errors.New("output differs from the spool")
	// ErrDamaged happens when the run's directory holds something else than the
	// runner has put there: the command has written to its own spools.
	ErrDamaged = errors.New("the command has damaged its own spools")
)

const (
	exitNotBegun = 3
	exitVanished = 4
)

// Run is one attempt of a job's command in one sandbox.
type Run struct {
	Box *e2b.Box
	// Name is unique in the sandbox; of letters, digits and . _ - only.
	Name string
	// User runs the command; empty is the sandbox's default user.
	User string
}

// Sink takes one output of a command.
type Sink struct {
	W io.Writer
	// Offset is how many bytes of the spool W has already.
	Offset int64
	// Hash has those bytes. Nil skips the check against the sandbox's sum.
	Hash hash.Hash
	// Prime, unless nil, is shown the bytes before Offset before W gets those after
	// it; Hash is empty then and gets them too.
	Prime func([]byte)

	primed int64 // bytes that were shown
}

var nameRegexp = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,250}$`)

// dir is the run's directory. The user is part of it because the directory
// belongs to who runs the command.
func (r Run) dir() string {
	user := r.User
	if user == "" {
		user = "default"
	}
	return "/tmp/.sandjet-" + user + "/" + r.Name
}

// Join starts the command if nobody has, follows it from the sinks' offsets,
// and returns when it has ended and every byte is in the sinks. It may be
// called again after any error, with the offsets reached, and by several
// callers at once: the command is started once.
//
// ctx ends the following, never the command. Besides the errors of this
// package it returns those of package e2b, and what a sink's writer returns.
func (r Run) Join(ctx context.Context, c Command, stdout, stderr *Sink) (Result, error) {
	if !nameRegexp.MatchString(r.Name) {
		return Result{}, fmt.Errorf("run %q: not a name", r.Name)
	}
	if err := r.putStdin(ctx, c.Stdin); err != nil {
		return Result{}, fmt.Errorf("run %s: stdin: %w", r.Name, err)
	}
	if err := r.putSecrets(ctx, c.Secrets); err != nil {
		return Result{}, fmt.Errorf("run %s: secrets: %w", r.Name, err)
	}
	if err := r.prime(ctx, "out", stdout); err != nil {
		return Result{}, fmt.Errorf("run %s: stdout: %w", r.Name, err)
	}
	if err := r.prime(ctx, "err", stderr); err != nil {
		return Result{}, fmt.Errorf("run %s: stderr: %w", r.Name, err)
	}
	followErr := r.follow(ctx, c, stdout, stderr)
	if err := errors.Join(stdoutErr(stdout), stdoutErr(stderr)); err != nil {
		return Result{}, err
	}
	var exit *e2b.ExitError
	switch {
	case followErr == nil:
	case errors.As(followErr, &exit) && exit.Code == exitNotBegun:
		return Result{}, fmt.Errorf("run %s: %w%s", r.Name, ErrNotBegun, r.why(ctx))
	case errors.As(followErr, &exit) && exit.Code == exitVanished:
		return Result{}, fmt.Errorf("run %s: %w", r.Name, ErrVanished)
	default:
		return Result{}, fmt.Errorf("follow run %s: %w", r.Name, followErr)
	}
	res, err := r.result(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("run %s: %w", r.Name, err)
	}
	if err := r.close(ctx, "out", stdout, res.Stdout); err != nil {
		return Result{}, fmt.Errorf("run %s: stdout: %w", r.Name, err)
	}
	if err := r.close(ctx, "err", stderr, res.Stderr); err != nil {
		return Result{}, fmt.Errorf("run %s: stderr: %w", r.Name, err)
	}
	return res, nil
}

// why asks the sandbox what keeps runs from beginning, for the end of an error.
func (r Run) why(ctx context.Context) string {
	out, err := r.sh(whyScript, path.Dir(r.dir())).Output(ctx)
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.300s", bytes.Join(bytes.Fields(out), []byte(" ")))
}

// prime shows a sink what stands before its offset, once; what a broken stream has
// left out is shown by the next call.
func (r Run) prime(ctx context.Context, name string, s *Sink) error {
	if s.Prime == nil {
		return nil
	}
	if s.primed < s.Offset {
		rc, _, err := r.Box.As(r.User).Open(ctx, r.dir()+"/"+name, s.primed)
		if err != nil {
			return damaged(err)
		}
		defer rc.Close()
		if err := readN(rc, s.Offset-s.primed, s.show); err != nil {
			return err
		}
	}
	s.Prime = nil
	return nil
}

func (s *Sink) show(p []byte) error {
	s.Prime(p)
	s.primed += int64(len(p))
	if s.Hash != nil {
		s.Hash.Write(p)
	}
	return nil
}

// follow runs the follow script; its output goes to the sinks.
func (r Run) follow(ctx context.Context, c Command, stdout, stderr *Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := r.sh(followScript, append([]string{
		runnerScript, r.dir(),
		strconv.FormatInt(stdout.Offset, 10), strconv.FormatInt(stderr.Offset, 10),
	}, c.args()...)...)
	cmd.Env = c.Env
	cmd.Stdout = &tail{sink: stdout, limit: c.Cap, fail: cancel}
	cmd.Stderr = &tail{sink: stderr, limit: c.Cap, fail: cancel}
	return cmd.Run(ctx)
}

func (r Run) sh(script string, args ...string) *e2b.Cmd {
	cmd := r.Box.As(r.User).Command("/bin/sh", append([]string{"-c", script, "sandjet"}, args...)...)
	return cmd
}

// tail is what the live tail writes to: bytes past the cap are not kept in the
// spool either.
type tail struct {
	sink  *Sink
	limit int64
	fail  func()
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if t.limit > 0 {
		p = p[:max(0, min(int64(len(p)), t.limit-t.sink.Offset))]
	}
	if err := t.sink.write(p); err != nil {
		t.fail()
		return 0, err
	}
	return n, nil
}

// sinkError marks an error as the sink's own, so that it is not taken for the
// sandbox's.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

func (s *Sink) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := s.W.Write(p)
	s.Offset += int64(n)
	if s.Hash != nil {
		s.Hash.Write(p[:n])
	}
	if err != nil {
		s.W = failed{&sinkError{err}}
		return &sinkError{err}
	}
	return nil
}

// failed is the writer of a sink that has failed once.
type failed struct{ err error }

func (f failed) Write([]byte) (int, error) { return 0, f.err }

func stdoutErr(s *Sink) error {
	if f, ok := s.W.(failed); ok {
		return f.err
	}
	return nil
}

// result reads the recorded end.
func (r Run) result(ctx context.Context) (Result, error) {
	rc, _, err := r.Box.As(r.User).Open(ctx, r.dir()+"/exit", 0)
	if err != nil {
		return Result{}, fmt.Errorf("exit record: %w", damaged(err))
	}
	defer rc.Close()
	return parseResult(rc)
}

// damaged marks the answer that what should be a file is something else.
func damaged(err error) error {
	if errors.Is(err, e2b.ErrInvalid) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// close brings a sink to the spool's recorded end and checks the sum.
func (r Run) close(ctx context.Context, name string, s *Sink, want Spool) error {
	if s.Offset < want.Size {
		rc, _, err := r.Box.As(r.User).Open(ctx, r.dir()+"/"+name, s.Offset)
		if err != nil {
			return damaged(err)
		}
		defer rc.Close()
		if err := readN(rc, want.Size-s.Offset, s.write); err != nil {
			return err
		}
	}
	// A process that the command left behind may have written on after the end
	// was recorded; then the recorded sum is of fewer bytes than were shown.
	if s.Hash == nil || want.SHA256 == "" || s.Offset != want.Size {
		return nil
	}
	if got := hex.EncodeToString(s.Hash.Sum(nil)); got != want.SHA256 {
		return fmt.Errorf("%w: %d bytes with sha256 %s, the sandbox has %s", ErrMismatch, s.Offset, got, want.SHA256)
	}
	return nil
}

// readN gives n bytes of r to f, piece by piece.
func readN(r io.Reader, n int64, f func([]byte) error) error {
	buf := make([]byte, 32<<10)
	for n > 0 {
		k, err := r.Read(buf[:min(int64(len(buf)), n)])
		if werr := f(buf[:k]); werr != nil {
			return werr
		}
		n -= int64(k)
		if err == io.EOF && n > 0 {
			return fmt.Errorf("%d bytes short: %w", n, io.ErrUnexpectedEOF)
		}
		if err != nil && n > 0 {
			return err
		}
	}
	return nil
}

// putStdin uploads what the command is to read, before the run exists. Once it
// exists the file is not touched: the command may be reading it.
func (r Run) putStdin(ctx context.Context, stdin []byte) error {
	if stdin == nil {
		return nil
	}
	box := r.Box.As(r.User)
	switch _, err := box.Stat(ctx, r.dir()); {
	case err == nil:
		return nil
	case !errors.Is(err, e2b.ErrNotFound):
		return err
	}
	return box.Write(ctx, r.dir()+".in", bytes.NewReader(stdin), e2b.WriteOptions{Size: int64(len(stdin))})
}

// Stop ends the command and all it left: TERM to its process group, KILL after
// the grace. A run that has not begun is kept from ever beginning. Safe to
// repeat; the first reason stays.
func (r Run) Stop(ctx context.Context, reason string, grace time.Duration) error {
	if err := r.sh(stopScript, r.dir(), reason, seconds(grace)).Run(ctx); err != nil {
		return fmt.Errorf("stop run %s: %w", r.Name, err)
	}
	return nil
}

// Clean takes the spools of an ended run away. Its directory stays for a while
// as a tombstone. Safe to repeat.
func (r Run) Clean(ctx context.Context) error {
	if err := r.sh(cleanScript, r.dir()).Run(ctx); err != nil {
		return fmt.Errorf("clean run %s: %w", r.Name, err)
	}
	return nil
}

// Live lists the runs that have not ended in a sandbox, of all users.
func Live(ctx context.Context, box *e2b.Box) ([]string, error) {
	var out bytes.Buffer
	cmd := box.Command("/bin/sh", "-c", liveScript, "sandjet")
	cmd.Stdout = &out
	if err := cmd.Run(ctx); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var names []string
	for _, dir := range strings.Fields(out.String()) {
		names = append(names, dir[strings.LastIndexByte(dir, '/')+1:])
	}
	return names, nil
}

// NewHash returns the hash that sums are made with.
func NewHash() hash.Hash { return sha256.New() }
