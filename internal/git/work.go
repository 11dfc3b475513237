package git

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
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
	// It is made when needed; Close takes it away.
	Desk       string
	Remote     Remote
	Filter     string // as the repository was cloned
	Credential Credential
	Committer  Person
	// SigningKey is a private SSH key that signs the commits; nil signs none.
	SigningKey []byte
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
		Op: c.op, Text: c.text, Args: append([]string{w.Desk, proto, host}, c.args...),
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
	_, err := w.do(ctx, call{op: "clean", text: cleanScript, args: []string{"one"}})
	return err
}

// Sweep removes what scripts left that were killed before their end: the desks
// below root, and credentials. To be called before a sandbox is paused, and while
// no script runs in it.
func Sweep(ctx context.Context, r Runner, root string) error {
	w := &Work{Runner: r, Dir: "/nowhere", Desk: root, Remote: Remote{URL: "https://localhost/none"}}
	_, err := w.do(ctx, call{op: "sweep", text: cleanScript, args: []string{"all"}})
	return err
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
