package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/store"
)

// ErrRefused happens when the worker does not start in a deployment like this. Each
// line of the error is a finding of its own.
var ErrRefused = errors.New("refused")

// maxSkew is how far clocks may be apart: deadlines and delays are off by that.
const maxSkew = 2 * time.Second

// doctor looks at what a worker needs, with what it needs it by.
type doctor struct {
	app    *App
	queue  *jobs.Queue
	view   *store.Store
	client *e2b.Client
}

// examine makes every check, all at once; each has its limit.
func (d *doctor) examine(ctx context.Context) []query.Finding {
	checks := []func(context.Context) []query.Finding{
		d.durability, d.streams, d.consumers, d.eviction, d.clocks, d.permissions, d.key, d.sources,
	}
	found := make([][]query.Finding, len(checks))
	var wg sync.WaitGroup
	for i, check := range checks {
		wg.Go(func() {
			ctx, cancel := within(ctx)
			defer cancel()
			found[i] = check(ctx)
		})
	}
	wg.Wait()
	return slices.Concat(found...)
}

// refusals returns the refusals of found as one error, each on a line of its own.
func refusals(found []query.Finding) error {
	var refused []error
	for _, f := range found {
		if f.Severity == query.SeverityRefusal {
			refused = append(refused, fmt.Errorf("%w: %s: %s: %s", ErrRefused, f.Name, f.What, f.Advice))
		}
	}
	return errors.Join(refused...)
}

// warn logs the warnings of found.
func (a *App) warn(found []query.Finding) {
	for _, f := range found {
		if f.Severity == query.SeverityWarning {
			a.log.Warn("doctor found something", "name", f.Name, "what", f.What, "advice", f.Advice)
		}
	}
}

func fine(name, format string, args ...any) []query.Finding {
	return []query.Finding{{Severity: query.SeverityOK, Name: name, What: fmt.Sprintf(format, args...)}}
}

func finding(severity, name, what, advice string) []query.Finding {
	return []query.Finding{{Severity: severity, Name: name, What: what, Advice: advice}}
}

// unread is a check that could not be made.
func unread(name string, err error, advice string) []query.Finding {
	return finding(query.SeverityWarning, name, "cannot be read: "+err.Error(), advice)
}

// grave is a refusal in production and a warning elsewhere.
func (d *doctor) grave() string {
	if d.app.cfg.Production {
		return query.SeverityRefusal
	}
	return query.SeverityWarning
}

// sources: secrets that cannot be used, or that others on the machine can read.
func (d *doctor) sources(context.Context) (found []query.Finding) {
	const name = "secrets"
	for _, err := range d.app.secrets.Check() {
		found = append(found, finding(query.SeverityWarning, name, err.Error(), "set it right, or take it away")...)
	}
	if len(found) == 0 {
		return fine(name, "nothing amiss in their sources")
	}
	return found
}

// durability: an acknowledged job must outlive the machine that has acknowledged it.
func (d *doctor) durability(context.Context) []query.Finding {
	const name = "durability"
	switch cfg := d.app.cfg; {
	case cfg.Replicas > 1:
		return fine(name, "%d replicas", cfg.Replicas)
	case cfg.NATSSynced:
		return fine(name, "one replica, every write synced")
	case !cfg.Production:
		return fine(name, "one replica: enough for development")
	}
	return finding(query.SeverityRefusal, name, "one replica of every stream, and writes may wait two minutes for the disk",
		"set NATS_REPLICAS=3, or sync_interval: always in the server's jetstream block and NATS_SYNCED=true here; or unset WORKER_PRODUCTION")
}

// streams: settings that somebody has changed since.
func (d *doctor) streams(ctx context.Context) []query.Finding {
	const name = "stream settings"
	drifted, err := events.Drift(ctx, d.app.js, d.app.eventsConfig())
	more, err2 := d.queue.Drift(ctx)
	if err := errors.Join(err, err2); err != nil {
		return unread(name, err, "look at the streams: nats stream report")
	}
	if drifted = append(drifted, more...); len(drifted) > 0 {
		return finding(query.SeverityWarning, name, strings.Join(drifted, "; "), "a starting worker sets them back: change the worker's settings instead, the same for all workers")
	}
	return fine(name, "as set up")
}

// consumers: the server refuses those beyond a stream's limit.
func (d *doctor) consumers(ctx context.Context) []query.Finding {
	const name = "consumer limits"
	for _, short := range []string{events.StreamEvents, events.StreamSessions, jobs.StreamJobs, jobs.StreamSchedules} {
		stream := d.app.cfg.Namespace.Stream(short)
		s, err := d.app.js.Stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // about to be made
		}
		if err != nil {
			return unread(name, fmt.Errorf("stream %s: %w", stream, err), "look at it: nats stream info "+stream)
		}
		limit := s.CachedInfo().Config.MaxConsumers
		if limit <= 0 {
			limit = 1000 // the server's own
		}
		if n := s.CachedInfo().State.Consumers; n*10 >= limit*9 {
			return finding(query.SeverityWarning, name, fmt.Sprintf("%s has %d of %d consumers", stream, n, limit),
				"find who makes them (nats consumer ls "+stream+"): subscribers need none, they can follow by direct gets")
		}
	}
	return fine(name, "far away")
}

// eviction: an evicted key is a lost deadline or lease.
func (d *doctor) eviction(ctx context.Context) []query.Finding {
	const name = "redis memory"
	policy, limited, err := d.view.Eviction(ctx)
	switch {
	case err != nil:
		return unread(name, err, "allow INFO to the worker's Redis user")
	case policy == "" || policy == "noeviction":
		return fine(name, "evicts nothing")
	case !limited:
		return finding(query.SeverityWarning, name, "maxmemory-policy is "+policy+", without effect while maxmemory is 0", "set it to noeviction")
	}
	return finding(d.grave(), name, "maxmemory-policy is "+policy+": an evicted key is a lost deadline or lease", "set it to noeviction")
}

// clocks compares ours with those of NATS and Redis.
func (d *doctor) clocks(ctx context.Context) []query.Finding {
	const name = "clocks"
	s, err := d.app.js.Stream(ctx, d.app.cfg.Namespace.Stream(events.StreamEvents))
	var worst time.Duration
	whose := "NATS"
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound): // about to be made
	case err != nil:
		return unread(name, err, "look at the stream EVENTS")
	default:
		worst = time.Since(s.CachedInfo().TimeStamp)
	}
	redis, err := d.view.Clock(ctx)
	if err != nil {
		return unread(name, err, "allow TIME to the worker's Redis user")
	}
	if skew := time.Since(redis); skew.Abs() > worst.Abs() {
		worst, whose = skew, "Redis"
	}
	if worst.Abs() > maxSkew {
		return finding(query.SeverityWarning, name, fmt.Sprintf("this worker's is %s off that of %s", worst.Round(100*time.Millisecond), whose), "set them by NTP: deadlines and delays are off by that")
	}
	return fine(name, "within %s", maxSkew)
}

// permissions compares what the server lets us do with what a worker does.
func (d *doctor) permissions(ctx context.Context) []query.Finding {
	const name = "nats permissions"
	m, err := d.app.nc.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil {
		return fine(name, "the server does not tell")
	}
	var info struct {
		Data struct {
			Permissions *struct{ Publish, Subscribe rules } `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Data.Permissions == nil {
		return fine(name, "unlimited")
	}
	ns := d.app.cfg.Namespace
	var lacking []string
	for _, token := range []string{"event", "dead", "schedule", "again", "wake", "sandbox", "audit"} {
		if subject := ns.Subject(token, ">"); !info.Data.Permissions.Publish.let(subject) {
			lacking = append(lacking, "publish "+subject)
		}
	}
	for _, subject := range []string{"$JS.API.>", "$JS.ACK.>"} {
		if !info.Data.Permissions.Publish.let(subject) {
			lacking = append(lacking, "publish "+subject)
		}
	}
	for _, subject := range []string{"_INBOX.>", "$SRV.>", ns.Subject("api", ">"), ns.Subject("wake", ">"), ns.Subject("event", ">")} {
		if !info.Data.Permissions.Subscribe.let(subject) {
			lacking = append(lacking, "subscribe "+subject)
		}
	}
	if len(lacking) > 0 {
		return finding(query.SeverityWarning, name, "not all of what a worker needs: "+strings.Join(lacking, ", "), "allow it to the worker's NATS user")
	}
	return fine(name, "enough")
}

// rules are the server's permissions for one direction.
type rules struct{ Allow, Deny []string }

// let reports whether everything under a subject is allowed. What is denied in
// part is not.
func (r rules) let(subject string) bool {
	denied := slices.ContainsFunc(r.Deny, func(s string) bool { return jobs.Covers(s, subject) || jobs.Covers(subject, s) })
	return !denied && (len(r.Allow) == 0 || slices.ContainsFunc(r.Allow, func(s string) bool { return jobs.Covers(s, subject) }))
}

// key proves the E2B key with a free read.
func (d *doctor) key(ctx context.Context) []query.Finding {
	const name = "e2b"
	switch err := d.client.Ping(ctx); {
	case err == nil:
		return fine(name, "takes the key")
	case errors.Is(err, e2b.ErrUnauthorized), errors.Is(err, e2b.ErrForbidden):
		return finding(query.SeverityRefusal, name, "does not take the key", "put a valid one into E2B_API_KEY, or into the file E2B_API_KEY_FILE, which is read again on change")
	default:
		return finding(query.SeverityWarning, name, "does not answer: "+err.Error(), "look at E2B's status; jobs wait meanwhile")
	}
}
