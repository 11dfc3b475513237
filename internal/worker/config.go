package worker

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/wire"
)

// Config is everything a worker can be told. ConfigFromEnv reads it from the
// environment; each field's doc names its variable.
type Config struct {
	Name      string         // WORKER_NAME: who claims; default <host>-<random>
	Namespace wire.Namespace // SANDJET_NAMESPACE
	NATS      natsx.Config   // NATS_URL, NATS_CONTEXT, NATS_CREDS, NATS_NKEY, NATS_CA, NATS_CERT, NATS_KEY
	Replicas  int            // NATS_REPLICAS: of every stream; 1

	NATSSynced bool // NATS_SYNCED: the server syncs every write to disk (sync_interval: always)
	Production bool // WORKER_PRODUCTION: refuse to start where jobs may be lost

	RedisURL string // REDIS_URL

	E2BKey        func() (string, error) // E2B_API_KEY or E2B_API_KEY_FILE, read again on change
	E2BDomain     string                 // E2B_DOMAIN
	E2BAPIURL     string                 // E2B_API_URL
	E2BSandboxURL string                 // E2B_SANDBOX_URL

	// Environ is the environment as os.Environ lists it. Its WORKER_SECRET_<NAME>
	// variables are secrets, its WORKER_SECRET_<NAME>_FILE name files with one.
	Environ    []string
	PolicyFile string // WORKER_POLICY_FILE: what is refused, and to whom; read again on change
	SecretsDir string // WORKER_SECRETS_DIR: a directory with a file for each secret, read again on change

	Concurrency  int           // WORKER_CONCURRENCY: jobs at once; 64
	RequireOwner bool          // WORKER_REQUIRE_OWNER: refuse jobs without an owner token
	IdleTimeout  time.Duration // WORKER_IDLE_TIMEOUT: a session idle so long is paused; 5m
	MaxAge       time.Duration // WORKER_MAX_AGE: a session so old is destroyed; 24h
	SandboxLimit int           // WORKER_SANDBOX_LIMIT: running sandboxes of the fleet; 0 = E2B's own limit alone
	// OwnerSandboxLimit (WORKER_OWNER_SANDBOX_LIMIT): running sandboxes of one
	// owner; 0 = as many as there are.
	OwnerSandboxLimit int
	CreateRate        float64       // WORKER_CREATE_RATE: sandboxes created or resumed a second, fleet-wide; 0 = no limit of ours
	StartTimeout      time.Duration // WORKER_START_TIMEOUT: longest time from the start to the first job; 15s
	DrainTimeout      time.Duration // WORKER_DRAIN_TIMEOUT: longest time to let go of jobs at a stop; 20s
	Template          string        // WORKER_TEMPLATE: of sessions that name none; base
	HTTPAddr          string        // WORKER_HTTP_ADDR: health, metrics; 127.0.0.1:8090; "off" for none

	AckWait   time.Duration // WORKER_ACK_WAIT: after how long a silent worker's jobs go to another; 30s
	SpoolCap  int64         // WORKER_SPOOL_CAP: bytes kept of each output of a command; 64 MiB
	FileCap   int64         // WORKER_FILE_CAP: largest file moved; 5 GiB
	LaneHold  time.Duration // no variable: how long a job near its turn waits in a worker's hands, then in the schedules; 30s
	ChunkAge  time.Duration // no variable: how old the chunks of an unfinished object are when they are removed; 25h
	EventsAge time.Duration // WORKER_EVENTS_AGE: how long events are kept; 168h
	EventsCap int64         // WORKER_EVENTS_CAP: bytes of the event stream; 10 GiB
	JobsCap   int64         // WORKER_JOBS_CAP: bytes of the job stream; 1 GiB

	SchedulesCap int64         // WORKER_SCHEDULES_CAP: bytes of the jobs that wait for a time; 1 GiB
	DeadCap      int64         // WORKER_DEAD_CAP: bytes of the dead letters; 1 GiB
	DeadAge      time.Duration // WORKER_DEAD_AGE: how long dead letters are kept; 720h
	SessionsCap  int64         // WORKER_SESSIONS_CAP: bytes of the sessions' last states; 256 MiB
	ArtifactsCap int64         // WORKER_ARTIFACTS_CAP: bytes of the object bucket; 2 GiB
	ViewJobs     int           // WORKER_VIEW_JOBS: jobs that Redis lists; 100,000
	ViewForget   time.Duration // WORKER_VIEW_FORGET: how long Redis lists a job that does not change; 24h

	WatchEvery     time.Duration // WORKER_WATCH_EVERY: how often each running sandbox is looked at; 30s
	ReconcileEvery time.Duration // WORKER_RECONCILE_EVERY: how often E2B's sandboxes and the sessions are compared; 5m
	OrphanGrace    time.Duration // WORKER_ORPHAN_GRACE: how long a sandbox without a session is left alone; 2m
	ResumeTimeout  time.Duration // WORKER_RESUME_TIMEOUT: longest wake from memory before one from disk alone; 60s

	Git GitConfig // GITHUB_*, WORKER_GIT_*

	LogLevel  slog.Level // LOG_LEVEL: debug, info, warn, error
	LogFormat string     // LOG_FORMAT: text, json; default by whether stderr is a terminal
}

// DefaultConfig has every default filled in.
func DefaultConfig() Config {
	return Config{
		Name:         defaultName(),
		Replicas:     1,
		Concurrency:  64,
		IdleTimeout:  5 * time.Minute,
		MaxAge:       24 * time.Hour,
		StartTimeout: 15 * time.Second,
		DrainTimeout: 20 * time.Second,
		Template:     "base",
		HTTPAddr:     "127.0.0.1:8090",
		AckWait:      30 * time.Second,
		LaneHold:     jobs.MaxHold,
		SpoolCap:     64 << 20,
		FileCap:      5 << 30,
		EventsAge:    7 * 24 * time.Hour,
		EventsCap:    10 << 30,
		JobsCap:      1 << 30,
		SchedulesCap: 1 << 30,
		DeadCap:      1 << 30,
		DeadAge:      30 * 24 * time.Hour,
		SessionsCap:  256 << 20,
		ArtifactsCap: 2 << 30,
		ViewJobs:     100_000,
		ViewForget:   24 * time.Hour,

		WatchEvery:     30 * time.Second,
		ReconcileEvery: 5 * time.Minute,
		ChunkAge:       transferLimit + time.Hour,
		OrphanGrace:    2 * time.Minute,
		ResumeTimeout:  time.Minute,

		Git: GitConfig{
			Committer: git.Person{Name: "Sandjet", Email: "noreply@sandjet.dev"}, PushMode: jobs.PushSandbox, Credential: CredentialAuto, Mirrors: "/opt/mirrors", PullRate: pullRate, Patience: 30 * time.Minute,
		},
	}
}

func defaultName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	clean := strings.Map(func(r rune) rune {
		if wire.ValidID(string(r)) {
			return r
		}
		return '-'
	}, host)
	return clean[:min(len(clean), 40)] + "-" + randomID(6)
}

// ConfigFromEnv reads the configuration through getenv. All faults are
// reported together, one line each, naming the variable and what it wants; no
// value is printed: it may be a secret that got to the wrong place.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	e := env{get: getenv}
	c := DefaultConfig()

	e.id("WORKER_NAME", &c.Name)
	e.namespace("SANDJET_NAMESPACE", &c.Namespace)
	c.NATS = e.nats()
	c.NATS.Name = "sandjet-worker-" + c.Name
	e.integer("NATS_REPLICAS", &c.Replicas, 1, 5)
	e.boolean("NATS_SYNCED", &c.NATSSynced)
	e.boolean("WORKER_PRODUCTION", &c.Production)
	c.RedisURL = e.redis("REDIS_URL")

	c.E2BKey = e.key("E2B_API_KEY")
	c.E2BDomain = e.host("E2B_DOMAIN")
	c.E2BAPIURL = e.url("E2B_API_URL")
	c.E2BSandboxURL = e.url("E2B_SANDBOX_URL")

	e.integer("WORKER_CONCURRENCY", &c.Concurrency, 1, 100_000)
	e.boolean("WORKER_REQUIRE_OWNER", &c.RequireOwner)
	e.duration("WORKER_IDLE_TIMEOUT", &c.IdleTimeout, time.Second, 24*time.Hour)
	e.duration("WORKER_MAX_AGE", &c.MaxAge, time.Minute, 365*24*time.Hour)
	e.integer("WORKER_SANDBOX_LIMIT", &c.SandboxLimit, 0, 1_000_000)
	e.integer("WORKER_OWNER_SANDBOX_LIMIT", &c.OwnerSandboxLimit, 0, 1_000_000)
	e.rate("WORKER_CREATE_RATE", &c.CreateRate)
	e.duration("WORKER_START_TIMEOUT", &c.StartTimeout, time.Second, time.Hour)
	e.duration("WORKER_DRAIN_TIMEOUT", &c.DrainTimeout, time.Second, time.Hour)
	e.text("WORKER_TEMPLATE", &c.Template)
	e.address("WORKER_HTTP_ADDR", &c.HTTPAddr)
	e.duration("WORKER_ACK_WAIT", &c.AckWait, time.Second, time.Hour)
	e.bytes("WORKER_SPOOL_CAP", &c.SpoolCap)
	e.bytes("WORKER_FILE_CAP", &c.FileCap)
	e.duration("WORKER_EVENTS_AGE", &c.EventsAge, time.Hour, 10*365*24*time.Hour)
	e.bytes("WORKER_EVENTS_CAP", &c.EventsCap)
	e.bytes("WORKER_JOBS_CAP", &c.JobsCap)
	e.bytes("WORKER_SCHEDULES_CAP", &c.SchedulesCap)
	e.bytes("WORKER_DEAD_CAP", &c.DeadCap)
	e.duration("WORKER_DEAD_AGE", &c.DeadAge, time.Hour, 10*365*24*time.Hour)
	e.bytes("WORKER_SESSIONS_CAP", &c.SessionsCap)
	e.bytes("WORKER_ARTIFACTS_CAP", &c.ArtifactsCap)
	e.integer("WORKER_VIEW_JOBS", &c.ViewJobs, 1, 100_000_000)
	e.duration("WORKER_VIEW_FORGET", &c.ViewForget, time.Minute, 365*24*time.Hour)
	e.duration("WORKER_WATCH_EVERY", &c.WatchEvery, time.Second, time.Hour)
	e.duration("WORKER_RECONCILE_EVERY", &c.ReconcileEvery, time.Second, 24*time.Hour)
	e.duration("WORKER_ORPHAN_GRACE", &c.OrphanGrace, time.Second, 24*time.Hour)
	e.duration("WORKER_RESUME_TIMEOUT", &c.ResumeTimeout, time.Second, 10*time.Minute)
	e.git(&c.Git)
	c.SecretsDir = e.secretsDir("WORKER_SECRETS_DIR")
	c.PolicyFile = e.file("WORKER_POLICY_FILE")
	e.level("LOG_LEVEL", &c.LogLevel)
	e.choice("LOG_FORMAT", &c.LogFormat, "text", "json")
	return c, errors.Join(e.errs...)
}
