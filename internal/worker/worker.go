package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/secret"
	"github.com/sandjet/sandjet/internal/store"
)

// Worker takes jobs and does them. App builds it.
type Worker struct {
	cfg       Config
	log       *slog.Logger
	facts     *events.Log
	queue     *jobs.Queue
	publisher *jobs.Publisher
	view      *store.Store
	artifacts bucket
	sessions  *sessions
	rules     policies
	books     *books
	secrets   *secret.Resolver
	known     *secret.Set // what is masked in the log
	m         *metrics

	wheel    *jobs.Wheel
	renew    *renewer
	board    *board
	wakes    *wakes
	tide     *tide
	cancels  *cancels
	holds    *holds
	hastener *hastener
	outage   *outage
	unlisted chan struct{} // somebody saw that the view lists no jobs
	git      *gitSide

	// parted outlives the jobs' contexts: what a job still has to say when it
	// is let go.
	parted context.Context
	tasks  sync.WaitGroup
	room   chan struct{} // bounds the tasks
	calls  chan struct{} // bounds how many jobs are called back at a time
	called sync.WaitGroup
}

func (w *Worker) beatEvery() time.Duration { return beatOf(w.cfg.AckWait) }

// busyLease is how long Redis takes a job for alive without a beat.
func (w *Worker) busyLease() time.Duration { return 2 * w.cfg.AckWait }

// maxTasks bounds what runs beside the jobs: pushed timeouts, clean-ups.
const maxTasks = 128

// background runs something small that no job waits for. When there is too much
// of it already it is left out: all of it comes again or may stay undone.
func (w *Worker) background(f func(context.Context)) {
	select {
	case w.room <- struct{}{}:
	default:
		return
	}
	w.tasks.Go(func() {
		defer func() { <-w.room }()
		ctx, cancel := context.WithTimeout(w.parted, 30*time.Second)
		defer cancel()
		f(ctx)
	})
}

// parting returns a context for a job's last words. It goes on when the job's
// own context has ended.
func (w *Worker) parting(job context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(w.parted, w.cfg.DrainTimeout)
	_ = job
	return ctx, cancel
}

// consume is the handler of every delivery.
func (w *Worker) consume(ctx context.Context, d *jobs.Delivery) {
	var newer *jobs.NewerVersion
	var invalid *jobs.Invalid
	switch {
	case d.Err == nil:
		w.handle(ctx, d)
	case errors.As(d.Err, &newer):
		w.putOff(ctx, d, newer)
	case errors.As(d.Err, &invalid):
		w.reject(ctx, d, invalid)
	default:
		w.reject(ctx, d, &jobs.Invalid{Class: jobs.ClassInvalid, Reason: d.Err.Error()})
	}
}

// putOff leaves a job to a worker that is newer than this one.
func (w *Worker) putOff(ctx context.Context, d *jobs.Delivery, newer *jobs.NewerVersion) {
	w.m.rejected.WithLabelValues(string(jobs.ClassVersion)).Inc()
	w.log.Warn("job given back", "job_id", d.ID, "kind", d.Kind, "reason", newer)
	delay := jobs.Decide(jobs.ClassVersion, 1, 1, false).Delay
	if err := d.GiveBack(delay); err != nil {
		w.log.Warn("message not given back", "err", err)
	}
}

// reject ends a message that is no job: a dead letter, and the terminal event
// for whoever follows it.
func (w *Worker) reject(ctx context.Context, d *jobs.Delivery, cause *jobs.Invalid) {
	w.m.rejected.WithLabelValues(string(cause.Class)).Inc()
	h := w.newHold(ctx, d)
	defer h.cancel(nil)
	err := h.acquire()
	if err != nil {
		h.report(h.decline(err))
		return
	}
	h.report(h.end(jobs.Decision{Fate: jobs.Die}, events.Outcome{
		Class: string(cause.Class), Reason: cause.Reason, Pointer: cause.Pointer,
	}))
}

func splitSubject(s string) []string { return strings.Split(s, ".") }
