package git

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// PushOptions say what to push where.
type PushOptions struct {
	Commit string
	Branch string
	Base   string // the branch it will be merged into; empty is the default branch
	Guard  Guard
	// Tries is how often to catch up with a branch that moves; 0 is 5.
	Tries int
}

// Pushed is what the server has.
type Pushed struct {
	// Commit is what the branch points to: the commit asked for, its like on top
	// of what others had pushed, or theirs if they have all of it.
	Commit string
	// There reports whether the server had it before: nothing was sent.
	There bool
	// Rebased reports whether the branch had moved and the commits were put on
	// top of it.
	Rebased bool
	// New reports whether the branch was made.
	New bool
	// Base is the branch it will be merged into, if one is known.
	Base    string
	Changes Changes // what the branch brings over its base
	// Words are what the server said, if anything.
	Words string
}

const defaultTries = 5

// Push brings a commit to the server's branch. It may be repeated: what the server
// has is not sent again. If the branch has moved, the commits are put on top of it,
// as often as o.Tries says.
//
// Before anything is sent, what it brings over the server's branch and base is
// checked by o.Guard, every commit of it; the error then is an ErrGuarded or
// ErrTooLarge with Findings. A conflict is an ErrConflict with Paths; a hook or a
// rule of the server is an ErrRejected with its words.
func (w *Work) Push(ctx context.Context, o PushOptions) (Pushed, error) {
	return w.push(ctx, o, true)
}

// push is Push; fresh says whether to begin with a new desk.
func (w *Work) push(ctx context.Context, o PushOptions, fresh bool) (Pushed, error) {
	const op = "push"
	if err := o.check(); err != nil {
		return Pushed{}, &Error{Op: op, Kind: ErrInvalid, Message: err.Error()}
	}
	tries := o.Tries
	if tries <= 0 {
		tries = defaultTries
	}
	var res Pushed
	for try := range tries {
		ahead, err := w.catchUp(ctx, o, fresh, &res)
		if err != nil || !ahead {
			return res, err
		}
		fresh, o.Commit = false, res.Commit
		moved, err := w.send(ctx, o, &res)
		if err != nil || !moved {
			return res, err
		}
		if err := nap(ctx, try); err != nil {
			return res, &Error{Op: op, Err: err}
		}
	}
	return res, &Error{Op: op, Kind: ErrMoved, Message: "caught up with branch " + o.Branch + " several times, and it had moved again"}
}

func (o PushOptions) check() error {
	if err := CheckBranch(o.Branch); err != nil {
		return problem("/branch", "%s", err)
	}
	if o.Base != "" {
		if err := CheckBranch(o.Base); err != nil {
			return problem("/pull_request/base", "%s", err)
		}
	}
	if !IsCommitID(o.Commit) {
		return errors.New("no commit to push")
	}
	return nil
}

// catchUp looks at the server and puts our commits on top of its branch. It
// reports whether there is something to send.
func (w *Work) catchUp(ctx context.Context, o PushOptions, fresh bool, res *Pushed) (ahead bool, err error) {
	const op = "push"
	c := call{op: op, text: fetchScript, online: true, env: w.identity(Person{}), args: []string{
		w.Dir, w.Remote.URL, w.Filter, flag(fresh), o.Branch, o.Base, o.Commit,
	}}
	w.sign(&c.payload)
	out, err := w.run(ctx, c)
	if err != nil {
		return false, err
	}
	if out.code != 0 {
		e := classify(op, out.code, out.text)
		if e.Kind == ErrConflict {
			e.Paths = out.paths("conflict")
			e.Message = "branch " + o.Branch + " has moved, and the same lines were changed on both sides"
		}
		return false, e
	}
	if res.Commit, err = out.commit("tip"); err != nil || res.Commit == "" {
		return false, &Error{Op: op, Err: errReply}
	}
	res.New = out.fields["theirs"] == ""
	res.Rebased = res.Rebased || out.fields["rebased"] == "1"
	if res.Base = out.fields["base"]; CheckBranch(res.Base) != nil {
		res.Base = ""
	}
	h, err := readHistory(out.reply)
	if err != nil {
		return false, &Error{Op: op, Err: err}
	}
	res.Changes = h.Changes
	if out.fields["state"] == "there" {
		res.There = true
		return false, nil
	}
	if findings, large := o.Guard.check(h); len(findings) > 0 {
		kind := ErrGuarded
		if large {
			kind = ErrTooLarge
		}
		return false, &Error{Op: op, Kind: kind, Findings: findings}
	}
	return true, nil
}

// send moves the branch to res.Commit. It reports whether somebody else moved it
// first.
func (w *Work) send(ctx context.Context, o PushOptions, res *Pushed) (moved bool, err error) {
	const op = "push"
	out, err := w.run(ctx, call{op: op, text: pushScript, online: true, args: []string{o.Branch, res.Commit}})
	if err != nil {
		return false, err
	}
	res.Words = remoteWords(out.text)
	r, found := parsePorcelain(string(out.sections["porcelain"]), "refs/heads/"+o.Branch)
	switch {
	case found && r.done():
		return false, nil
	case found && r.moved():
		return true, nil
	case found:
		return false, r.err(op, out)
	case out.code != 0:
		return false, classify(op, out.code, out.text)
	}
	return false, &Error{Op: op, Err: errReply}
}

// refResult is one line of git push --porcelain.
type refResult struct {
	flag    byte
	summary string
}

// parsePorcelain finds the line of a ref: flag, tab, from:to, tab, summary.
func parsePorcelain(text, ref string) (refResult, bool) {
	for _, l := range strings.Split(text, "\n") {
		f := strings.SplitN(l, "\t", 3)
		if len(f) == 3 && len(f[0]) == 1 && strings.HasSuffix(f[1], ":"+ref) {
			return refResult{flag: f[0][0], summary: strings.TrimSpace(f[2])}, true
		}
	}
	return refResult{}, false
}

func (r refResult) done() bool { return strings.IndexByte(" *=", r.flag) >= 0 }

// moved reports whether the branch was somewhere else than we had seen.
func (r refResult) moved() bool {
	if r.flag != '!' {
		return false
	}
	for _, s := range []string{"fetch first", "non-fast-forward", "stale info", "cannot lock ref", "failed to update ref", "reference already exists", "incorrect old value provided", "failed to lock"} {
		if strings.Contains(r.summary, s) {
			return true
		}
	}
	return false
}

// err is what a refusal means: the server's hook or rule, unless its words say
// something narrower.
func (r refResult) err(op string, out outcome) *Error {
	e := classify(op, out.code, out.text)
	switch e.Kind {
	case ErrTooLarge, ErrForbidden, ErrNoSpace, ErrRateLimited:
		return e
	}
	e.Kind = ErrRejected
	e.Message = printable(r.summary)
	if words := remoteWords(out.text); words != "" {
		e.Message += ": " + words
	}
	return e
}

// nap waits a little, so that those who push to one branch do not do it in step.
func nap(ctx context.Context, try int) error {
	t := time.NewTimer(time.Duration(50+rand.IntN(200*(try+1))) * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
