package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/query"
)

const (
	// statusEvery is how often the status line's clock moves.
	statusEvery = time.Second
	// hintAfter is how long nothing may be heard of a job before we look
	// whether there is a worker at all.
	hintAfter = 3 * time.Second
)

// watch follows one job for a person: it shows its events, keeps the status
// line, and turns Ctrl-C into a cancel, and a second one into letting go.
type watch struct {
	app  *App
	conn *conn
	job  events.Job
	opts events.FollowOptions
	show view

	hintAfter time.Duration

	progress *progress
	end      *ending
	gap      error // the first one in the output
	stdout   int64 // where the next byte of each output is expected
	stderr   int64
	cancels  int
	asking   sync.WaitGroup // questions under way
}

// ending is how a job ended.
type ending struct {
	Kind    events.Kind
	Outcome events.Outcome
}

// item is what the log hands out, or the error that it ended with.
type item struct {
	event events.Event
	err   error
}

func (a *App) newWatch(c *conn, job events.Job, opts events.FollowOptions, show view) *watch {
	return &watch{
		app: a, conn: c, job: job, opts: opts, show: show,
		hintAfter: cmp.Or(a.hintAfter, hintAfter),
		progress:  newProgress(time.Now()),
		stdout:    opts.StdoutFrom,
		stderr:    opts.StderrFrom,
	}
}

// Run follows the job to its end. An exitCode of 130 says that the person let
// go of it and it goes on.
func (w *watch) Run(parent context.Context) (ending, error) {
	ctx, cancel := context.WithCancel(parent)
	items := w.pump(ctx)
	defer func() {
		cancel()
		for range items { // wait for the pump
		}
		w.asking.Wait()
		w.app.console.Status("")
	}()
	interrupts := make(chan struct{}, 8)
	defer w.app.signals.handle(func() {
		select {
		case interrupts <- struct{}{}:
		default:
		}
	})()
	answers := make(chan error, 1) // to the cancel
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	hint := time.NewTimer(w.hintAfter)
	defer hint.Stop()

	w.draw()
	for {
		select {
		case it, ok := <-items:
			if !ok {
				return w.over(parent)
			}
			hint.Stop()
			if err := w.take(it); err != nil {
				return ending{}, err
			}
		case <-interrupts:
			if w.cancels++; w.cancels > 1 {
				return ending{}, w.detach()
			}
			w.app.note("cancelling job %s; Ctrl-C again lets go of it", w.job.ID)
			w.asking.Go(func() { answers <- w.cancel(ctx) })
		case err := <-answers:
			w.answered(err)
		case <-hint.C:
			w.asking.Go(func() { w.hint(ctx) })
		case <-tick.C:
		}
		w.draw()
	}
}

// pump reads the log in a goroutine of its own, so that a person is heard
// while nothing comes. It ends with ctx.
func (w *watch) pump(ctx context.Context) <-chan item {
	items := make(chan item)
	go func() {
		defer close(items)
		for e, err := range w.conn.log.Follow(ctx, w.job, w.opts) {
			select {
			case items <- item{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return items
}

// take shows one event and remembers what matters of it. A gap in the output
// is said at once, but what comes after it is worth showing too.
func (w *watch) take(it item) error {
	var gap *events.GapError
	if errors.As(it.err, &gap) {
		w.gap = cmp.Or[error](w.gap, gap)
		w.app.note("%s", gap)
		return nil
	}
	if it.err != nil {
		return it.err
	}
	e := it.event
	if err := w.show(e); err != nil {
		return fmt.Errorf("show output: %w", err)
	}
	switch {
	case e.Kind == events.Stdout:
		w.stdout = e.End()
	case e.Kind == events.Stderr:
		w.stderr = e.End()
	case e.Kind.Terminal():
		w.end = &ending{Kind: e.Kind}
		return e.Decode(&w.end.Outcome)
	default:
		w.progress.See(e)
	}
	return nil
}

// over is the result once there are no more events.
func (w *watch) over(parent context.Context) (ending, error) {
	switch {
	case w.end == nil && context.Cause(parent) != nil:
		return ending{}, context.Cause(parent)
	case w.end == nil:
		return ending{}, fmt.Errorf("job %s: its events ended before the job did", w.job.ID)
	case w.gap != nil:
		return ending{}, fmt.Errorf("job %s %s, but its output is not whole", w.job.ID, ended(w.end.Kind))
	}
	return *w.end, nil
}

func (w *watch) draw() {
	if w.end == nil {
		w.app.console.Status(w.progress.Line(time.Now()))
	}
}

// cancel asks a worker, and where there is none writes the wish down itself:
// whoever takes the job next will read it.
func (w *watch) cancel(ctx context.Context) error {
	_, err := w.conn.ask.Cancel(ctx, query.JobCancelRequest{
		JobRequest: query.JobRequest{Session: w.job.Session, Job: w.job.ID},
		Reason:     interruptReason,
	})
	if errors.Is(err, query.ErrNoWorker) && w.conn.owner == "" { // owners may write no events
		err = w.conn.log.Cancel(ctx, w.job, events.CancelRequested{Reason: interruptReason, By: "publisher"})
	}
	return err
}

const interruptReason = "interrupted at the terminal"

func (w *watch) answered(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.app.note("cancel job %s: %s", w.job.ID, firstLine(err))
	}
}

// hint tells a person who waits for nothing. It asks what an owner may ask too.
func (w *watch) hint(ctx context.Context) {
	if _, err := w.conn.ask.Session(ctx, query.SessionRequest{Session: w.job.Session}); errors.Is(err, query.ErrNoWorker) {
		w.app.note("no worker answers; job %s stays in the queue until one comes", w.job.ID)
	}
}

// detach says how to come back.
func (w *watch) detach() error {
	w.app.console.Status("")
	w.app.note("let go of job %s; see its end with: %s", w.job.ID, w.again())
	return &exitCode{code: exitCancelled}
}

// again is the command that takes up following where we are.
func (w *watch) again() string {
	s := fmt.Sprintf("publisher follow --session %s", w.job.Session)
	if w.stdout > 0 {
		s += fmt.Sprintf(" --from %d", w.stdout)
	}
	if w.stderr > 0 {
		s += fmt.Sprintf(" --from-stderr %d", w.stderr)
	}
	return s + " " + w.job.ID
}
