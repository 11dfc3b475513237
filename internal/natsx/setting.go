package natsx

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// setting is one field of a stream's configuration: how to read it, how to carry
// it over, and which change of it no server allows in place.
type setting struct {
	name  string
	value func(c *jetstream.StreamConfig) any // nil: no opinion
	carry func(dst, src *jetstream.StreamConfig)
	fixed func(have, want *jetstream.StreamConfig) bool
}

func always(_, _ *jetstream.StreamConfig) bool { return true }

// once is for a switch that cannot be turned off again.
func once(get func(c *jetstream.StreamConfig) bool) func(have, want *jetstream.StreamConfig) bool {
	return func(have, want *jetstream.StreamConfig) bool { return get(have) && !get(want) }
}

// workQueue is for a change from or to work-queue retention.
func workQueue(have, want *jetstream.StreamConfig) bool {
	return have.Retention == jetstream.WorkQueuePolicy || want.Retention == jetstream.WorkQueuePolicy
}

// cap64 reads a limit; 0 and -1 both mean none.
func cap64[T ~int | ~int32 | ~int64](v T) any {
	if v <= 0 {
		return int64(-1)
	}
	return int64(v)
}

// opinion is v, or nil for a zero v: then what the server has is fine.
func opinion[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// settings lists every setting that EnsureStream compares. What is not in it stays
// as the operator has it (placement, compression, consumer limits).
var settings = []setting{
	{
		"retention", func(c *jetstream.StreamConfig) any { return c.Retention.String() },
		func(d, s *jetstream.StreamConfig) { d.Retention = s.Retention }, workQueue,
	},
	{
		"storage", func(c *jetstream.StreamConfig) any { return c.Storage.String() },
		func(d, s *jetstream.StreamConfig) { d.Storage = s.Storage }, always,
	},
	{
		"subjects", func(c *jetstream.StreamConfig) any { return sorted(c.Subjects) },
		func(d, s *jetstream.StreamConfig) { d.Subjects = s.Subjects }, nil,
	},
	{
		"sources", sources,
		func(d, s *jetstream.StreamConfig) { d.Sources = s.Sources }, nil,
	},
	{
		"replicas", func(c *jetstream.StreamConfig) any { return opinion(c.Replicas) },
		func(d, s *jetstream.StreamConfig) { d.Replicas = s.Replicas }, nil,
	},
	{
		"max age", func(c *jetstream.StreamConfig) any { return c.MaxAge },
		func(d, s *jetstream.StreamConfig) { d.MaxAge = s.MaxAge }, nil,
	},
	{
		"max bytes", func(c *jetstream.StreamConfig) any { return cap64(c.MaxBytes) },
		func(d, s *jetstream.StreamConfig) { d.MaxBytes = s.MaxBytes }, nil,
	},
	{
		"max messages", func(c *jetstream.StreamConfig) any { return cap64(c.MaxMsgs) },
		func(d, s *jetstream.StreamConfig) { d.MaxMsgs = s.MaxMsgs }, nil,
	},
	{
		"max messages per subject", func(c *jetstream.StreamConfig) any { return cap64(c.MaxMsgsPerSubject) },
		func(d, s *jetstream.StreamConfig) { d.MaxMsgsPerSubject = s.MaxMsgsPerSubject }, nil,
	},
	{
		"max message size", func(c *jetstream.StreamConfig) any { return cap64(c.MaxMsgSize) },
		func(d, s *jetstream.StreamConfig) { d.MaxMsgSize = s.MaxMsgSize }, nil,
	},
	{
		"max consumers", func(c *jetstream.StreamConfig) any { return opinion(c.MaxConsumers) },
		func(d, s *jetstream.StreamConfig) { d.MaxConsumers = s.MaxConsumers }, nil,
	},
	{
		"discard", func(c *jetstream.StreamConfig) any { return c.Discard.String() },
		func(d, s *jetstream.StreamConfig) { d.Discard = s.Discard }, nil,
	},
	{
		"duplicate window", func(c *jetstream.StreamConfig) any { return opinion(c.Duplicates) },
		func(d, s *jetstream.StreamConfig) { d.Duplicates = s.Duplicates }, nil,
	},
	{
		"allow direct", func(c *jetstream.StreamConfig) any { return c.AllowDirect },
		func(d, s *jetstream.StreamConfig) { d.AllowDirect = s.AllowDirect }, nil,
	},
	{
		"allow rollup", func(c *jetstream.StreamConfig) any { return c.AllowRollup },
		func(d, s *jetstream.StreamConfig) { d.AllowRollup = s.AllowRollup }, nil,
	},
	{
		"allow atomic publish", func(c *jetstream.StreamConfig) any { return c.AllowAtomicPublish },
		func(d, s *jetstream.StreamConfig) { d.AllowAtomicPublish = s.AllowAtomicPublish }, nil,
	},
	{
		"deny delete", func(c *jetstream.StreamConfig) any { return c.DenyDelete },
		func(d, s *jetstream.StreamConfig) { d.DenyDelete = s.DenyDelete },
		once(func(c *jetstream.StreamConfig) bool { return c.DenyDelete }),
	},
	{
		"deny purge", func(c *jetstream.StreamConfig) any { return c.DenyPurge },
		func(d, s *jetstream.StreamConfig) { d.DenyPurge = s.DenyPurge },
		once(func(c *jetstream.StreamConfig) bool { return c.DenyPurge }),
	},
	{
		"allow message ttl", func(c *jetstream.StreamConfig) any { return c.AllowMsgTTL },
		func(d, s *jetstream.StreamConfig) { d.AllowMsgTTL = s.AllowMsgTTL },
		once(func(c *jetstream.StreamConfig) bool { return c.AllowMsgTTL }),
	},
	{
		"allow message schedules", func(c *jetstream.StreamConfig) any { return c.AllowMsgSchedules },
		func(d, s *jetstream.StreamConfig) { d.AllowMsgSchedules = s.AllowMsgSchedules },
		once(func(c *jetstream.StreamConfig) bool { return c.AllowMsgSchedules }),
	},
	{
		"description", func(c *jetstream.StreamConfig) any { return opinion(c.Description) },
		func(d, s *jetstream.StreamConfig) { d.Description = s.Description }, nil,
	},
}

func sorted(s []string) any {
	s = slices.Clone(s)
	slices.Sort(s)
	return strings.Join(s, ", ")
}

func sources(c *jetstream.StreamConfig) any {
	var s []string
	for _, src := range c.Sources {
		s = append(s, fmt.Sprintf("%s (%s)", src.Name, src.FilterSubject))
	}
	return sorted(s)
}

// drift brings have to want and says what that changes. It returns a *DriftError
// if the server would not allow it.
func drift(have, want *jetstream.StreamConfig) (next jetstream.StreamConfig, changed []string, err error) {
	next = *have
	for _, s := range settings {
		h, w := s.value(have), s.value(want)
		if w == nil || reflect.DeepEqual(h, w) {
			continue
		}
		if s.fixed != nil && s.fixed(have, want) {
			return next, nil, &DriftError{Stream: want.Name, Setting: s.name, Have: fmt.Sprint(h), Want: fmt.Sprint(w)}
		}
		s.carry(&next, want)
		changed = append(changed, fmt.Sprintf("%s %v (was %v)", s.name, w, h))
	}
	return next, changed, nil
}
