package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/store"
)

// hold is one job in this worker's hands, from its delivery to its end or to
// where it is let go.
type hold struct {
	w        *Worker
	d        *jobs.Delivery
	key      events.Job
	log      *slog.Logger
	masking  masking
	entry    store.Entry
	ask      asker
	delivery string // who holds it, without the claim

	ctx    context.Context
	cancel context.CancelCauseFunc
	// wish is closed when somebody asks that the job end.
	wish     chan struct{}
	wishOnce sync.Once

	claim   *events.Claim
	past    events.History // what the log held when the claim was taken
	attempt int
	begun   time.Time
	entered bool   // in its lane, in Redis
	ahead   int    // sessions before this one in the line for a slot
	why     string // the word of a waiting event; empty is by the class
	between bool   // at a step of a repo block at which no command runs
	window  window // of a credential for git, in E2B's rules
	running bool   // the command was begun or joined here, and has not been seen to end
	// unanswered is from when on a server out of reach has not answered.
	unanswered time.Time

	mu      sync.Mutex
	session known // what the beat keeps awake
	box     *box
	pushing *store.Entry            // its place among those who push to a branch
	after   []func(context.Context) // what is cleared up after the end
}

func (w *Worker) newHold(ctx context.Context, d *jobs.Delivery) *hold {
	h := &hold{
		w:   w,
		d:   d,
		key: events.Job{Session: d.Session, ID: d.ID},
		log: w.log.With("job_id", d.ID, "session_id", d.Session, "kind", d.Kind),
		entry: store.Entry{
			Session: d.Session, Job: d.ID, Origin: d.Origin, Exclusive: d.Exclusive(), Vouched: vouched(d.Job),
		},
		delivery: w.cfg.Name + "/" + d.Stream + "." + strconv.FormatUint(d.StreamSeq, 10) + "." + strconv.Itoa(d.Delivered),
		wish:     make(chan struct{}),
		begun:    time.Now(),
	}
	h.ask = asker{session: d.Session, job: d.ID, origin: d.Origin, owner: d.Owner, vouched: vouched(d.Job), kind: d.Kind, ephemeral: d.Ephemeral, holds: h.still}
	h.masking.known = w.known
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	return h
}

// handle takes one delivered job as far as it goes.
func (w *Worker) handle(ctx context.Context, d *jobs.Delivery) {
	h := w.newHold(ctx, d)
	defer h.masking.forget()
	defer h.cancel(nil)
	defer w.holds.add(h)()
	defer w.wheel.Add(w.beatEvery(), h.beat)()

	err := h.acquire()
	for err == nil {
		var out events.Outcome
		out, err = h.guard()
		again, settleErr := h.settle(out, err)
		if settleErr != nil || !again {
			h.report(settleErr)
			return
		}
		err = h.reclaim()
	}
	h.report(h.decline(err))
}

// Why a delivered job is not taken up.
var (
	errEnded     = errors.New("job has ended")
	errDuplicate = errors.New("job was published before")
	errStale     = errors.New("job has moved on to a younger message")
	errOutrun    = errors.New("the message was delivered again since")
	errTaken     = errors.New("another owner's job has the id")
	errCopied    = errors.New("an older message of the job is being worked on")
)

// acquire takes the claim. A job seen for the first time needs no look at its
// log: the server refuses the claim if there is one before it.
func (h *hold) acquire() error {
	if h.d.Delivered > 1 || h.d.Rescheduled {
		return h.inherit()
	}
	h.accept()
	err := h.take(events.Claimed{Attempt: 1})
	if errors.Is(err, events.ErrLost) {
		return h.inherit()
	}
	return err
}

// accept tells that the job was seen, once.
func (h *hold) accept() {
	d := h.d
	err := h.w.facts.AcceptAsync(h.key, events.Accepted{
		Kind: string(d.Kind), Owner: d.Owner, Subject: d.Subject, StreamSeq: d.Origin,
		Exclusive: d.Exclusive(), Unique: d.Unique, MaxAttempts: d.MaxAttempts(), Labels: d.Labels,
		PublishedAt: d.PublishedAt, ExpiresAt: d.ExpiresAt(), RunAfter: d.NotBefore(),
	}, func(err error) {
		if err != nil {
			h.log.Warn("accepted event not written", "err", err)
		}
	})
	if err != nil {
		h.log.Warn("accepted event not written", "err", err)
	}
}

// silentFor is how long a holder whose message is gone may say nothing before the
// job's other message takes its place.
const silentFor = time.Minute

// left reports whether this message is all that is left of the job: the older one, on
// which the last claim stands, is gone though nobody has ended the job. That is so when
// an acknowledgement of an earlier delivery came late: nothing fences it, and it takes
// the message from whoever has it by then. The holder gives back what is not there any
// more, or works on and dies; nobody else would come.
func (h *hold) left(past events.History) (bool, error) {
	c := past.Claimed
	if !released(past) && time.Since(c.Time) < silentFor {
		return false, nil
	}
	there, err := h.w.queue.Holds(h.ctx, c.Value.Stream, c.Value.StreamSeq)
	return err == nil && !there, err
}

// inherit takes the claim of a job that has a history.
func (h *hold) inherit() error {
	for {
		past, err := h.w.facts.History(h.ctx, h.key)
		if err != nil {
			return fmt.Errorf("read the job's history: %w", err)
		}
		if !past.Accepted.OK() {
			h.accept()
		}
		if len(past.Foreign) > 0 {
			h.log.Warn("messages on the job's event subjects are no events: who may publish there besides workers?", "seqs", past.Foreign)
		}
		if h.taken(past) {
			return errTaken
		}
		switch stand(past, h.d.Job) {
		case ended:
			return errEnded
		case duplicate:
			return errDuplicate
		case stale:
			return errStale
		case copied:
			left, err := h.left(past)
			if err != nil {
				return err
			}
			if !left {
				return errCopied
			}
		case outrun:
			return errOutrun
		}
		next := succeed(past, h.w.cfg.AckWait, time.Now())
		err = h.succeed(next, past)
		if errors.Is(err, events.ErrLost) || errors.Is(err, events.ErrMoved) {
			// Somebody was quicker, or the last holder came to itself: look again.
			if err := sleep(h.ctx, jobs.Jitter(10*time.Millisecond)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if next.Takeover {
			h.w.m.takeovers.Inc()
			h.log.Info("job taken over", "attempt", next.Attempt, "from", past.Claimed.Value.Worker)
		}
		if past.Claimed.OK() {
			// In a cluster a line of the last holder's that was on its way among the
			// replicas may come before the claim, which did not see it. Now none can.
			if past, err = h.claim.History(h.ctx); err != nil {
				return fmt.Errorf("read the job's history: %w", err)
			}
			if past.Ended() && !point.Off(point.History) {
				return errEnded
			}
		}
		h.past = past
		return nil
	}
}

// take makes the job's first claim.
func (h *hold) take(c events.Claimed) error {
	claim, err := h.w.facts.Claim(h.ctx, h.key, h.sign(c), 0)
	return h.held(claim, c.Attempt, err)
}

// succeed makes a claim over what the job's history holds, and nothing newer.
func (h *hold) succeed(c events.Claimed, past events.History) error {
	if past.Fence == 0 {
		return h.take(c)
	}
	claim, err := h.w.facts.Succeed(h.ctx, past, h.sign(c))
	return h.held(claim, c.Attempt, err)
}

// sign says in a claim who makes it, and by which message.
func (h *hold) sign(c events.Claimed) events.Claimed {
	c.Worker, c.Stream, c.StreamSeq, c.Delivery, c.Origin = h.w.cfg.Name, h.d.Stream, h.d.StreamSeq, h.d.Delivered, h.d.Origin
	c.Owner = h.vouched()
	return c
}

// taken reports whether the job in the log is another owner's publication: ids are the
// publishers', and whoever came first has it. The same job that was published once more
// is its owner's own.
func (h *hold) taken(past events.History) bool {
	c := past.Claimed.Value
	return past.Claimed.OK() && (c.Origin != h.d.Origin || c.Owner != "") && ops.Proven(h.w.cfg.Namespace, past) != h.vouched()
}

// shelve keeps a job that cannot have its id as a dead letter, without an event: those of
// its subject are another's. Replayed it has an id of its own. To a stranger the session
// is not there, whether the id is taken or not.
func (h *hold) shelve(ctx context.Context) error {
	l := jobs.DeadLetter{
		Job: h.d.Job, Class: jobs.ClassDuplicate, Pointer: "/id",
		Reason: fmt.Sprintf("session %s has a job %s of another owner: publish it with another id, as a replay of this letter does", h.d.Session, h.d.ID),
	}
	k, err := h.w.sessions.read(ctx, h.d.Session)
	if err != nil {
		h.log.Warn("job with a taken id not shelved yet", "err", err)
		return h.d.GiveBack(5 * time.Second)
	}
	var strange *fault
	if errors.As(h.ask.mine(k), &strange) {
		l.Class, l.Pointer, l.Attempts = strange.class, "", 1
		l.Reason = strange.reason + " (" + strange.class.Says() + ")"
	}
	if err := h.w.queue.Dead(ctx, l); err != nil {
		h.log.Warn("job with a taken id not shelved yet", "err", err)
		return h.d.GiveBack(5 * time.Second)
	}
	h.log.Info("message shelved", "why", errTaken)
	h.unplace(ctx)
	return h.d.Ack()
}

// held holds on to a claim until it is lost.
func (h *hold) held(claim *events.Claim, attempt int, err error) error {
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	claim.Mask(h.masking.doc)
	h.claim, h.attempt = claim, attempt
	h.mu.Lock()
	h.entry.Holder = strconv.FormatUint(claim.Token(), 10) + "/" + h.delivery
	h.mu.Unlock()
	go func() {
		select {
		case <-claim.Lost():
			h.w.m.refusals.Inc()
			h.cancel(events.ErrLost)
		case <-h.ctx.Done():
		}
	}()
	return nil
}

// still returns an error if the job is in other hands by now.
func (h *hold) still(ctx context.Context) error {
	if h.claim == nil {
		return nil // an ended job that is only cleared up after
	}
	return h.claim.Check(ctx)
}

// reclaim takes the job's next attempt, or the same one after a wait, in the
// same hands.
func (h *hold) reclaim() error {
	for {
		past, err := h.w.facts.History(h.ctx, h.key)
		if err != nil {
			return fmt.Errorf("read the job's history: %w", err)
		}
		h.past = past
		if past.Retrying.Seq < past.Claimed.Seq {
			return nil // a wait: claim and attempt stand
		}
		err = h.succeed(succeed(past, h.w.cfg.AckWait, time.Now()), past)
		if !errors.Is(err, events.ErrMoved) {
			return err
		}
	}
}

// decline lets a job go that was not taken up.
func (h *hold) decline(err error) error {
	ctx, done := h.w.parting(h.ctx)
	defer done()
	switch {
	case errors.Is(err, errEnded):
		return h.bury(ctx)
	case errors.Is(err, errDuplicate), errors.Is(err, errStale):
		h.log.Info("message dropped", "why", err)
		h.unplace(ctx)
		return h.d.Ack()
	case errors.Is(err, errTaken):
		return h.shelve(ctx)
	case errors.Is(err, errCopied):
		return h.d.GiveBack(h.w.cfg.AckWait)
	case errors.Is(err, errOutrun):
		return h.yield()
	case errors.Is(context.Cause(h.ctx), errStopping):
		return h.d.GiveBack(letGo)
	}
	h.log.Warn("job not claimed", "err", err)
	return h.d.GiveBack(jobs.Decide(classify(err).class, 1, 2, false).Delay + time.Second)
}

// bury finishes what a job that has ended may have left: its message, its place
// in the lane, its ephemeral session.
func (h *hold) bury(ctx context.Context) error {
	h.placed(ctx)
	h.mu.Lock()
	// Whoever has left it there: nothing of the job is to come any more.
	h.entered, h.entry.Holder = h.entered || h.entry.Exclusive, ""
	h.mu.Unlock()
	h.leave(ctx)
	h.quitLine(ctx)
	if err := h.discardSession(ctx); err != nil {
		h.log.Warn("ephemeral session not destroyed", "err", err)
		return h.d.GiveBack(5 * time.Second)
	}
	for _, f := range h.after {
		h.w.background(f)
	}
	return h.d.Ack()
}

// placed waits until the job has the place that its delivery gives it, and reports
// whether that is a new one.
func (h *hold) placed(ctx context.Context) (made bool) {
	a, ok := h.d.Note.(*arrival)
	if !ok {
		return false
	}
	select {
	case <-a.done:
		return a.made
	case <-ctx.Done():
		return false
	}
}

// unplace takes the place back that a message has given its job, when it turns out
// that the job has another message. What that one's holder has entered stays.
func (h *hold) unplace(ctx context.Context) {
	if !h.placed(ctx) {
		return
	}
	e := h.entry
	e.Holder = h.delivery
	next, err := h.w.view.Leave(ctx, e, 0)
	if err != nil {
		h.log.Warn("place in the lane not taken back", "err", err)
		return
	}
	h.w.pass(h.d.Session, next)
}

// guard does the job's work; a panic is an error of this attempt.
func (h *hold) guard() (out events.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("panic in a job", "panic", p, "stack", string(debug.Stack()))
			err = faultf(jobs.ClassInternal, "panic: %v", p)
		}
	}()
	if c := h.claim.Record(); c.Crashes >= maxCrashes {
		return out, faultf(jobs.ClassQuarantined, "%d workers in a row vanished within %s of taking the job", c.Crashes, soon(h.w.cfg.AckWait))
	}
	if h.cancelled() && !h.startedBefore() {
		return out, errCancelled
	}
	if until := time.Until(h.d.NotBefore()); until > 0 && !h.startedBefore() {
		return out, waitFor(jobs.ClassDelay, until, "not before %s", h.d.NotBefore().UTC().Format(time.RFC3339))
	}
	if h.d.Expired(time.Now()) && !h.startedBefore() {
		return out, h.expired()
	}
	if h.w.cfg.RequireOwner && !h.d.OwnerProven {
		return out, faultf(jobs.ClassForbidden, "the job's subject names no owner, and WORKER_REQUIRE_OWNER is set: publish to %s.<owner>", h.d.Kind)
	}
	if err := h.permitted(h.ctx); err != nil {
		return out, err
	}
	if err := h.unique(); err != nil {
		return out, err
	}
	if err := h.turn(); err != nil {
		return out, err
	}
	return h.work(h.ctx)
}

func (h *hold) expired() error {
	return faultf(jobs.ClassExpired, "waited past %s", h.d.ExpiresAt().UTC().Format(time.RFC3339))
}

// unique sees to it that of an owner's jobs with one key only one is alive. Other owners'
// have other keys: none may block another, or learn of his jobs.
func (h *hold) unique() error {
	if h.d.Unique == "" {
		return nil
	}
	holder, ok, err := h.w.view.Unique(h.ctx, h.vouched(), h.d.Unique, h.d.Session, h.d.ID, uniqueLease)
	if err != nil {
		return fmt.Errorf("look at the unique key: %w", err)
	}
	if !ok {
		return &fault{class: jobs.ClassDuplicate, pointer: "/unique", reason: fmt.Sprintf("job %s is alive under the key %q", holder, h.d.Unique)}
	}
	return nil
}

// uniqueLease outlives any job that is still tended.
const uniqueLease = 7 * 24 * time.Hour

// work does what the kind says.
func (h *hold) work(ctx context.Context) (events.Outcome, error) {
	switch h.d.Kind {
	case jobs.TaskRun:
		return h.task(ctx)
	case jobs.FileUpload:
		return h.upload(ctx)
	case jobs.FileDownload:
		return h.download(ctx)
	case jobs.GitClone:
		return h.gitClone(ctx)
	case jobs.GitPublish:
		return h.gitPublish(ctx)
	case jobs.SandboxProvision:
		return h.provision(ctx)
	case jobs.SandboxResume:
		return h.resume(ctx)
	case jobs.SandboxPause:
		return h.pause(ctx)
	case jobs.SandboxDestroy:
		return h.destroy(ctx)
	}
	return events.Outcome{}, faultf(jobs.ClassInvalid, "no worker does %s in this version", h.d.Kind)
}

// startedBefore reports whether this attempt's work began in other hands.
func (h *hold) startedBefore() bool {
	return h.past.Started.OK() && h.past.Started.Value.Attempt == h.attempt
}

// started tells that the attempt's work begins now.
func (h *hold) started(s events.Started) error {
	s.Attempt = h.attempt
	h.w.m.startLag(time.Since(h.d.PublishedAt), h.d)
	h.show(events.KindStarted, nil)
	return h.claim.Publish(h.ctx, events.KindStarted, s)
}

// request marks the job as unwanted.
func (h *hold) request() { h.wishOnce.Do(func() { close(h.wish) }) }

// quiet notes whether no command of the job can run now.
func (h *hold) quiet(yes bool) { h.between = yes }

func (h *hold) cancelled() bool {
	select {
	case <-h.wish:
		return true
	default:
		return false
	}
}

// untilCancelled returns a context that also ends when the job is unwanted.
func (h *hold) untilCancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-h.wish:
			cancel(errCancelled)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// attach tells the beat which sandbox to keep awake.
func (h *hold) attach(k known, b *box) {
	h.mu.Lock()
	h.session, h.box = k, b
	h.mu.Unlock()
	h.push(k, b)
}

// push sees to it that E2B's own timeout does not end what is in use.
func (h *hold) push(k known, b *box) {
	if b == nil || !h.w.sessions.short(k, b) {
		return
	}
	h.w.background(func(ctx context.Context) {
		if err := h.w.sessions.keep(ctx, k, b); err != nil {
			h.log.Warn("sandbox timeout not pushed", "err", err)
		}
	})
}

// beat says that the job is alive: to the queue, to Redis, to E2B. It runs on
// the wheel and must not block.
func (h *hold) beat() {
	if h.ctx.Err() != nil {
		return
	}
	if !point.Off(point.Beat) {
		if err := h.d.InProgress(); err != nil {
			h.log.Warn("beat not sent", "err", err)
		}
	}
	h.mu.Lock()
	k, b, entered, entry, pushing := h.session, h.box, h.entered, h.entry, h.pushing
	h.mu.Unlock()
	if pushing != nil {
		h.w.renew.add(*pushing)
	}
	if entered {
		h.w.renew.add(entry)
	}
	h.push(k, b)
}

func (h *hold) report(err error) {
	if err != nil && !errors.Is(err, events.ErrLost) {
		h.log.Error("job not let go in order", "err", err)
	}
}
