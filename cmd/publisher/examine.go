package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/query"
)

// minServer is the first NATS release with message schedules, which waiting
// jobs need.
const minServer = "2.12"

// maxSkew is how far our clock may be off the server's. Times in jobs
// (run_after) and in what we print are ours, deadlines are the server's.
const maxSkew = 2 * time.Second

// examine makes every check that a NATS connection allows. What depends on a
// failed check is left out.
func (c *conn) examine(ctx context.Context) []finding {
	found := []finding{c.examineServer()}
	js := c.examineJetStream(ctx)
	found = append(found, js)
	if js.Level != problem {
		var clock finding
		for _, want := range c.expected() {
			f, now := c.examineStream(ctx, want)
			if !now.IsZero() {
				clock = skew(now)
			}
			found = append(found, f)
		}
		found = append(found, c.examineBucket(ctx))
		if clock.Check != "" {
			found = append(found, clock)
		}
	}
	return append(found, c.examineWorker(ctx)...)
}

func (c *conn) examineServer() finding {
	v := c.nc.ConnectedServerVersion()
	where := fmt.Sprintf("%s, version %s", c.nc.ConnectedUrlRedacted(), v)
	if rtt, err := c.nc.RTT(); err == nil {
		where += fmt.Sprintf(", answers in %s", rtt.Round(10*time.Microsecond))
	}
	if older(v, minServer) {
		return finding{"nats", problem, where, "upgrade it to " + minServer + " or later"}
	}
	return fine("nats", "%s", where)
}

func (c *conn) examineJetStream(ctx context.Context) finding {
	info, err := c.js.AccountInfo(ctx)
	switch {
	case err == nil:
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return finding{"jetstream", problem, firstLine(err), "turn it on: jetstream {} in the server's configuration, and in the account"}
	default:
		return finding{"jetstream", problem, firstLine(err), "check that the credentials may use $JS.API.>"}
	}
	if l := info.Limits.MaxStore; l > 0 && info.Store > uint64(l)/10*9 {
		return finding{"jetstream", warning, size(int64(info.Store)) + " of " + size(l) + " used", "raise the account's storage limit"}
	}
	return fine("jetstream", "%d streams, %s stored", info.Streams, size(int64(info.Store)))
}

// stream is what a stream of ours must be.
type stream struct {
	name      string
	subjects  []string // some that it must take in
	retention jetstream.RetentionPolicy
	consumers []string
}

func (c *conn) expected() []stream {
	sub := c.ns.Subject
	return []stream{
		{jobs.StreamJobs, []string{sub("task.run"), sub("task.run", "*"), sub("high.task.run"), sub("low.task.run")}, jetstream.WorkQueuePolicy, []string{jobs.DurableHigh, jobs.DurableNormal, jobs.DurableLow}},
		{jobs.StreamSchedules, []string{sub("schedule", ">"), sub("again", ">")}, jetstream.WorkQueuePolicy, []string{jobs.DurableAgain}},
		{jobs.StreamDead, []string{sub("dead", ">")}, jetstream.LimitsPolicy, nil},
		{events.StreamEvents, []string{sub("event", ">")}, jetstream.LimitsPolicy, nil},
		{events.StreamSessions, nil, jetstream.LimitsPolicy, nil},
		{events.StreamAudit, []string{sub("audit", ">")}, jetstream.LimitsPolicy, nil},
	}
}

// examineStream returns the server's time too, once it has told it.
func (c *conn) examineStream(ctx context.Context, want stream) (finding, time.Time) {
	name := c.ns.Stream(want.name)
	check := "stream " + name
	s, err := c.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return finding{check, problem, "does not exist", "start a worker in this namespace, it makes it"}, time.Time{}
	}
	if err != nil {
		return finding{check, problem, firstLine(err), "check that the credentials may use $JS.API.STREAM.INFO." + name}, time.Time{}
	}
	info := s.CachedInfo()
	if missing := lacking(want.subjects, info.Config.Subjects); len(missing) > 0 {
		return finding{check, problem, "does not take in " + strings.Join(missing, " "), "start a worker of this version, it brings the stream up to date"}, info.TimeStamp
	}
	if info.Config.Retention != want.retention {
		return finding{check, problem, fmt.Sprintf("keeps messages by %s, not %s", info.Config.Retention, want.retention), "it is not Sandjet's: use another --namespace"}, info.TimeStamp
	}
	for _, name := range want.consumers {
		if _, err := s.Consumer(ctx, name); errors.Is(err, jetstream.ErrConsumerNotFound) {
			return finding{check, problem, "has no consumer " + name, "start a worker of this version, it makes it"}, info.TimeStamp
		}
	}
	if limit := info.Config.MaxBytes; limit > 0 && info.Config.Discard == jetstream.DiscardNew && info.State.Bytes > uint64(limit)/10*9 {
		return finding{check, warning, fmt.Sprintf("%s of %s used, then it takes no more", size(int64(info.State.Bytes)), size(limit)), "start more workers"}, info.TimeStamp
	}
	return fine(check, "%d messages, %s", info.State.Msgs, size(int64(info.State.Bytes))), info.TimeStamp
}

// lacking lists the wanted subjects that none of have covers.
func lacking(want, have []string) []string {
	var out []string
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return covers(h, w) }) {
			out = append(out, w)
		}
	}
	return out
}

// covers reports whether all that subject may match is matched by filter.
func covers(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || s[i] == ">":
			return false
		case token != "*" && token != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}

func (c *conn) examineBucket(ctx context.Context) finding {
	check := "bucket " + c.ns.Stream(events.BucketArtifact)
	b, err := c.bucket(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return finding{check, problem, "does not exist", "start a worker in this namespace, it makes it"}
	}
	if err != nil {
		return finding{check, problem, firstLine(err), "check that the credentials may read it"}
	}
	st, err := b.Status(ctx)
	if err != nil {
		return finding{check, problem, firstLine(err), "check that the credentials may read it"}
	}
	return fine(check, "%s stored", size(int64(st.Size())))
}

// skew compares the time that the server has just told with our clock.
func skew(server time.Time) finding {
	d := time.Since(server)
	if d.Abs() <= maxSkew {
		return fine("clock", "within %s of the server's", maxSkew)
	}
	side := "ahead of"
	if d < 0 {
		side = "behind"
	}
	return finding{"clock", warning, fmt.Sprintf("%s %s the server's", d.Abs().Round(100*time.Millisecond), side), "set both by NTP: delays and deadlines are off by that"}
}

func (c *conn) examineWorker(ctx context.Context) []finding {
	s, err := c.ask.Stats(ctx)
	if errors.Is(err, query.ErrNoWorker) {
		return []finding{{"worker", problem, "none answers", "start one with the same NATS and namespace"}}
	}
	if c.owner != "" && query.IsForbidden(err) {
		return []finding{fine("worker", "answers owner %s; the rest is for operators", c.owner)}
	}
	if err != nil {
		return []finding{{"worker", problem, firstLine(err), "look at the worker's log and /readyz"}}
	}
	found := []finding{fine("worker", "%s, version %s; %d queued, %d running, %d waiting", s.Worker, s.Version, s.Queued, s.Running, s.Waiting)}
	if s.Slots.Limit > 0 {
		slots := fine("sandboxes", "%d of %d running", s.Slots.Used, s.Slots.Limit)
		if s.Slots.Used >= s.Slots.Limit {
			slots.Level, slots.ToDo = warning, "jobs wait for one: raise WORKER_SANDBOX_LIMIT if the plan allows it"
		}
		found = append(found, slots)
	}
	if s.Dead > 0 {
		found = append(found, finding{"dead letters", warning, strconv.FormatUint(s.Dead, 10) + " on the shelf", "publisher dead list"})
	}
	return append(found, c.examineInside(ctx)...)
}

// examineInside asks a worker what only workers see.
func (c *conn) examineInside(ctx context.Context) []finding {
	said, err := c.ask.Doctor(ctx)
	if err != nil {
		return []finding{{"worker's own", warning, firstLine(err), "an older worker does not look: start one of this version"}}
	}
	var found []finding
	for _, f := range said.Findings {
		grade := ok
		switch f.Severity {
		case query.SeverityWarning:
			grade = warning
		case query.SeverityRefusal:
			grade = problem
		}
		found = append(found, finding{f.Name, grade, f.What, f.Advice})
	}
	return found
}

// older compares versions of the form 2.12.3 by their first two numbers. What
// it cannot read counts as new enough.
func older(have, want string) bool {
	h, hok := majorMinor(have)
	w, wok := majorMinor(want)
	return hok && wok && slices.Compare(h[:], w[:]) < 0
}

func majorMinor(v string) (out [2]int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(parts) < 2 {
		return out, false
	}
	for i := range out {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return out, false
		}
		out[i] = n
	}
	return out, true
}
