package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/wire"
)

// Streams, before the namespace.
const (
	StreamJobs       = "JOBS"
	StreamSchedules  = "SCHEDULES"
	StreamDead       = "DEAD"
	StreamAdvisories = "ADVISORIES"
)

// Durable consumers. Their names are the same in every namespace and version, so
// that a scaler can be pointed at them.
const (
	DurableHigh        = "worker-high"
	DurableNormal      = "worker"
	DurableLow         = "worker-low"
	DurableAgain       = "worker-again"
	DurableDeadLetters = "dead-letters"
)

// Queue is the streams of one namespace. It may be used concurrently.
type Queue struct {
	js  jetstream.JetStream
	nc  *nats.Conn
	pub *natsx.Publisher
	ns  wire.Namespace
	cfg Config
	log *slog.Logger

	deadBudget int

	mu        sync.Mutex
	schedules usage
}

// Open returns a Queue on js that stores through pub. It asks the server
// nothing; Setup makes the streams.
func Open(js jetstream.JetStream, pub *natsx.Publisher, cfg Config, log *slog.Logger) (*Queue, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Queue{js: js, nc: js.Conn(), pub: pub, ns: cfg.Namespace, cfg: cfg, log: log, deadBudget: deadBudget}, nil
}

// Setup creates the streams and consumers, or brings them up to date. Several
// workers may do so at once. A setting that cannot be changed in place is an
// error that says what to do.
func (q *Queue) Setup(ctx context.Context) error {
	for _, cfg := range []jetstream.StreamConfig{q.jobsConfig(), q.schedulesConfig(), q.deadConfig(), q.advisoriesConfig()} {
		cfg.Subjects = q.keepSubjects(ctx, cfg)
		if _, err := natsx.EnsureStream(ctx, q.js, cfg); err != nil {
			return err
		}
	}
	for _, s := range q.sources() {
		if err := q.ensureConsumer(ctx, s.stream, s.config); err != nil {
			return err
		}
	}
	return q.ensureConsumer(ctx, q.ns.Stream(StreamAdvisories), q.deadLettersConfig())
}

// Drift says which settings of the streams are not as Setup would make them. It
// changes nothing.
func (q *Queue) Drift(ctx context.Context) ([]string, error) {
	var all []string
	for _, cfg := range []jetstream.StreamConfig{q.jobsConfig(), q.schedulesConfig(), q.deadConfig(), q.advisoriesConfig()} {
		cfg.Subjects = q.keepSubjects(ctx, cfg)
		changed, err := natsx.Drift(ctx, q.js, cfg)
		if err != nil {
			return all, err
		}
		all = append(all, changed...)
	}
	return all, nil
}

func (q *Queue) ensureConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) error {
	s, err := q.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", stream, err)
	}
	_, err = natsx.EnsureConsumer(ctx, s, cfg)
	return err
}

// keepSubjects adds the subjects that the stream has and we do not know: a newer
// worker has set it up, and its jobs must not be turned away while an older one
// restarts. Of two subjects the wider one stays: those of a stream may not overlap.
func (q *Queue) keepSubjects(ctx context.Context, cfg jetstream.StreamConfig) []string {
	s, err := q.js.Stream(ctx, cfg.Name)
	if err != nil {
		return cfg.Subjects // EnsureStream meets the same error, or creates it
	}
	return widest(append(slices.Clone(cfg.Subjects), s.CachedInfo().Config.Subjects...))
}

func (q *Queue) jobsConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        q.ns.Stream(StreamJobs),
		Description: "Jobs that are not done",
		Subjects:    jobSubjects(q.ns),
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    q.cfg.JobsMaxBytes,
		Duplicates:  q.cfg.Duplicates,
		Replicas:    q.cfg.Replicas,
	}
}

// schedulesConfig has no byte limit: with schedules the server knows no Discard
// New, and dropping the oldest would lose jobs. Reschedule guards the size.
func (q *Queue) schedulesConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              q.ns.Stream(StreamSchedules),
		Description:       "Jobs that wait for a time",
		Subjects:          []string{q.ns.Subject(tokenSchedule, ">"), q.ns.Subject(tokenAgain, ">")},
		Retention:         jetstream.WorkQueuePolicy,
		Duplicates:        q.cfg.Duplicates,
		Replicas:          q.cfg.Replicas,
		AllowMsgSchedules: true,
		AllowRollup:       true,
	}
}

func (q *Queue) deadConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        q.ns.Stream(StreamDead),
		Description: "Jobs that cannot be run, with the reason",
		Subjects:    []string{q.ns.Subject(tokenDead, ">")},
		MaxBytes:    q.cfg.DeadMaxBytes,
		MaxAge:      q.cfg.DeadMaxAge,
		Duplicates:  2 * time.Minute,
		Replicas:    q.cfg.Replicas,
	}
}

func (q *Queue) advisoriesConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        q.ns.Stream(StreamAdvisories),
		Description: "The server's word that a job has used up its deliveries",
		Subjects:    []string{q.advisorySubject(StreamJobs), q.advisorySubject(StreamSchedules)},
		Retention:   jetstream.WorkQueuePolicy,
		MaxBytes:    64 << 20,
		Replicas:    q.cfg.Replicas,
	}
}

func (q *Queue) deadLettersConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:    DurableDeadLetters,
		AckPolicy:  jetstream.AckExplicitPolicy,
		AckWait:    30 * time.Second,
		MaxDeliver: -1,
		Replicas:   q.cfg.Replicas,
	}
}

func (q *Queue) advisorySubject(stream string) string {
	return "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + q.ns.Stream(stream) + ".>"
}

// sourceConfig is one consumer that jobs are fetched from.
type sourceConfig struct {
	stream string
	config jetstream.ConsumerConfig
}

// sources lists the consumers in the order in which they are served. Jobs that
// come back from a schedule have waited already, so they go before new ones.
func (q *Queue) sources() []sourceConfig {
	jobs, schedules := q.ns.Stream(StreamJobs), q.ns.Stream(StreamSchedules)
	return []sourceConfig{
		{jobs, q.workerConfig(DurableHigh, q.ns.Subject("high", ">"))},
		{schedules, q.workerConfig(DurableAgain, q.ns.Subject(tokenAgain, ">"))},
		{jobs, q.workerConfig(DurableNormal, normalFilters(q.ns)...)},
		{jobs, q.workerConfig(DurableLow, q.ns.Subject("low", ">"))},
	}
}

func (q *Queue) workerConfig(durable string, filters ...string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:        durable,
		FilterSubjects: filters,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        q.cfg.AckWait,
		MaxDeliver:     q.cfg.MaxDeliver,
		MaxAckPending:  q.cfg.MaxAckPending,
		Replicas:       q.cfg.Replicas,
	}
}

// Depth is how many jobs are where.
type Depth struct {
	Queued  uint64 // in JOBS or back from a schedule, not delivered
	Pending uint64 // delivered and not acknowledged: running, parked, or given back
	Waiting uint64 // in a schedule
	Dead    uint64
	Oldest  time.Time // when the oldest job in JOBS that is not done was published; zero if there is none
}

// Depth asks the server for the numbers; they are of slightly different moments.
func (q *Queue) Depth(ctx context.Context) (Depth, error) {
	var d Depth
	var again uint64
	for _, s := range q.sources() {
		c, err := q.js.Consumer(ctx, s.stream, s.config.Durable)
		if err != nil {
			return d, fmt.Errorf("consumer %s: %w", s.config.Durable, err)
		}
		info := c.CachedInfo()
		d.Queued += info.NumPending
		d.Pending += uint64(info.NumAckPending)
		if s.config.Durable == DurableAgain {
			again = info.NumPending + uint64(info.NumAckPending)
		}
	}
	jobs, err := q.js.Stream(ctx, q.ns.Stream(StreamJobs))
	if err != nil {
		return d, fmt.Errorf("stream %s: %w", q.ns.Stream(StreamJobs), err)
	}
	if state := jobs.CachedInfo().State; state.Msgs > 0 {
		d.Oldest = state.FirstTime
	}
	schedules, err := q.js.Stream(ctx, q.ns.Stream(StreamSchedules))
	if err != nil {
		return d, fmt.Errorf("stream %s: %w", q.ns.Stream(StreamSchedules), err)
	}
	if n := schedules.CachedInfo().State.Msgs; n > again {
		d.Waiting = n - again
	}
	dead, err := q.js.Stream(ctx, q.ns.Stream(StreamDead))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("stream %s: %w", q.ns.Stream(StreamDead), err)
	}
	d.Dead = dead.CachedInfo().State.Msgs
	return d, nil
}

// apiSubject is the subject of a JetStream API call.
func (q *Queue) apiSubject(call string) string {
	o := q.js.Options()
	switch {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "." + call
	case o.Domain != "":
		return "$JS." + o.Domain + ".API." + call
	}
	return "$JS.API." + call
}
