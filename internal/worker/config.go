package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

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

	RedisURL string // REDIS_URL

	E2BKey        func() (string, error) // E2B_API_KEY or E2B_API_KEY_FILE, read again on change
	E2BDomain     string                 // E2B_DOMAIN
	E2BAPIURL     string                 // E2B_API_URL
	E2BSandboxURL string                 // E2B_SANDBOX_URL

	Concurrency  int           // WORKER_CONCURRENCY: jobs at once; 64
	RequireOwner bool          // WORKER_REQUIRE_OWNER: refuse jobs without an owner token
	IdleTimeout  time.Duration // WORKER_IDLE_TIMEOUT: a session idle so long is paused; 5m
	MaxAge       time.Duration // WORKER_MAX_AGE: a session so old is destroyed; 24h
	SandboxLimit int           // WORKER_SANDBOX_LIMIT: running sandboxes of the fleet; 0 = E2B's own limit alone
	CreateRate   float64       // WORKER_CREATE_RATE: sandboxes created or resumed a second, fleet-wide; 0 = no limit of ours
	DrainTimeout time.Duration // WORKER_DRAIN_TIMEOUT: longest time to let go of jobs at a stop; 20s
	Template     string        // WORKER_TEMPLATE: of sessions that name none; base
	HTTPAddr     string        // WORKER_HTTP_ADDR: health, metrics; 127.0.0.1:8090; "off" for none

	AckWait   time.Duration // WORKER_ACK_WAIT: after how long a silent worker's jobs go to another; 30s
	SpoolCap  int64         // WORKER_SPOOL_CAP: bytes kept of each output of a command; 64 MiB
	FileCap   int64         // WORKER_FILE_CAP: largest file moved; 5 GiB
	EventsAge time.Duration // WORKER_EVENTS_AGE: how long events are kept; 168h
	EventsCap int64         // WORKER_EVENTS_CAP: bytes of the event stream; 10 GiB
	JobsCap   int64         // WORKER_JOBS_CAP: bytes of the job stream; 1 GiB

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
		DrainTimeout: 20 * time.Second,
		Template:     "base",
		HTTPAddr:     "127.0.0.1:8090",
		AckWait:      30 * time.Second,
		SpoolCap:     64 << 20,
		FileCap:      5 << 30,
		EventsAge:    7 * 24 * time.Hour,
		EventsCap:    10 << 30,
		JobsCap:      1 << 30,
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
// value that may be a secret is printed.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	e := env{get: getenv}
	c := DefaultConfig()

	if s := getenv("WORKER_NAME"); s != "" {
		e.check(wire.CheckID("WORKER_NAME", s))
		c.Name = s
	}
	ns, err := wire.ParseNamespace(getenv("SANDJET_NAMESPACE"))
	e.check(err)
	c.Namespace = ns
	c.NATS = natsx.Config{
		Name:    "sandjet-worker-" + c.Name,
		URL:     getenv("NATS_URL"),
		Context: getenv("NATS_CONTEXT"),
		Creds:   getenv("NATS_CREDS"),
		NKey:    getenv("NATS_NKEY"),
		CA:      getenv("NATS_CA"),
		Cert:    getenv("NATS_CERT"),
		Key:     getenv("NATS_KEY"),
	}
	if c.NATS.URL == "" && c.NATS.Context == "" {
		e.fail("NATS_URL", "is not set: want a URL such as nats://127.0.0.1:4222, or NATS_CONTEXT with a context of the nats CLI")
	}
	e.integer("NATS_REPLICAS", &c.Replicas, 1, 5)

	if c.RedisURL = getenv("REDIS_URL"); c.RedisURL == "" {
		e.fail("REDIS_URL", "is not set: want a URL such as redis://127.0.0.1:6379/0")
	}

	c.E2BKey = e.key("E2B_API_KEY")
	c.E2BDomain = getenv("E2B_DOMAIN")
	c.E2BAPIURL = e.url("E2B_API_URL")
	c.E2BSandboxURL = e.url("E2B_SANDBOX_URL")

	e.integer("WORKER_CONCURRENCY", &c.Concurrency, 1, 100_000)
	e.boolean("WORKER_REQUIRE_OWNER", &c.RequireOwner)
	e.duration("WORKER_IDLE_TIMEOUT", &c.IdleTimeout, time.Second, 24*time.Hour)
	e.duration("WORKER_MAX_AGE", &c.MaxAge, time.Minute, 365*24*time.Hour)
	e.integer("WORKER_SANDBOX_LIMIT", &c.SandboxLimit, 0, 1_000_000)
	e.rate("WORKER_CREATE_RATE", &c.CreateRate)
	e.duration("WORKER_DRAIN_TIMEOUT", &c.DrainTimeout, time.Second, time.Hour)
	if s := getenv("WORKER_TEMPLATE"); s != "" {
		c.Template = s
	}
	if s := getenv("WORKER_HTTP_ADDR"); s != "" {
		if _, _, err := net.SplitHostPort(s); err != nil && s != "off" {
			e.fail("WORKER_HTTP_ADDR", fmt.Sprintf("is %q: want host:port, or off", s))
		}
		c.HTTPAddr = s
	}
	e.duration("WORKER_ACK_WAIT", &c.AckWait, time.Second, time.Hour)
	e.bytes("WORKER_SPOOL_CAP", &c.SpoolCap)
	e.bytes("WORKER_FILE_CAP", &c.FileCap)
	e.duration("WORKER_EVENTS_AGE", &c.EventsAge, time.Hour, 10*365*24*time.Hour)
	e.bytes("WORKER_EVENTS_CAP", &c.EventsCap)
	e.bytes("WORKER_JOBS_CAP", &c.JobsCap)
	for _, later := range []string{"WORKER_POLICY_FILE", "WORKER_SECRETS_DIR"} {
		if getenv(later) != "" {
			e.fail(later, "is set, but this version has no such capability: unset it")
		}
	}

	if s := getenv("LOG_LEVEL"); s != "" {
		if err := c.LogLevel.UnmarshalText([]byte(s)); err != nil {
			e.fail("LOG_LEVEL", fmt.Sprintf("is %q: want debug, info, warn or error", s))
		}
	}
	switch c.LogFormat = getenv("LOG_FORMAT"); c.LogFormat {
	case "", "text", "json":
	default:
		e.fail("LOG_FORMAT", fmt.Sprintf("is %q: want text or json", c.LogFormat))
	}
	return c, errors.Join(e.errs...)
}

// env collects what is wrong with the environment.
type env struct {
	get  func(string) string
	errs []error
}

func (e *env) fail(name, what string) { e.errs = append(e.errs, fmt.Errorf("%s %s", name, what)) }

func (e *env) check(err error) {
	if err != nil {
		e.errs = append(e.errs, err)
	}
}

func (e *env) integer(name string, to *int, lo, hi int) {
	s := e.get(name)
	if s == "" {
		return
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < lo || n > hi {
		e.fail(name, fmt.Sprintf("is %q: want a whole number from %d to %d", s, lo, hi))
		return
	}
	*to = n
}

func (e *env) rate(name string, to *float64) {
	s := e.get(name)
	if s == "" {
		return
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f > 1e6 {
		e.fail(name, fmt.Sprintf("is %q: want a number a second, 0 for no limit", s))
		return
	}
	*to = f
}

func (e *env) boolean(name string, to *bool) {
	s := e.get(name)
	if s == "" {
		return
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		e.fail(name, fmt.Sprintf("is %q: want true or false", s))
		return
	}
	*to = b
}

func (e *env) duration(name string, to *time.Duration, lo, hi time.Duration) {
	s := e.get(name)
	if s == "" {
		return
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < lo || d > hi {
		e.fail(name, fmt.Sprintf("is %q: want a duration from %s to %s, such as 90s or 5m", s, lo, hi))
		return
	}
	*to = d
}

var units = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

func (e *env) bytes(name string, to *int64) {
	s := e.get(name)
	if s == "" {
		return
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(s, u.suffix); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
			if err != nil || n <= 0 || n > (1<<60)/u.factor {
				break
			}
			*to = n * u.factor
			return
		}
	}
	e.fail(name, fmt.Sprintf("is %q: want a size such as 64MiB or 10GiB", s))
}

func (e *env) url(name string) string {
	s := e.get(name)
	if s == "" {
		return ""
	}
	if u, err := url.Parse(s); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		e.fail(name, "is not a URL: want http://host:port or https://host")
	}
	return strings.TrimRight(s, "/")
}

// key reads a credential from NAME or NAME_FILE.
func (e *env) key(name string) func() (string, error) {
	value, file := e.get(name), e.get(name+"_FILE")
	switch {
	case value != "" && file != "":
		e.fail(name, "and "+name+"_FILE are both set: want one of them")
	case value == "" && file == "":
		e.fail(name, "is not set: want the key, or its file in "+name+"_FILE")
	case file != "":
		k := &keyFile{path: file}
		if _, err := k.read(); err != nil {
			e.fail(name+"_FILE", err.Error())
		}
		return k.read
	}
	return func() (string, error) { return value, nil }
}
