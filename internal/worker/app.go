package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/secret"
	"github.com/sandjet/sandjet/internal/store"
)

// App is a whole worker: its connections, what it serves, and the work.
type App struct {
	cfg Config
	log *slog.Logger
	reg *prometheus.Registry
	// Ready is closed when the worker takes jobs.
	ready chan struct{}

	nc       *nats.Conn
	js       jetstream.JetStream
	health   *ops.Health
	pub      *natsx.Publisher
	consumer *jobs.Consumer
	w        *Worker
	brakes   *breakers
	doctor   *doctor
	known    *secret.Set // what is masked in the log
	rules    policies
	books    *books
	secrets  *secret.Resolver
	opened   []func() // how to close what check has opened
}

// New returns a worker that Run starts. It connects to nothing.
func New(cfg Config, log *slog.Logger) (*App, error) {
	if cfg.Name == "" {
		return nil, errors.New("worker: no name")
	}
	a := &App{
		cfg: cfg, reg: prometheus.NewRegistry(), ready: make(chan struct{}), known: new(secret.Set),
	}
	if !point.Off(point.Masking) {
		log = slog.New(secret.NewHandler(log.Handler(), a.known))
	}
	a.log = log.With("worker", cfg.Name)
	var err error
	if a.rules, err = openRules(cfg.PolicyFile, a.log); err != nil {
		return nil, err
	}
	a.secrets = secret.NewResolver(a.rules.secret, secretSources(cfg.Environ, cfg.SecretsDir)...)
	a.cfg.E2BKey = a.unlogged("e2b-api-key", cfg.E2BKey)
	for _, u := range []string{cfg.RedisURL, cfg.NATS.URL} {
		if u, err := url.Parse(u); err == nil {
			password, _ := u.User.Password()
			a.unlog("url", password)
		}
	}
	return a, nil
}

// unlog keeps a value of our own out of the log.
func (a *App) unlog(name, value string) {
	_ = a.known.Add(name, secret.NewValue(value)) // one too short would shred the log
}

// unlogged is key, whose answers are kept out of the log.
func (a *App) unlogged(name string, key func() (string, error)) func() (string, error) {
	var mu sync.Mutex
	last := ""
	return func() (string, error) {
		value, err := key()
		mu.Lock()
		defer mu.Unlock()
		if value != last {
			last = value
			a.unlog(name, value)
		}
		return value, err
	}
}

// Ready is closed when the worker takes jobs.
func (a *App) Ready() <-chan struct{} { return a.ready }

// Run works until ctx ends; then it takes no more jobs, lets go of those it has
// and returns nil. Commands go on in their sandboxes. kill, if it ends, stops
// at once. An error says in one line what keeps the worker from its work.
func (a *App) Run(ctx, kill context.Context) error {
	err := a.run(ctx, kill)
	if err != nil && ctx.Err() != nil && !a.started() {
		a.log.Info("worker stopped before it took jobs", "err", err)
		return nil
	}
	return err
}

func (a *App) started() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

func (a *App) run(ctx, kill context.Context) error {
	starting, started := context.WithTimeoutCause(ctx, a.cfg.StartTimeout, fmt.Errorf("not up within %s (WORKER_START_TIMEOUT)", a.cfg.StartTimeout))
	defer started()
	if err := a.connect(starting); err != nil {
		return err
	}
	defer a.close()
	parted, part := context.WithCancel(context.WithoutCancel(ctx))
	defer part()
	if err := a.build(starting, parted); err != nil {
		return err
	}
	started()
	return a.work(ctx, kill, part)
}

// checkLimit is how long each outside system may take to answer at the start.
const checkLimit = 5 * time.Second

func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, checkLimit, fmt.Errorf("no answer within %s", checkLimit))
}

// connect opens NATS. Whatever is wrong is said in one line.
func (a *App) connect(ctx context.Context) error {
	ctx, cancel := within(ctx)
	defer cancel()
	name := "NATS_URL"
	if a.cfg.NATS.URL == "" {
		name = "NATS_CONTEXT"
	}
	nc, err := natsx.Connect(ctx, a.cfg.NATS, a.log)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.nc = nc
	if a.pub, err = natsx.NewPublisher(nc); err != nil {
		nc.Close()
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

func (a *App) close() {
	if a.w != nil {
		a.w.wakes.close()
		if a.w.tide != nil {
			a.w.tide.close()
		}
		a.w.wheel.Close()
		_ = a.w.facts.Close()
	}
	for _, undo := range slices.Backward(a.opened) {
		undo()
	}
	_ = a.pub.Close()
	_ = a.nc.FlushTimeout(2 * time.Second)
	a.nc.Close()
}

// build checks the outside systems and makes the worker.
func (a *App) build(ctx, parted context.Context) error {
	m := newMetrics(a.reg)
	a.brakes = newBreakers(a.log, m)
	client, view, err := a.check(ctx, m)
	if err != nil {
		return err
	}
	cfg, js := a.cfg, a.js
	queue, err := jobs.Open(js, a.pub, a.queueConfig(), a.log)
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	a.doctor = &doctor{app: a, queue: queue, view: view, client: client}
	found := a.doctor.examine(ctx)
	if err := refusals(found); err != nil {
		return err
	}
	if err := a.setup(ctx, js, queue); err != nil {
		return err
	}
	a.warn(found)
	artifacts, err := openBucket(ctx, js, cfg.Namespace.Stream(events.BucketArtifact))
	if err != nil {
		return fmt.Errorf("object bucket: %w", err)
	}
	wakes, err := newWakes(a.nc, cfg.Namespace)
	if err != nil {
		return err
	}
	facts, err := events.Open(a.nc, a.pub, cfg.Namespace, "/sandjet/worker/"+cfg.Name)
	if err != nil {
		wakes.close()
		return err
	}
	a.books = &books{Writer: audit.NewWriter(js, a.pub, cfg.Namespace, cfg.Name, a.log), known: a.known}
	w := &Worker{
		cfg: cfg, log: a.log, facts: facts, queue: queue, view: view, artifacts: artifacts, m: m,
		rules: a.rules, books: a.books, secrets: a.secrets, known: a.known,
		publisher: jobs.NewPublisher(a.pub, cfg.Namespace),
		wheel:     jobs.NewWheel(), board: newBoard(view, a.log), wakes: wakes,
		cancels: newCancels(), holds: newHolds(), parted: parted, room: make(chan struct{}, maxTasks), unlisted: make(chan struct{}, 1),
		calls:    make(chan struct{}, maxCalls),
		sessions: &sessions{cfg: cfg, log: a.log, facts: facts, view: view, e2b: client, boxes: newBoxes(10_000), m: m, rules: a.rules, books: a.books, brakes: a.brakes, tight: make(chan struct{}, 1)},
	}
	if w.git, err = newGitSide(cfg.Git, view, a.log); err != nil {
		return err
	}
	w.hastener, w.sessions.call = newHastener(queue, a.log), w.callUp
	w.outage = newOutage(w.hastener)
	a.brakes.closed = w.outage.over
	w.renew = newRenewer(view, w.busyLease(), a.log)
	a.w = w
	if w.tide, err = newTide(&tide{
		view: view, queue: queue, nc: a.nc, ns: cfg.Namespace, log: a.log, name: cfg.Name, parted: parted,
		patience: min(time.Second, cfg.AckWait/3), lost: w.renewAll,
	}); err != nil {
		return err
	}
	if a.consumer, err = jobs.NewConsumer(queue, jobs.ConsumerConfig{
		Slots: cfg.Concurrency, MaxParked: 4*cfg.Concurrency + 100, Arrived: w.tide.arrived, Log: a.log,
	}); err != nil {
		return err
	}
	a.gauges()
	return nil
}

// check makes sure that NATS, E2B and Redis are there and what we need.
func (a *App) check(ctx context.Context, m *metrics) (*e2b.Client, *store.Store, error) {
	js, err := jetstream.New(a.nc)
	if err != nil {
		return nil, nil, fmt.Errorf("nats: %w", err)
	}
	a.js = js
	if err := checkNATS(ctx, a.nc, js); err != nil {
		return nil, nil, err
	}
	client, err := e2b.New(e2b.Config{
		APIKey: a.cfg.E2BKey, APIURL: a.cfg.E2BAPIURL, SandboxURL: a.cfg.E2BSandboxURL, Domain: a.cfg.E2BDomain,
		UserAgent: "sandjet/" + Version, Observe: m.call, Admit: a.brakes.admit,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("e2b: %w", err)
	}
	a.opened = append(a.opened, client.Close)
	if err := checkE2B(ctx, client, a.log); err != nil {
		return nil, nil, err
	}
	view, err := openView(ctx, a.cfg)
	if err != nil {
		return nil, nil, err
	}
	a.opened = append(a.opened, func() { _ = view.Close() })
	return client, view, nil
}

func (a *App) queueConfig() jobs.Config {
	return jobs.Config{
		Namespace: a.cfg.Namespace, Replicas: a.cfg.Replicas, AckWait: a.cfg.AckWait, JobsMaxBytes: a.cfg.JobsCap,
		SchedulesMaxBytes: a.cfg.SchedulesCap, DeadMaxBytes: a.cfg.DeadCap, DeadMaxAge: a.cfg.DeadAge,
	}
}

func (a *App) eventsConfig() events.Config {
	return events.Config{
		Namespace: a.cfg.Namespace, Replicas: a.cfg.Replicas, MaxAge: a.cfg.EventsAge, MaxBytes: a.cfg.EventsCap,
		SessionBytes: a.cfg.SessionsCap, ArtifactBytes: a.cfg.ArtifactsCap,
	}
}

// setup brings streams and consumers up to date. A cluster that changes its leader
// forgets what it was asked: then it is asked again, while there is time. One without
// a majority answers nothing.
func (a *App) setup(ctx context.Context, js jetstream.JetStream, queue *jobs.Queue) error {
	for {
		once, cancel := context.WithTimeout(ctx, a.cfg.StartTimeout/3)
		err := a.setUp(once, js, queue)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("NATS_URL: %w: the setup of the streams is not answered: have they a leader, and the servers a majority? (nats server report jetstream)", context.Cause(ctx))
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		a.log.Warn("streams not set up, trying again", "err", err)
	}
}

func (a *App) setUp(ctx context.Context, js jetstream.JetStream, queue *jobs.Queue) error {
	if err := events.Setup(ctx, js, a.eventsConfig()); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	if err := queue.Setup(ctx); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	return nil
}

// gauges are read when somebody asks.
func (a *App) gauges() {
	a.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, f func() float64) {
		a.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "sandjet", Name: name, Help: help}, f))
	}
	load := a.consumer.Load
	gauge("worker_slots", "Jobs this worker runs at once, at most.", func() float64 { return float64(load().Slots) })
	gauge("worker_running", "Jobs that run in this worker.", func() float64 { return float64(load().Running) })
	gauge("worker_parked", "Jobs that wait in this worker without a slot.", func() float64 { return float64(load().Parked) })
	gauge("running_sandboxes", "Running sandboxes of the fleet that take a slot.", func() float64 {
		ctx, cancel := context.WithTimeout(a.w.parted, 2*time.Second)
		defer cancel()
		slots, err := a.w.view.Slots(ctx)
		if err != nil {
			return -1
		}
		return float64(len(slots.Slots))
	})
	gauge("sandbox_line", "Sessions of the fleet that wait for a slot.", func() float64 {
		ctx, cancel := context.WithTimeout(a.w.parted, 2*time.Second)
		defer cancel()
		slots, err := a.w.view.Slots(ctx)
		if err != nil {
			return -1
		}
		return float64(slots.Waiting)
	})
}

// work runs everything until ctx ends, then lets go in order.
func (a *App) work(ctx, kill context.Context, part context.CancelFunc) error {
	w := a.w
	// Before anything runs: a port that is taken is a fault of the start.
	listener, err := a.listen()
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close() // by the server as well, once there is one
	}
	// The jobs' context ends with its own cause when the worker stops.
	jobsCtx, stopJobs := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopJobs(nil)
	// What serves the jobs ends after them.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()

	defer a.keepBooks(ctx)()
	var servers errgroup.Group
	start := func(f func(context.Context)) { servers.Go(func() error { f(serving); return nil }) }
	start(w.renew.run)
	start(w.board.run)
	start(w.tide.run)
	start(w.hastener.run)
	sweeping, stopSweeping := context.WithCancel(ctx)
	defer stopSweeping()
	start(func(context.Context) { w.sweep(sweeping) })
	start(func(context.Context) { w.listJobs(sweeping) })
	start(func(context.Context) { w.tendSlots(sweeping) })
	start(func(context.Context) { w.watch(sweeping) })
	start(func(context.Context) { w.reconcileOften(sweeping) })
	if err := w.facts.WatchCancels(serving, func(key events.Job, r events.CancelRequested) { w.cancelRequested(key, r) }); err != nil {
		return fmt.Errorf("watch cancels: %w", err)
	}
	start(func(ctx context.Context) {
		if err := w.queue.WatchAdvisories(ctx, w.exhausted); err != nil {
			a.log.Error("advisories not watched", "err", err)
		}
	})

	stopAnswers, err := a.serve(serving, listener, &servers)
	if err != nil {
		return err
	}
	defer stopAnswers()
	// Who hears that the worker is ready may ask it: its subscriptions must be there.
	if err := a.nc.FlushTimeout(checkLimit); err != nil {
		a.log.Warn("subscriptions not confirmed", "err", err)
	}

	finished := make(chan error, 1)
	go func() { finished <- a.consumer.Run(jobsCtx, w.consume) }()
	close(a.ready)
	a.log.Info("worker takes jobs", "slots", a.cfg.Concurrency, "namespace", string(a.cfg.Namespace), "version", Version)

	select {
	case err = <-finished:
		err = fmt.Errorf("consumer: %w", err)
	case <-ctx.Done():
		a.log.Info("worker stops", "jobs", w.holds.count())
		a.health.Drain()
		a.consumer.Stop()
		stopJobs(errStopping)
		err = a.drained(finished, kill)
	}
	w.lastCalls()
	part()
	stopServing()
	w.called.Wait()
	w.tasks.Wait()
	return errors.Join(err, servers.Wait())
}

// keepBooks writes the audit records until the func that it returns is called, which
// closes the chain.
func (a *App) keepBooks(ctx context.Context) (done func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	written := make(chan struct{})
	go func() {
		defer close(written)
		a.books.Run(ctx)
	}()
	return func() {
		a.books.Close()
		t := time.AfterFunc(audit.FlushLimit, cancel)
		<-written
		t.Stop()
		cancel()
	}
}

// drained waits until every job is let go.
func (a *App) drained(finished <-chan error, kill context.Context) error {
	t := time.NewTimer(a.cfg.DrainTimeout)
	defer t.Stop()
	select {
	case err := <-finished:
		return err
	case <-kill.Done():
		a.log.Warn("worker stops at once", "jobs", a.w.holds.count())
	case <-t.C:
		a.log.Warn("jobs not let go in time", "jobs", a.w.holds.count(), "drain_timeout", a.cfg.DrainTimeout)
	}
	a.consumer.Kill(errStopping)
	return nil
}

// cancelRequested passes a cancel on: to the job in our hands, or to its place
// in the schedules.
func (w *Worker) cancelRequested(key events.Job, r events.CancelRequested) {
	w.cancels.add(key, r)
	w.holds.request(key)
	w.hastener.add(key)
}

// exhausted ends a job whose deliveries an operator has bounded.
func (w *Worker) exhausted(ctx context.Context, l *jobs.DeadLetter) error {
	key := events.Job{Session: l.Job.Session, ID: l.Job.ID}
	past, err := w.facts.History(ctx, key)
	if err != nil || past.Ended() {
		return err
	}
	rec := succeed(past, w.cfg.AckWait, time.Now())
	rec.Worker, rec.Stream, rec.StreamSeq, rec.Delivery, rec.Origin = w.cfg.Name, l.Job.Stream, l.Job.StreamSeq, l.Job.Delivered, l.Job.Origin
	claim, err := w.facts.Succeed(ctx, past, rec)
	if err != nil {
		return err // the advisory comes again, and finds the job where it is then
	}
	if err := claim.End(ctx, events.Dead, events.Outcome{Class: string(l.Class), Reason: l.Reason, Attempts: rec.Attempt}); err != nil {
		return err
	}
	_, err = w.outOfTheWay(ctx, key.Session, key.ID)
	return err
}
