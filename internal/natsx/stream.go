package natsx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Owned is the metadata key that marks a stream as ours.
const Owned = "dev.sandjet"

const ownedValue = "1"

// DriftError is a stream whose settings are not those we need, and that cannot be
// changed in place.
type DriftError struct {
	Stream, Setting, Have, Want string
}

// Error says what is wrong and what to do.
func (e *DriftError) Error() string {
	return fmt.Sprintf("stream %s: %s is %s, want %s, and no server changes that in place: "+
		"back the stream up, delete it and start again, or use another namespace", e.Stream, e.Setting, e.Have, e.Want)
}

// ForeignError is a stream of the right name, or with our subjects, that is not
// ours.
type ForeignError struct {
	Stream  string
	Subject string // the subject it holds, if its name is not ours
}

// Error says what is wrong and what to do.
func (e *ForeignError) Error() string {
	if e.Subject != "" {
		return fmt.Sprintf("stream %s already takes subject %s: delete it, or use another namespace", e.Stream, e.Subject)
	}
	return fmt.Sprintf("stream %s exists and is not Sandjet's (no metadata %q): "+
		"use another namespace, or delete the stream", e.Stream, Owned)
}

// EnsureStream creates the stream or brings its settings up to date; several
// processes may do so at once. A stream that somebody else made is refused with a
// *ForeignError, a setting that cannot be changed in place with a *DriftError.
func EnsureStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[Owned] = ownedValue

	s, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, cfg)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil, fmt.Errorf("create stream %s: %w", cfg.Name, overlap(ctx, js, cfg, err))
		}
		s, err = js.Stream(ctx, cfg.Name) // another process was faster
	}
	if err != nil {
		return nil, fmt.Errorf("look up stream %s: %w", cfg.Name, err)
	}
	return update(ctx, js, s, cfg)
}

// Drift says which settings of a stream are not those of cfg. A stream that is not
// there has none. Nothing is changed.
func Drift(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) ([]string, error) {
	s, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up stream %s: %w", cfg.Name, err)
	}
	have := s.CachedInfo().Config
	var all []string
	for _, set := range settings {
		if h, w := set.value(&have), set.value(&cfg); w != nil && !reflect.DeepEqual(h, w) {
			all = append(all, fmt.Sprintf("stream %s: %s %v (should be %v)", cfg.Name, set.name, h, w))
		}
	}
	return all, nil
}

// update brings an existing stream up to date.
func update(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	have := s.CachedInfo().Config
	if have.Metadata[Owned] == "" {
		return nil, &ForeignError{Stream: cfg.Name}
	}
	next, changed, err := drift(&have, &cfg)
	if err != nil {
		return nil, err
	}
	next.Metadata = maps.Clone(have.Metadata)
	for k, v := range cfg.Metadata {
		if next.Metadata[k] != v {
			next.Metadata[k] = v
			changed = append(changed, fmt.Sprintf("metadata %s %s", k, v))
		}
	}
	if len(changed) == 0 {
		return s, nil
	}
	s, err = js.UpdateStream(ctx, next)
	if err != nil {
		return nil, fmt.Errorf("update stream %s (%s): %w", cfg.Name, strings.Join(changed, "; "), overlap(ctx, js, cfg, err))
	}
	return s, nil
}

// overlap names the stream in the way, if that is what err is about.
func overlap(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != codeOverlap {
		return err
	}
	for _, subject := range cfg.Subjects {
		names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range names.Name() {
			if name != cfg.Name {
				return &ForeignError{Stream: name, Subject: subject}
			}
		}
	}
	return err
}

// EnsureConsumer creates the durable consumer or brings it up to date.
func EnsureConsumer(ctx context.Context, stream jetstream.Stream, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	name := stream.CachedInfo().Config.Name
	c, err := stream.CreateOrUpdateConsumer(ctx, cfg)
	if err == nil {
		return c, nil
	}
	if old, lookup := stream.Consumer(ctx, cfg.Durable); lookup == nil {
		if what := consumerDrift(old.CachedInfo().Config, cfg); what != "" {
			return nil, fmt.Errorf("consumer %s of stream %s: %s, which cannot be changed in place: "+
				"delete the consumer (its unfinished messages are delivered again): %w", cfg.Durable, name, what, err)
		}
	}
	return nil, fmt.Errorf("set up consumer %s of stream %s: %w", cfg.Durable, name, err)
}

// consumerDrift names the first setting that differs and cannot be changed.
func consumerDrift(have, want jetstream.ConsumerConfig) string {
	for _, d := range []struct {
		name       string
		have, want any
	}{
		{"ack policy", have.AckPolicy, want.AckPolicy},
		{"deliver policy", have.DeliverPolicy, want.DeliverPolicy},
		{"replay policy", have.ReplayPolicy, want.ReplayPolicy},
		{"max waiting", have.MaxWaiting, max(want.MaxWaiting, 0)},
		{"priority policy", have.PriorityPolicy, want.PriorityPolicy},
	} {
		if d.have != d.want && d.want != 0 {
			return fmt.Sprintf("%s is %v, want %v", d.name, d.have, d.want)
		}
	}
	return ""
}
