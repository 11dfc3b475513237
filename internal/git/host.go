package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// HostOptions say how a push is made from the worker's side.
type HostOptions struct {
	PushOptions
	// Began is the commit the work tree began at, as Clone said, from a record the
	// sandbox cannot change. Empty if the repository had none.
	Began string
	// Dir is a directory of the worker's that is the job's own for the time of the
	// call; it is emptied. Absolute, of plain characters.
	Dir string
	// Largest is how many bytes a bundle may have; 0 is any.
	Largest int64
}

// PushHost is Push without a credential in the sandbox: the commits come out as a
// bundle, are checked against a repository that has only what the server gave, and
// are pushed from there by host, usually a Local. What a bundle claims is checked
// by git's fsck; what it brings by the guard, as with Push.
func (w *Work) PushHost(ctx context.Context, host Runner, o HostOptions) (Pushed, error) {
	const op = "push from the host"
	if err := o.check(); err != nil {
		return Pushed{}, &Error{Op: op, Kind: ErrInvalid, Message: err.Error()}
	}
	if o.Began != "" && !IsCommitID(o.Began) {
		return Pushed{}, &Error{Op: op, Kind: ErrInvalid, Message: "where the work began is no commit id"}
	}
	if o.Began == o.Commit {
		o.Began = "" // an empty bundle is none; the server has it anyway
	}
	bundle := filepath.Join(o.Dir, "in.bundle")
	if err := w.takeOut(ctx, o, bundle); err != nil {
		return Pushed{}, err
	}
	defer os.Remove(bundle)
	there := &Work{
		Runner: host, Dir: filepath.Join(o.Dir, "none"), Desk: filepath.Join(o.Dir, "desk"), Remote: w.Remote,
		Credential: w.Credential, Committer: w.Committer, SigningKey: w.SigningKey, Tell: w.Tell,
	}
	defer func() { _ = there.Close(context.WithoutCancel(ctx)) }() // the directory is emptied at the next call, too
	if _, err := there.do(ctx, call{op: op, text: hostScript, online: true, args: []string{w.Remote.URL, o.Base, o.Began, bundle, o.Commit}}); err != nil {
		return Pushed{}, err
	}
	return there.push(ctx, o.PushOptions, false)
}

// takeOut makes a bundle in the sandbox and brings it here, within its limit.
func (w *Work) takeOut(ctx context.Context, o HostOptions, to string) error {
	const op = "bundle"
	out, err := w.run(ctx, call{op: op, text: bundleScript, args: []string{
		w.Dir, w.Remote.URL, w.Filter, o.Commit, o.Began, strconv.FormatInt(o.Largest, 10),
	}})
	if err != nil {
		return err
	}
	if out.code != 0 {
		e := classify(op, out.code, out.text)
		if e.Kind == ErrTooLarge {
			e.Message = fmt.Sprintf("a push of %s bytes: more than %d", out.fields["size"], o.Largest)
		}
		return e
	}
	r, err := w.Runner.Open(ctx, w.Desk+"/bundle")
	if err != nil {
		return &Error{Op: op, Err: fmt.Errorf("read bundle: %w", err)}
	}
	defer r.Close()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return &Error{Op: op, Err: err}
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return &Error{Op: op, Err: err}
	}
	// What the script said of the size is the sandbox's word.
	var in io.Reader = r
	if o.Largest > 0 {
		in = io.LimitReader(r, o.Largest+1)
	}
	n, err := io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		return &Error{Op: op, Err: fmt.Errorf("read bundle: %w", err)}
	}
	if o.Largest > 0 && n > o.Largest {
		return &Error{Op: op, Kind: ErrTooLarge, Message: fmt.Sprintf("a push of more than %d bytes", o.Largest)}
	}
	return nil
}
