package worker

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/secret"
	"github.com/sandjet/sandjet/internal/session"
)

// A token is safest where the sandbox never has it. E2B can put a header into the
// requests of a sandbox to one host, on their way out: for as long as git speaks to the
// server it puts in the credential. Nobody in the sandbox can read it then; what runs
// there can use it, against that host, while the window is open.
//
// Not every server that speaks E2B's protocol does what its rules say, and a template
// may not trust the certificate that E2B shows in the server's place. So when the server
// refuses us through the window, the operation is done once more with the credential in
// a file; if that helps, the template's sandboxes get files from then on.
//
// A worker may die over an open window. The step that opened it has been told by then:
// its successor does it again, which closes the window, or ends the job, and closes it
// first.

// Where a sandbox gets a token for a git server.
const (
	CredentialAuto = "auto" // by a header, and where that does not work in a file
	CredentialFile = "file" // in a file, for as long as the operation takes
)

// lend lends an operation in the sandbox its credential. back takes it away again, and
// must be called.
func (r *repoRun) lend(ctx context.Context, c git.Credential) (lent git.Credential, back func() error, err error) {
	if !r.byHeader(c) {
		return c, kept, nil
	}
	value := "Basic " + base64.StdEncoding.EncodeToString([]byte(c.User()+":"+c.Password))
	if err := r.masking.hide("git credential", secret.NewValue(value)); err != nil {
		return c, kept, err
	}
	if err := r.still(ctx); err != nil {
		return c, kept, err
	}
	host := r.hostname()
	rules := map[string][]e2b.NetworkRule{host: {{Transform: e2b.NetworkTransform{Headers: map[string]string{"Authorization": value}}}}}
	r.window = opened
	switch err := r.rule(ctx, "egress_rule.set", r.session, rules); {
	case errors.Is(err, e2b.ErrInvalid), errors.Is(err, e2b.ErrUnsupported):
		r.log.Info("E2B takes no header rule", "sandbox_id", r.session.SandboxID, "err", err)
		r.window = closed
		r.w.git.remember(r.session.Template)
		return c, kept, nil
	case err != nil:
		// It may have come through, or come through later: the end looks again.
		err = errors.Join(err, r.unlend(ctx))
		r.window = opened
		return c, kept, err
	}
	return git.Credential{}, func() error { return r.unlend(ctx) }, nil
}

// kept is how a credential is taken back that was not lent.
func kept() error { return nil }

// keep lends nothing: what the worker does on its own machine has the credential there.
func keep(_ context.Context, c git.Credential) (git.Credential, func() error, error) {
	return c, kept, nil
}

// byHeader reports whether the credential goes by header. A session's rules are one
// set, so only who is alone in it may change them.
func (r *repoRun) byHeader(c git.Credential) bool {
	_, plain := r.w.git.plain.Load(r.session.Template)
	return r.w.git.cfg.Credential != CredentialFile && c.Password != "" && r.remote.Scheme != "ssh" &&
		r.d.Exclusive() && !plain && !r.plain
}

// barred reports whether an operation failed in a way that a window which does not work
// explains.
func barred(err error) bool {
	return errors.Is(err, git.ErrAuth) || errors.Is(err, git.ErrNotFound) ||
		errors.Is(err, git.ErrUnavailable) && strings.Contains(err.Error(), "certificate")
}

// hostname is the server's name, as rules know it.
func (r *repoRun) hostname() string { return (&url.URL{Host: r.remote.Host}).Hostname() }

// unlend closes the window, unless the job is in other hands: they have closed it, or
// work through it. It takes its time: nothing else closes it.
func (r *repoRun) unlend(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), events.ErrLost) {
		return nil
	}
	ctx, done := r.w.parting(r.ctx)
	defer done()
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxElapsedTime = 100*time.Millisecond, 0
	err := backoff.Retry(func() error {
		err := r.rule(ctx, "egress_rule.clear", r.session, nil)
		if final(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(pace, ctx))
	if err != nil && !errors.Is(err, e2b.ErrNotFound) { // without a sandbox there is no window
		return err
	}
	r.window = closed
	return nil
}

// final reports whether E2B would give the same answer again.
func final(err error) bool {
	for _, kind := range []error{e2b.ErrNotFound, e2b.ErrInvalid, e2b.ErrUnauthorized, e2b.ErrForbidden} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// rule sets a sandbox's egress rules, beside what its session may reach.
func (h *hold) rule(ctx context.Context, action string, k known, rules map[string][]e2b.NetworkRule) error {
	update := e2b.NetworkUpdate{Rules: rules}
	if n := k.Network; n != nil {
		update.AllowOut, update.DenyOut, update.AllowInternet = n.AllowOut, n.DenyOut, n.AllowInternet
	}
	target := k.SandboxID
	for host := range rules {
		target += ":" + host
	}
	begun := time.Now()
	err := h.w.sessions.e2b.SetNetwork(ctx, k.SandboxID, update)
	h.w.books.enter(h.by(audit.E2B, action, target), nil, begun, err)
	return err
}

// window is whether requests to the git server carry the credential, as far as this
// holder of the job knows.
type window int

const (
	untouched window = iota
	opened
	closed
)

// shut closes a window at a job's end, which the last holder may have left open, or
// which could not be closed when it should have been.
func (h *hold) shut(ctx context.Context) {
	step := h.past.Step.Value
	left := h.window == untouched && step.State == events.StepBegun && (step.Name == events.StepClone || step.Name == events.StepPush)
	if h.w.git.cfg.Credential == CredentialFile || !h.d.Exclusive() || !left && h.window != opened {
		return
	}
	if errors.Is(h.claim.Check(ctx), events.ErrLost) {
		return
	}
	k, err := h.w.sessions.read(ctx, h.d.Session)
	if err == nil && k.State == session.Active {
		err = h.rule(ctx, "egress_rule.clear", k, nil)
	}
	if err != nil && !errors.Is(err, e2b.ErrNotFound) {
		h.log.Warn("the sandbox's requests to the git server may still carry the credential", "sandbox_id", k.SandboxID, "err", err)
	}
}
