package events

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/wire"
)

// Names of the streams and of the object bucket, before the namespace.
const (
	StreamEvents   = "EVENTS"
	StreamSessions = "SESSIONS"
	StreamAudit    = "AUDIT"
	BucketArtifact = "ARTIFACTS"
)

// Config sizes the streams. Zero values take the defaults named.
type Config struct {
	Namespace wire.Namespace
	Replicas  int           // 1
	MaxAge    time.Duration // of events: 7 days
	MaxBytes  int64         // of events: 2 GiB

	SessionBytes  int64         // 256 MiB
	AuditBytes    int64         // 256 MiB
	AuditAge      time.Duration // no limit
	ArtifactBytes int64         // 2 GiB
}

const (
	mib = 1 << 20
	gib = 1 << 30

	dupWindow = 2 * time.Minute
	// The server's own default of 1000 consumers would let the 1001st process that
	// watches cancels fail.
	maxConsumers = 10_000
)

func (c Config) defaults() Config {
	or := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.MaxAge == 0 {
		c.MaxAge = 7 * 24 * time.Hour
	}
	or(&c.MaxBytes, 2*gib)
	or(&c.SessionBytes, 256*mib)
	or(&c.AuditBytes, 256*mib)
	or(&c.ArtifactBytes, 2*gib)
	return c
}

// Setup creates the streams and the bucket, or brings them up to date. Several
// processes may run it at once. Errors are those of natsx.EnsureStream.
func Setup(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	cfg = cfg.defaults()
	for _, sc := range cfg.streams() {
		if _, err := natsx.EnsureStream(ctx, js, sc); err != nil {
			return err
		}
	}
	bucket := cfg.Namespace.Stream(BucketArtifact)
	_, err := js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket:      bucket,
		Description: "Files on their way into and out of sandboxes",
		MaxBytes:    cfg.ArtifactBytes,
		Replicas:    cfg.Replicas,
		Metadata:    map[string]string{natsx.Owned: "1"},
	})
	if err != nil {
		return fmt.Errorf("set up object bucket %s: %w", bucket, err)
	}
	return nil
}

// Drift says which settings of the streams are not as Setup would make them. It
// changes nothing.
func Drift(ctx context.Context, js jetstream.JetStream, cfg Config) ([]string, error) {
	var all []string
	for _, sc := range cfg.defaults().streams() {
		changed, err := natsx.Drift(ctx, js, sc)
		if err != nil {
			return all, err
		}
		all = append(all, changed...)
	}
	return all, nil
}

func (c Config) streams() []jetstream.StreamConfig {
	ns := c.Namespace
	return []jetstream.StreamConfig{{
		Name:         ns.Stream(StreamEvents),
		Description:  "Facts: what happened to jobs, what they printed, what state sessions are in",
		Subjects:     []string{ns.Subject("event", ">")},
		Storage:      jetstream.FileStorage,
		Retention:    jetstream.LimitsPolicy,
		Replicas:     c.Replicas,
		MaxAge:       c.MaxAge,
		MaxBytes:     c.MaxBytes,
		MaxConsumers: maxConsumers,
		Duplicates:   dupWindow,
		AllowDirect:  true,
		AllowMsgTTL:  true, // a destroyed session's last state leaves SESSIONS by itself
	}, {
		Name:        ns.Stream(StreamSessions),
		Description: "The last state of every session, copied by the server from the events",
		Sources: []*jetstream.StreamSource{{
			Name:          ns.Stream(StreamEvents),
			FilterSubject: ns.Subject("event", "*", wire.ReservedJob, string(SessionState)),
		}},
		Storage:           jetstream.FileStorage,
		Retention:         jetstream.LimitsPolicy,
		Replicas:          c.Replicas,
		MaxBytes:          c.SessionBytes,
		MaxMsgsPerSubject: 1,
		AllowDirect:       true,
		AllowMsgTTL:       true,
	}, {
		Name:        ns.Stream(StreamAudit),
		Description: "One record for each effect outside, chained by hash",
		Subjects:    []string{ns.Subject("audit", ">")},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Replicas:    c.Replicas,
		MaxAge:      c.AuditAge,
		MaxBytes:    c.AuditBytes,
		Duplicates:  dupWindow,
		AllowDirect: true,
		DenyDelete:  true,
		DenyPurge:   true,
	}}
}
