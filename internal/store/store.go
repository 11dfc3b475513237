package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandjet/sandjet/internal/wire"
)

// Store is a connection to the view. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	keys   keys
	flush  *flusher
	opts   options
	life   life
	puts   atomic.Uint64 // of job views
}

type options struct {
	hold, forget, settle, jobTTL time.Duration
	jobCap, jobBudget            int
	queue, batch                 int
	slots                        slotOptions
}

// Option changes what Open builds.
type Option func(*options)

// WithSettle sets how long a new view counts as young: until all running jobs
// have surely renewed their entries. The default is 30 seconds.
func WithSettle(d time.Duration) Option { return func(o *options) { o.settle = d } }

// WithJobs sets how many job views are kept, and how long one that does not
// change is. The default is 100,000 and 24 hours.
func WithJobs(n int, ttl time.Duration) Option {
	return func(o *options) { o.jobCap, o.jobTTL = n, ttl }
}

// WithQueue sets how many calls may wait for the pipeline (further ones block in
// their callers), and how many commands one flush takes. The default is 4096
// and 512.
func WithQueue(calls, batch int) Option {
	return func(o *options) { o.queue, o.batch = calls, batch }
}

// Open connects to the Redis at url, checks that it answers and is 6.2 or newer,
// and loads the scripts. It fails with ErrUnavailable if Redis cannot be reached.
// The forms of url:
//
//	redis://[user:password@]host:port[/db]              one server; rediss:// with TLS
//	unix:///path/to/socket[?db=1]                       one server
//	redis+sentinel://host:port[/db]?master_name=m[&addr=host:port]...
//	redis+cluster://host:port[?addr=host:port]...       (rediss+… with TLS)
//
// A redis:// URL with master_name is a sentinel one, with addr a cluster one.
// Options such as read_timeout=1s or pool_size=5 follow as a query.
func Open(ctx context.Context, url string, ns wire.Namespace, opts ...Option) (*Store, error) {
	client, err := newClient(url)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, keys: newKeys(ns), opts: options{
		hold: 10 * time.Minute, forget: time.Hour, settle: 30 * time.Second, jobTTL: 24 * time.Hour,
		jobCap: 100_000, jobBudget: 20_000, queue: 4096, batch: 512,
		slots: slotOptions{lease: 30 * time.Minute, grant: 30 * time.Second, probe: 5 * time.Second},
	}}
	for _, o := range opts {
		o(&s.opts)
	}
	if err := s.prepare(ctx); err != nil {
		_ = client.Close()
		return nil, err
	}
	s.flush = newFlusher(client, s.opts.queue, s.opts.batch, s.keys.due(Idle), s.watch)
	return s, nil
}

// prepare checks the server and gives it the scripts.
func (s *Store) prepare(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return wrap("reach redis", err)
	}
	if v := s.info(ctx, "server", "redis_version"); v != "" && !atLeast(v, 6, 2) {
		return fmt.Errorf("redis is version %s: want 6.2 or newer", v)
	}
	return wrap("load scripts", load(ctx, s.client))
}

// info reads one field of INFO. Servers that do not tell it give "".
func (s *Store) info(ctx context.Context, section, field string) string {
	text, err := s.client.Info(ctx, section).Result()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func atLeast(version string, major, minor int) bool {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 != nil || err2 != nil || x > major || x == major && y >= minor
}

// Eviction returns what Redis does when its memory is full, "" if it does not tell,
// and whether there is a limit at all. Anything but noeviction may lose a deadline
// or a lease.
func (s *Store) Eviction(ctx context.Context) (policy string, limited bool, err error) {
	if err := s.Ping(ctx); err != nil {
		return "", false, err
	}
	limit := s.info(ctx, "memory", "maxmemory")
	return s.info(ctx, "memory", "maxmemory_policy"), limit != "" && limit != "0", nil
}

// Clock returns Redis' time, by which all deadlines and leases go.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	cmd := plain(ctx, "time")
	if err := s.flush.do1(ctx, cmd); err != nil {
		return time.Time{}, wrap("read the clock of redis", err)
	}
	now := reply(cmd)
	return time.Unix(now.int(0), now.int(1)*1000), nil
}

// Ping asks Redis for an answer.
func (s *Store) Ping(ctx context.Context) error {
	return wrap("ping redis", s.flush.do1(ctx, plain(ctx, "ping")))
}

// Close ends the connections. Calls under way end with ErrClosed. It may be
// called more than once.
func (s *Store) Close() error {
	s.flush.close()
	if err := s.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("close redis: %w", err)
	}
	return nil
}

// ms is a duration as Redis takes it: whole milliseconds, at least one.
func ms(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
