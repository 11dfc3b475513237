package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/git/github"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/secret"
)

// repoRun is a job's way through the steps of its repo block. Each step is told when
// it begins and when it is done, with all that the steps so far have made: who takes
// the job up does not do again what is done, and each step finds what an earlier try
// of its own has left.
type repoRun struct {
	*hold
	block  *jobs.Repo
	remote git.Remote
	user   string
	state  events.RepoState

	session known // of the sandbox; zero where none is needed any more
	box     *box
	found   bool // the server had the branch before
	plain   bool // the credential goes by file

	mu   sync.Mutex
	told time.Time // when progress was told last
	stir func()    // notes that git has said something; nil before the first operation
}

// order is the steps in their order.
var order = []string{
	events.StepClone, events.StepBranch, events.StepCommand, events.StepCommit, events.StepPush, events.StepPullRequest,
}

// repo reads the block and how far the job has come with it. What cannot work is
// refused before anything is done.
func (h *hold) repo(block *jobs.Repo, user string) (*repoRun, error) {
	remote, err := git.ParseURL(block.URL)
	if err != nil {
		return nil, &fault{class: jobs.ClassInvalid, pointer: "/repo/url", reason: err.Error()}
	}
	r := &repoRun{hold: h, block: block, remote: remote, user: user}
	if s := h.past.Step.Value.Repo; s != nil {
		r.state = *s
	}
	r.state.Branch = cmp.Or(r.state.Branch, block.Branch, git.BranchFor(h.d.ID))
	if err := r.conceal(); err != nil && !h.startedBefore() {
		return nil, err // before there is a sandbox for it
	}
	if block.PullRequest != nil {
		forge, err := r.forge()
		if err != nil {
			return nil, err
		}
		if forge == nil {
			return nil, &fault{class: jobs.ClassInvalid, pointer: "/repo/pull_request", reason: "the worker has no credential for pull requests: set GITHUB_TOKEN or GITHUB_APP_ID, or name a credential"}
		}
		if !forge.Serves(remote) {
			return nil, &fault{class: jobs.ClassInvalid, pointer: "/repo/pull_request", reason: fmt.Sprintf("pull requests are made on %s alone, for addresses of the form owner/repository", forge.Host())}
		}
	}
	return r, nil
}

// done reports whether a step was done, in whoever's hands.
func (r *repoRun) done(step string) bool {
	return r.state.Done != "" && slices.Index(order, step) <= slices.Index(order, r.state.Done)
}

// needsBox reports whether a step is to come that works in the sandbox.
func (r *repoRun) needsBox() bool {
	return !r.done(events.StepPush) && !r.state.Nothing
}

// in takes the sandbox to work in. What was made in another one is gone, unless it
// was pushed.
func (r *repoRun) in(k known, b *box) {
	if r.state.Generation != 0 && r.state.Generation != k.Generation {
		r.state = events.RepoState{Branch: r.state.Branch}
	}
	r.state.Generation, r.session, r.box = k.Generation, k, b
}

// step does a step unless it is done. do returns what to say of it.
func (r *repoRun) step(ctx context.Context, name string, do func(context.Context) (string, error)) error {
	if r.done(name) {
		return nil
	}
	if err := r.begun(name); err != nil {
		return err
	}
	if name != events.StepCommand { // which has its own way of being cancelled
		var cancel context.CancelFunc
		ctx, cancel = r.untilCancelled(ctx)
		defer cancel()
	}
	detail, err := do(ctx)
	if err != nil {
		return contextCause(ctx, r.explain(name, err))
	}
	r.state.Done = name
	return r.tellStep(name, events.StepDone, detail)
}

// begun tells that a step begins, unless the last holder has told it and nothing since.
func (r *repoRun) begun(name string) error {
	if s := r.past.Step.Value; s.Name == name && s.State == events.StepBegun && s.Repo != nil && *s.Repo == r.state {
		return nil
	}
	return r.tellStep(name, events.StepBegun, "")
}

func (r *repoRun) tellStep(name, state, detail string) error {
	s := r.state
	if err := r.claim.Publish(r.ctx, events.KindStep, events.Step{Name: name, State: state, Detail: detail, Repo: &s}); err != nil {
		return fmt.Errorf("tell step %s: %w", name, err)
	}
	return nil
}

// explain makes a server that is out of reach too long a reason to spend an attempt.
func (r *repoRun) explain(step string, err error) error {
	if !errors.Is(err, git.ErrUnavailable) {
		return err
	}
	r.unanswered = time.Now().UTC()
	if w := r.past.Waiting; w.Value.Why == events.WaitRemote && w.Seq > r.past.Step.Seq && !w.Value.Since.IsZero() {
		r.unanswered = w.Value.Since
	}
	if time.Since(r.unanswered) < r.w.git.cfg.Patience {
		return err
	}
	if step == events.StepPullRequest {
		return &fault{class: jobs.ClassTransport, err: err, reason: fmt.Sprintf(
			"no answer for %s: check GITHUB_API_URL, and whether the worker reaches it", r.w.git.cfg.Patience)}
	}
	return &fault{class: jobs.ClassTransport, pointer: "/repo/url", err: err, reason: fmt.Sprintf(
		"no answer from %s for %s: check the address, whether its name resolves, and whether the sandbox may reach it", r.remote.Host, r.w.git.cfg.Patience)}
}

// errSilent ends an operation over which git has said nothing for too long: nothing
// else bounds a server that takes a call and never answers.
var errSilent = &git.Error{Op: "ask the server", Kind: git.ErrUnavailable, Message: "it took the call, and nothing came for too long"}

// attend returns a context that also ends when git says nothing for too long.
func (r *repoRun) attend(ctx context.Context, a github.Access) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if a == offline {
		return ctx, func() { cancel(nil) }
	}
	t := time.AfterFunc(r.w.git.cfg.Patience, func() { cancel(errSilent) })
	r.mu.Lock()
	r.stir = func() { t.Reset(r.w.git.cfg.Patience) }
	r.mu.Unlock()
	return ctx, func() { t.Stop(); cancel(nil) }
}

// work is the job's work tree in the sandbox.
func (r *repoRun) work(c git.Credential) *git.Work {
	return &git.Work{
		Runner: gitBox{r.box.As(r.user)}, Dir: r.state.Dir, Desk: deskPrefix(r.user, r.d.Session) + fmt.Sprintf("%d.%s", r.session.Generation, r.d.ID),
		Remote: r.remote, Filter: r.block.Filter, Credential: c,
		Committer: r.w.git.cfg.Committer, SigningKey: r.w.git.cfg.SigningKey,
		Fence: r.claim.Token(), Tell: r.progress,
	}
}

// deskPrefix is how the desks of a session's jobs begin.
func deskPrefix(user, session string) string {
	return "/tmp/.sandjet-git-" + cmp.Or(user, "default") + "/" + session + "."
}

// offline is the access of what speaks to no server.
const offline github.Access = -1

// credential is what to ask the remote with: of the job's own choice, or the worker's.
func (r *repoRun) credential(ctx context.Context, a github.Access) (git.Credential, error) {
	switch {
	case a == offline:
		return git.Credential{}, nil
	case r.block.Credential == "":
		c, err := r.w.git.own(ctx, r.remote, a)
		return c, errors.Join(err, r.hide(c))
	}
	v, err := r.chosen()
	if err != nil {
		return git.Credential{}, err
	}
	return r.w.git.secret(r.remote, v), nil
}

// chosen is the value of the credential that the job names.
func (r *repoRun) chosen() (string, error) {
	values, err := r.reveal(map[string]string{"credential": r.block.Credential})
	var f *fault
	if errors.As(err, &f) {
		f.pointer, f.reason = "/repo/credential", "credential of the repository"
	}
	return values["credential"], err
}

// conceal has the credential masked that the job will work with, as far as it is known
// beforehand: also a successor that has no use for it any more masks what the command
// has written of it.
func (r *repoRun) conceal() error {
	if err := r.hide(git.Credential{Key: r.w.git.cfg.SigningKey}); err != nil {
		return err
	}
	if r.block.Credential != "" {
		_, err := r.chosen()
		return err
	}
	return r.hide(r.w.git.known(r.remote))
}

// hide has a credential masked.
func (r *repoRun) hide(c git.Credential) error {
	for _, s := range []string{c.Password, string(c.Key)} {
		if s == "" {
			continue
		}
		if err := r.masking.hide("git credential", secret.NewValue(s)); err != nil {
			return err
		}
	}
	return nil
}

func (r *repoRun) forge() (*github.Forge, error) {
	if r.block.Credential == "" {
		return r.w.git.forge(nil)
	}
	return r.w.git.forge(r.chosen)
}

// lender gives an operation its credential; back takes it away again.
type lender func(context.Context, git.Credential) (lent git.Credential, back func() error, err error)

// do does one operation of git's in the sandbox.
func (r *repoRun) do(ctx context.Context, a github.Access, op func(context.Context, *git.Work) error) error {
	return r.try(ctx, a, r.lend, op)
}

// try does an operation of git's: again if the way to the sandbox breaks off, once more
// with the credential in a file if the server does not take it otherwise, and once more
// with a new token if it does not take the first.
func (r *repoRun) try(ctx context.Context, a github.Access, lend lender, op func(context.Context, *git.Work) error) error {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval, pace.MaxElapsedTime = 200*time.Millisecond, 10*time.Second, 0
	begun, dropped := time.Now(), false
	for {
		c, err := r.credential(ctx, a)
		if err != nil {
			return err
		}
		lent, back, err := lend(ctx, c)
		if err != nil {
			return err
		}
		attended, leave := r.attend(ctx, a)
		err = op(attended, r.work(lent))
		silent := errors.Is(context.Cause(attended), errSilent)
		leave()
		notBack := back()
		switch {
		case err == nil:
			if r.plain {
				r.w.git.remember(r.session.Template)
			}
			return notBack
		case ctx.Err() != nil:
			r.halt()
			return context.Cause(ctx)
		case silent:
			r.halt()
			return errSilent
		case lent.Password != c.Password && barred(err):
			r.plain = true
			r.log.Info("the server did not take the credential by header: tried by file", "remote", r.remote.Address(), "err", err)
			continue
		case errors.Is(err, git.ErrAuth) && !dropped && c.Password != "" && r.block.Credential == "" && r.w.git.hub != nil && r.w.git.hub.Drop(c):
			dropped = true
			continue
		case !mendable(err) && !errors.Is(err, errHost) || time.Since(begun) > rejoinFor:
			return err
		}
		r.log.Warn("git broke off", "sandbox_id", r.session.SandboxID, "err", err)
		if err := sleep(ctx, pace.NextBackOff()); err != nil {
			return err
		}
		if err := r.mend(ctx, err); err != nil {
			return err
		}
	}
}

// mend has the sandbox ready again.
func (r *repoRun) mend(ctx context.Context, cause error) error {
	if err := r.still(ctx); err != nil {
		return err
	}
	if errors.Is(cause, e2b.ErrSandboxGone) {
		r.w.sessions.boxes.drop(r.d.Session) // the control plane knows what became of it
	}
	k, b, err := r.w.sessions.ready(ctx, &r.ask)
	switch {
	case errors.Is(err, e2b.ErrHeldBack):
		return nil
	case err != nil:
		return err
	case k.Generation != r.session.Generation:
		return faultf(jobs.ClassSandboxLost, "sandbox %s is gone: %v", r.session.SandboxID, cause)
	}
	r.session, r.box = k, b
	r.attach(k, b)
	return nil
}

// halt ends what still runs of an operation that was called off.
func (r *repoRun) halt() {
	ctx, done := r.w.parting(r.ctx)
	defer done()
	if err := r.work(git.Credential{}).Close(ctx); err != nil {
		r.log.Warn("git not stopped", "err", err)
	}
}

// clear takes the job's desk away, after its end.
func (r *repoRun) clear() {
	if r.d.Ephemeral || r.box == nil {
		return // the sandbox goes with all that is in it
	}
	w := r.work(git.Credential{})
	r.after = append(r.after, func(ctx context.Context) {
		if err := w.Close(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("git's desk not removed", "err", err)
		}
	})
}

// progressEvery is how often git's progress is told at most: more nobody reads.
const progressEvery = time.Second

// progress tells how far git is.
func (r *repoRun) progress(p git.Progress) {
	r.mu.Lock()
	r.stir()
	due := time.Since(r.told) >= progressEvery || p.Done && p.Total > 0
	if due {
		r.told = time.Now()
	}
	r.mu.Unlock()
	if !due {
		return
	}
	out := events.Progress{Message: saysProgress(p)}
	if p.Percent > 0 {
		out.Percent = float64(p.Percent)
	}
	r.say(out)
}

// say tells progress. What cannot be told is not worth more than a line in the log:
// a claim that was lost ends the job by itself.
func (r *repoRun) say(p events.Progress) {
	if err := r.claim.Publish(r.ctx, events.KindProgress, p); err != nil && r.ctx.Err() == nil {
		r.log.Warn("progress not told", "err", err)
	}
}

// saysProgress is git's progress for people.
func saysProgress(p git.Progress) string {
	var b strings.Builder
	if p.Remote {
		b.WriteString("remote: ")
	}
	b.WriteString(p.Phase)
	switch {
	case p.Total > 0:
		fmt.Fprintf(&b, ", %d of %d", p.Objects, p.Total)
	case p.Objects > 0:
		fmt.Fprintf(&b, ", %d", p.Objects)
	}
	if p.Bytes > 0 {
		b.WriteString(", " + sizeOf(p.Bytes))
	}
	if p.Rate > 0 {
		b.WriteString(" at " + sizeOf(p.Rate) + "/s")
	}
	return b.String()
}

func sizeOf(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// result adds what the steps have made to a job's end.
func (r *repoRun) result(out events.Outcome) events.Outcome {
	out.SandboxID = cmp.Or(out.SandboxID, r.session.SandboxID)
	if !r.state.Nothing && (r.done(events.StepCommit) || r.d.Kind == jobs.GitClone) {
		out.Commit = cmp.Or(r.state.Pushed, r.state.Commit)
		out.Branch = r.state.Branch
	}
	out.PullRequest = r.state.PullRequest
	return out
}
