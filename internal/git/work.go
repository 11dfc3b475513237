package git

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Work is one job's work tree in a sandbox, and what is needed to bring it there
// and to bring its changes back. Its fields are not changed after the first call;
// its methods run one at a time.
type Work struct {
	Runner Runner
	Dir    string // the work tree: absolute
	// Desk is a directory of the job's own outside Dir, in which nothing is kept
	// that is not also elsewhere: absolute, of letters, digits and . _ - /.
	// It is made when needed; Close takes it away. Its last part tells jobs apart:
	// their credentials in memory are named by it.
	Desk       string
	Remote     Remote
	Filter     string // as the repository was cloned
	Credential Credential
	Committer  Person
	// SigningKey is a private SSH key that signs the commits; nil signs none.
	SigningKey []byte
	// Fence is what tells who holds the job from who held it before: it grows.
	// Whoever runs a script ends one of an older fence, or of its own, that still
	// runs at the desk, and is an ErrOverruled once a younger one was there.
	Fence uint64
	// Tell hears of git's progress, from another goroutine of the runner's; nil
	// is nobody.
	Tell func(Progress)
}

var deskRegexp = regexp.MustCompile(`^/[A-Za-z0-9._/-]+$`)

func (w *Work) check() error {
	switch {
	case w.Runner == nil:
		return errors.New("no runner")
	case !path.IsAbs(w.Dir) || path.Clean(w.Dir) != w.Dir || w.Dir == "/" || strings.ContainsAny(w.Dir, "\n\x00"):
		return fmt.Errorf("work tree %q is not an absolute, clean path", w.Dir)
	case !deskRegexp.MatchString(w.Desk) || path.Clean(w.Desk) != w.Desk || w.Desk == "/":
		return fmt.Errorf("desk %q is not an absolute, clean path of plain characters", w.Desk)
	case w.Desk == w.Dir || strings.HasPrefix(w.Desk, w.Dir+"/") || strings.HasPrefix(w.Dir, w.Desk+"/"):
		return errors.New("desk and work tree are one within the other")
	}
	if _, err := ParseURL(w.Remote.URL); err != nil {
		return err
	}
	if w.Filter != "" && !filterRegexp.MatchString(w.Filter) {
		return fmt.Errorf("filter %q is none", w.Filter)
	}
	return nil
}

// call is one script to run.
type call struct {
	op, text string
	online   bool // git may speak to the remote, with the credential
	payload  payload
	env      map[string]string
	args     []string
}

// said is what a script said, beside its reply.
type outcome struct {
	reply
	code int
	text string // standard error without progress
}

// run runs a script to its end, whatever its exit code.
func (w *Work) run(ctx context.Context, c call) (outcome, error) {
	if err := w.check(); err != nil {
		return outcome{}, &Error{Op: c.op, Kind: ErrInvalid, Message: err.Error()}
	}
	proto, host := "none", ""
	if c.online {
		if err := w.Credential.check(w.Remote); err != nil {
			return outcome{}, &Error{Op: c.op, Kind: ErrAuth, Message: err.Error()}
		}
		var p payload
		p, host = w.Credential.payload(w.Remote)
		c.payload = append(p, c.payload...)
		proto = w.Remote.Scheme
	}
	stderr := &progressWriter{tell: w.Tell}
	out, err := w.Runner.Run(ctx, Script{
		Op: c.op, Text: c.text, Args: append([]string{w.Desk, proto, host, strconv.FormatUint(w.Fence, 10)}, c.args...),
		Env: c.env, Stdin: c.payload.bytes(), Stderr: stderr, MaxOutput: maxOutput,
	})
	if err != nil {
		return outcome{}, &Error{Op: c.op, Err: err}
	}
	o := outcome{code: out.Code, text: w.Credential.scrub(stderr.String())}
	o.reply, err = parseReply(out.Stdout)
	if err != nil && out.Code == 0 {
		return o, &Error{Op: c.op, Err: err}
	}
	return o, nil
}

// do is run, with every exit code but 0 made an error.
func (w *Work) do(ctx context.Context, c call) (outcome, error) {
	o, err := w.run(ctx, c)
	if err == nil && o.code != 0 {
		err = classify(c.op, o.code, o.text)
	}
	return o, err
}

// Close takes the desk away. Safe to repeat.
func (w *Work) Close(ctx context.Context) error {
	_, err := w.do(ctx, call{op: "clean", text: cleanScript})
	return err
}

// Tree is what is checked out in a work tree, by its own word.
type Tree struct {
	Head    string // commit; empty if the repository has none
	Branch  string // empty if it is detached
	Base    string // the commit that it was cloned at; empty if not known
	Default string // the repository's default branch, if it said one
}

// Look tells what the work tree is. It is an ErrNotFound if there is none at Dir, and
// an ErrExists if it is of another repository.
func (w *Work) Look(ctx context.Context) (Tree, error) {
	const op = "look"
	out, err := w.do(ctx, call{op: op, text: lookScript, args: []string{w.Dir, w.Remote.URL}})
	if err != nil {
		return Tree{}, err
	}
	t := Tree{Branch: out.fields["branch"], Default: out.fields["default"]}
	if t.Head, err = out.commit("head"); err != nil {
		return Tree{}, &Error{Op: op, Err: err}
	}
	if t.Base, err = out.commit("base"); err != nil {
		t.Base = "" // somebody has written to the repository's configuration
	}
	for _, b := range []*string{&t.Branch, &t.Default} {
		if CheckBranch(*b) != nil {
			*b = ""
		}
	}
	return t, nil
}

// identity names the author and the committer of a commit to be.
func (w *Work) identity(author Person) map[string]string {
	if author == (Person{}) {
		author = w.Committer
	}
	return map[string]string{
		"SANDJET_AUTHOR_NAME": author.Name, "SANDJET_AUTHOR_EMAIL": author.Email,
		"SANDJET_COMMITTER_NAME": w.Committer.Name, "SANDJET_COMMITTER_EMAIL": w.Committer.Email,
	}
}

// sign adds the key to sign with.
func (w *Work) sign(p *payload) {
	if len(w.SigningKey) > 0 {
		p.add("sign", strings.TrimRight(string(w.SigningKey), "\r\n")+"\n")
	}
}
