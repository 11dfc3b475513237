package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/spool"
)

// grace is the time between TERM and KILL.
const grace = 5 * time.Second

// rejoinFor is how long a broken stream is mended in place while nothing new
// arrives. After that the job waits off the queue and joins again.
const rejoinFor = 2 * time.Minute

// task is one attempt of a command.
type task struct {
	*hold
	p       *jobs.Run
	cmd     spool.Command
	name    string   // of its run in the sandbox
	given   []string // names of the secrets that the command gets
	session known
	box     *box
	out     *output
	err     *output
	// announced: the attempt's start was told before, and the command was not.
	announced bool
}

// output is one of the command's outputs on its way to the event stream.
type output struct {
	*events.Output
	sink   spool.Sink
	masked *maskedStream // nil if the job has neither secrets nor a repository
}

// task runs the command, or joins it where it runs already.
func (h *hold) task(ctx context.Context) (events.Outcome, error) {
	p := h.d.Payload.(*jobs.Run)
	if p.Repo != nil {
		return h.repoTask(ctx)
	}
	t := &task{hold: h, p: p, cmd: h.command(p)}
	if _, err := h.reveal(p.Secrets); err != nil && !h.startedBefore() {
		return events.Outcome{}, err // before there is a sandbox for it
	}
	k, b, err := h.w.sessions.ready(ctx, &h.ask)
	if err != nil {
		return events.Outcome{}, err
	}
	if err := t.use(k, b); err != nil {
		return events.Outcome{}, err
	}
	return t.perform(ctx)
}

// perform runs the command in the sandbox that was taken for it.
func (t *task) perform(ctx context.Context) (events.Outcome, error) {
	if err := t.unseal(); err != nil {
		return events.Outcome{}, err
	}
	if err := t.clearWay(ctx); err != nil {
		return events.Outcome{}, err
	}
	if err := t.begin(); err != nil {
		return events.Outcome{}, err
	}
	t.running = true
	begun, joined := time.Now(), t.startedBefore() && !t.announced
	res, err := t.follow(ctx)
	if err == nil {
		err = errors.Join(t.out.flush(), t.err.flush())
	}
	// Also on the way out: what was read is told, the successor goes on from
	// there.
	closing, done := t.w.parting(t.ctx)
	defer done()
	if closeErr := errors.Join(t.out.Close(closing), t.err.Close(closing)); err == nil {
		err = closeErr
	}
	out := events.Outcome{SandboxID: t.session.SandboxID}
	if err == nil {
		out = t.outcome(res)
	}
	t.ran(begun, joined, out, err)
	if err == nil || errors.Is(err, spool.ErrVanished) || errors.Is(err, spool.ErrDamaged) {
		t.running = false
		t.tidy(t.run()) // nobody comes back to it
	}
	return out, err
}

func (h *hold) command(p *jobs.Run) spool.Command {
	argv := p.Argv
	if p.Shell != "" {
		argv = spool.Shell(p.Shell)
	}
	c := spool.Command{
		Argv: argv, Env: p.Env, Cwd: p.Cwd, User: p.User,
		Timeout: h.d.Timeout(), Silent: p.SilentTimeout.D(), Grace: grace, Cap: h.w.cfg.SpoolCap,
	}
	if p.Stdin != "" {
		c.Stdin = []byte(p.Stdin)
	}
	return c
}

// use takes the sandbox to work in. An attempt that began in another sandbox
// cannot go on: what it did is lost with that one.
func (t *task) use(k known, b *box) error {
	if t.startedBefore() && t.past.Started.Value.Generation != k.Generation {
		return faultf(jobs.ClassSandboxLost, "the attempt ran in sandbox %s, which is gone", t.past.Started.Value.SandboxID)
	}
	t.session, t.box = k, b
	t.name = t.runName(k.Generation, t.attempt)
	if point.Off(point.Join) {
		t.name += "." + randomID(6)
	}
	t.attach(k, b)
	return nil
}

// runName is how an attempt's run is called in a sandbox of the session's.
func (h *hold) runName(generation, attempt int) string {
	return fmt.Sprintf("%s.%d.%s.%d", h.d.Session, generation, h.d.ID, attempt)
}

// run is this attempt's place in the sandbox.
func (t *task) run() spool.Run {
	return spool.Run{Box: t.box.Box, Name: t.name, User: t.p.User}
}

// begin tells that the command starts, or is joined, and opens both outputs
// where the event stream left them.
func (t *task) begin() error {
	from := [2]int64{t.past.Stdout.Offset, t.past.Stderr.Offset}
	base := from
	if t.startedBefore() {
		base = [2]int64{t.past.Started.Value.StdoutOffset, t.past.Started.Value.StderrOffset}
	}
	if point.Off(point.Offsets) {
		from = base
	}
	var err error
	if t.out, err = t.open(events.Stdout, base[0], from[0]); err != nil {
		return err
	}
	if t.err, err = t.open(events.Stderr, base[1], from[1]); err != nil {
		return err
	}
	if t.announced {
		return nil
	}
	if t.startedBefore() {
		return t.claim.Publish(t.ctx, events.KindReattached, events.Reattached{
			Attempt: t.attempt, Worker: t.w.cfg.Name, SandboxID: t.session.SandboxID,
			StdoutOffset: from[0], StderrOffset: from[1],
		})
	}
	return t.started(events.Started{
		SandboxID: t.session.SandboxID, Generation: t.session.Generation, Argv: t.shown(), Cwd: t.p.Cwd,
		StdoutOffset: base[0], StderrOffset: base[1],
	})
}

// shown is the command as people gave it.
func (t *task) shown() []string {
	if t.p.Shell != "" {
		return []string{t.p.Shell}
	}
	return t.p.Argv
}

// open opens an output at an offset of the job's, base being where the
// attempt's own begins. What is in the stream already is read back, so that the
// sums are those of what subscribers got.
func (t *task) open(kind events.Kind, base, from int64) (*output, error) {
	whole, own, err := t.sums(kind, base, from)
	if err != nil {
		return nil, err
	}
	o := t.claim.Output(kind, from, events.OutputOptions{Hash: whole})
	if t.cmd.Secrets == nil && t.p.Repo == nil { // which has a credential
		return &output{Output: o, sink: spool.Sink{W: o, Offset: from - base, Hash: own}}, nil
	}
	// What the stream has is masked. The sandbox's sum is of the bytes as they are, and
	// what is masked next depends on them: they are read again.
	m := t.masking.stream(o)
	return &output{Output: o, masked: m, sink: spool.Sink{W: m, Offset: from - base, Hash: spool.NewHash(), Prime: m.Prime}}, nil
}

// flush passes on what masking has held back: the command has ended.
func (o *output) flush() error {
	if o.masked == nil {
		return nil
	}
	return o.masked.Flush()
}

// unseal finds the values of the job's secrets and of its session's. A command that
// runs already is followed without them, if it must be: then all of its output is
// masked.
func (t *task) unseal() error {
	refs := maps.Clone(t.session.Secrets)
	if refs == nil {
		refs = map[string]string{}
	}
	maps.Copy(refs, t.p.Secrets)
	if len(refs) == 0 {
		return nil
	}
	t.given = slices.Compact(slices.Sorted(maps.Values(refs)))
	t.cmd.Secrets = &spool.Secrets{Changed: t.blind}
	values, err := t.reveal(refs)
	switch {
	case err == nil:
		t.cmd.Secrets.Values = func() map[string]string { return values }
	case !t.startedBefore():
		return err
	default:
		t.log.Warn("secrets of a running command are not to be had: its output is masked", "err", err)
	}
	return nil
}

// blind has all output masked from here on.
func (t *task) blind() {
	t.log.Warn("the command was given other secrets than there are now: its output is masked")
	t.out.masked.blind.Store(true)
	t.err.masked.blind.Store(true)
}

// sums returns the hash of the whole output up to from, and of the attempt's
// part of it. One is nil if it cannot be told: the stream has let go of bytes, or
// the attempt's part begins in the middle of what was read back.
func (t *task) sums(kind events.Kind, base, from int64) (whole, own hash.Hash, err error) {
	whole, err = t.w.facts.Sum(t.ctx, t.key, kind, from)
	var gap *events.GapError
	if errors.As(err, &gap) {
		// The stream has let go of the beginning: the job goes on without sums.
		t.log.Warn("output cannot be summed", "kind", kind, "err", err)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read back %s: %w", kind, err)
	}
	switch {
	case base == from:
		return whole, spool.NewHash(), nil
	case base == 0:
		own, err := whole.(hash.Cloner).Clone()
		return whole, own, err
	}
	return whole, nil, nil
}

// follow joins the command until it has ended, mending what breaks on the way.
func (t *task) follow(ctx context.Context) (spool.Result, error) {
	stopped := t.stopOnWish(ctx)
	defer stopped()
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval, pace.MaxElapsedTime = 200*time.Millisecond, 10*time.Second, 0
	seen, since := t.read(), time.Now()
	for {
		res, err := t.join(ctx)
		if err == nil || ctx.Err() != nil || !mendable(err) {
			return res, t.explain(err)
		}
		if n := t.read(); n != seen {
			seen, since = n, time.Now()
			pace.Reset()
		}
		if errors.Is(err, e2b.ErrHeldBack) {
			since = time.Now() // nobody has asked the sandbox
		}
		if time.Since(since) > rejoinFor {
			return res, &fault{class: jobs.ClassUnavailable, after: 31 * time.Second, reason: "the command cannot be followed", err: err}
		}
		t.log.Warn("stream of a command broke", "sandbox_id", t.session.SandboxID, "err", err)
		if err := sleep(ctx, pace.NextBackOff()); err != nil {
			return res, err
		}
		if err := t.mend(ctx, err); err != nil {
			return res, err
		}
	}
}

var (
	// errAstray ends the following of a command whose sandbox is not what it was.
	errAstray = errors.New("the sandbox does not run any more")
	// errNotStored ends the following of a command whose output finds no place.
	errNotStored = errors.New("output is not stored")
)

// join follows the command until it ends, breaks off, its output cannot be stored, or the
// watch calls: a sandbox that died without a word leaves its streams open.
func (t *task) join(ctx context.Context) (spool.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	called := make(chan struct{})
	go func() {
		defer close(called)
		t.heed(ctx, cancel)
	}()
	res, err := t.run().Join(ctx, t.cmd, &t.out.sink, &t.err.sink)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errAstray) || errors.Is(cause, errNotStored)) {
		err = cause
	}
	cancel(nil)
	<-called
	return res, err
}

// heed waits for a call and then looks whether the command's sandbox still is
// the session's and runs. It stops what cannot be stored: a command that says no more
// would not find out.
func (t *task) heed(ctx context.Context, stop context.CancelCauseFunc) {
	bell, forget := t.w.wakes.listen(t.d.Session, t.d.ID)
	defer forget()
	for {
		select {
		case <-bell:
		case <-t.out.Failed():
			stop(fmt.Errorf("%w: %w", errNotStored, t.out.Err()))
			return
		case <-t.err.Failed():
			stop(fmt.Errorf("%w: %w", errNotStored, t.err.Err()))
			return
		case <-ctx.Done():
			return
		}
		k, err := t.w.sessions.read(ctx, t.d.Session)
		if err == nil && (k.State != session.Active || k.SandboxID != t.session.SandboxID) {
			stop(errAstray)
			return
		}
	}
}

func (t *task) read() int64 { return t.out.sink.Offset + t.err.sink.Offset }

// mendable reports whether the command may still run although following it
// failed. One that could not be begun does not: the next attempt may be luckier.
func mendable(err error) bool {
	for _, kind := range []error{e2b.ErrSandboxGone, e2b.ErrCut, e2b.ErrStalled, e2b.ErrUnavailable, e2b.ErrHeldBack, e2b.ErrBadAnswer, e2b.ErrRateLimited, e2b.ErrConflict, errAstray} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// mend asks the control plane what became of the sandbox and has it ready
// again. Without an answer the stream is just tried again.
func (t *task) mend(ctx context.Context, cause error) error {
	// Whoever was frozen learns here that the job is another's now: it must not
	// make a sandbox for a job that it does not hold.
	if _, err := t.claim.History(ctx); err != nil {
		return err
	}
	// The view may be what led here, and would lead the next job here too.
	k, err := t.w.sessions.reread(ctx, t.d.Session)
	if err != nil {
		return err
	}
	if k.State == session.Active {
		k, err = t.w.sessions.look(ctx, k)
		if err != nil && !errors.Is(err, errMoved) {
			t.log.Warn("sandbox not looked up", "sandbox_id", k.SandboxID, "err", err)
			return nil
		}
	}
	if k.State == session.Lost {
		t.w.sessions.boxes.drop(k.Session)
		return faultf(jobs.ClassSandboxLost, "sandbox %s is gone: %v", t.session.SandboxID, cause)
	}
	ready, b, err := t.w.sessions.ready(ctx, &t.ask)
	if errors.Is(err, e2b.ErrHeldBack) {
		return nil
	}
	if err != nil {
		return err
	}
	if ready.Generation != t.session.Generation {
		return faultf(jobs.ClassSandboxLost, "sandbox %s is gone: %v", t.session.SandboxID, cause)
	}
	t.session, t.box = ready, b
	t.attach(ready, b)
	return nil
}

// explain gives a foreign error of the command's start its field.
func (t *task) explain(err error) error {
	var api *e2b.Error
	if t.p.User != "" && errors.Is(err, e2b.ErrUnauthorized) && errors.As(err, &api) && api.Code == "unauthenticated" {
		return &fault{class: jobs.ClassInvalid, pointer: "/user", reason: fmt.Sprintf("the sandbox has no user %q", t.p.User), err: err}
	}
	return err
}

// stopOnWish ends the command when the job is cancelled, be it before or while
// it is followed. It goes on asking until the command is stopped.
func (t *task) stopOnWish(ctx context.Context) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-t.wish:
		case <-ctx.Done():
			return
		}
		stop := func() error {
			t.mu.Lock()
			run := spool.Run{Box: t.hold.box.Box, Name: t.name, User: t.p.User}
			t.mu.Unlock()
			return t.stop(ctx, run, t.session.SandboxID, spool.StopCancelled)
		}
		pace := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithMaxInterval(5*time.Second))
		_ = backoff.RetryNotify(stop, backoff.WithContext(pace, ctx), func(err error, _ time.Duration) {
			t.log.Warn("command not stopped yet", "err", err)
		})
	}()
	return func() { cancel(); <-finished }
}

// stop ends a run of the job's.
func (h *hold) stop(ctx context.Context, run spool.Run, sandbox, reason string) error {
	begun := time.Now()
	err := run.Stop(ctx, reason, grace)
	h.w.books.enter(h.by(audit.E2B, "stop", sandbox), nil, begun, err)
	return err
}

// clearWay ends the command of the attempt before this one, if that failed for another
// reason than its command's end: two attempts never run side by side.
func (t *task) clearWay(ctx context.Context) error {
	last := t.past.Started.Value
	if last.Attempt == 0 || last.Attempt >= t.attempt || last.Generation != t.session.Generation || jobs.Class(t.past.Retrying.Value.Class).OfCommand() {
		return nil
	}
	run := spool.Run{Box: t.box.Box, Name: t.runName(last.Generation, last.Attempt), User: t.p.User}
	return t.stop(ctx, run, t.session.SandboxID, spool.StopAbandoned)
}

// hush ends the command that a job leaves behind which ends without it: nobody comes
// to join it any more.
func (h *hold) hush(ctx context.Context, out events.Outcome) {
	if out.ExitCode != nil || !h.running && !h.lives() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.w.cfg.DrainTimeout/2) // the end is written after it
	defer cancel()
	began := cmp.Or(h.session.Generation, h.past.Started.Value.Generation)
	k, err := h.w.sessions.read(ctx, h.d.Session)
	if err == nil && (k.State != session.Active || k.Generation != began) {
		return // it went with its sandbox, or sleeps with it
	}
	var b *box
	if err == nil {
		b, err = h.w.sessions.open(ctx, k)
	}
	if err == nil {
		run := spool.Run{Box: b.Box, Name: h.runName(k.Generation, h.attempt), User: h.d.Payload.(*jobs.Run).User}
		err = h.stop(ctx, run, k.SandboxID, spool.StopAbandoned)
	}
	if err != nil {
		h.log.Warn("the job's command may run on", "sandbox_id", k.SandboxID, "err", err)
	}
}

// outcome says how the command ended.
func (t *task) outcome(res spool.Result) events.Outcome {
	out := events.Outcome{
		Class: string(jobs.ClassOK), ExitCode: &res.Code, Signal: res.Signal(), SandboxID: t.session.SandboxID,
		StdoutBytes: t.out.Offset(), StdoutSHA256: t.out.Sum(), StdoutDropped: res.Stdout.Dropped,
		StderrBytes: t.err.Offset(), StderrSHA256: t.err.Sum(), StderrDropped: res.Stderr.Dropped,
	}
	class, reason := jobs.ClassOK, ""
	switch {
	case res.Stop == spool.StopTimeout:
		class, reason = jobs.ClassCommandTimeout, fmt.Sprintf("ran longer than %s", t.cmd.Timeout)
	case res.Stop == spool.StopSilent:
		class, reason = jobs.ClassSilentTimeout, fmt.Sprintf("no output for %s", t.cmd.Silent)
	case res.Stop == spool.StopCancelled:
		class, reason = jobs.ClassCancelled, t.w.cancels.reason(t.key)
	case res.Stop == spool.StopCwd:
		class, reason = jobs.ClassInvalid, fmt.Sprintf("the sandbox has no directory %q", t.p.Cwd)
		out.Pointer, out.ExitCode, out.Signal = "/cwd", nil, ""
	case out.Signal != "":
		class, reason = jobs.ClassCommandFailed, "killed by "+out.Signal
	case res.Code != 0:
		class, reason = jobs.ClassCommandFailed, fmt.Sprintf("exit status %d", res.Code)
	}
	out.Class, out.Reason = string(class), reason
	return out
}

// tidy takes the run's spools away, after the job has ended.
func (h *hold) tidy(run spool.Run) {
	if h.d.Ephemeral {
		return // the sandbox goes with its spools
	}
	h.after = append(h.after, func(ctx context.Context) {
		if err := run.Clean(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("spools not removed", "run", run.Name, "err", err)
		}
	})
}
