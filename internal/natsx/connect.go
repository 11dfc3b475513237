package natsx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"
)

// Config says where NATS is and who we are. Everything may be empty: then it is
// nats://127.0.0.1:4222 without credentials.
type Config struct {
	URL     string // one or more, comma separated; wins over Context's
	Context string // a context of the nats command line tool, by name or absolute path
	Creds   string // credentials file
	NKey    string // file with an NKey seed
	CA      string // PEM file with the certificate authorities to trust
	Cert    string // PEM file with our certificate; needs Key
	Key     string
	Name    string // what the server shows for this connection

	InboxPrefix string // "_INBOX" unless the account's permissions want another
}

const (
	reconnectWait = 250 * time.Millisecond
	dialTimeout   = 5 * time.Second
	pingInterval  = 10 * time.Second
)

// Connect connects and keeps the connection: once it stood, it is made again for
// ever. Until the first success it retries what may heal by itself (no server
// yet) until ctx ends, and returns at once what does not (bad credentials,
// unreadable files). No error holds a credential.
func Connect(ctx context.Context, cfg Config, log *slog.Logger) (*nats.Conn, error) {
	opts, err := cfg.options(log)
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", redact(err))
	}
	for {
		nc, err := cfg.dial(opts)
		if err == nil {
			return nc, nil
		}
		if !heals(err) {
			return nil, fmt.Errorf("connect to %s: %w", cfg.where(), redact(err))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: %w (gave up: %w)", cfg.where(), redact(err), context.Cause(ctx))
		case <-time.After(reconnectWait):
		}
	}
}

// dial makes one attempt.
func (c Config) dial(opts []nats.Option) (*nats.Conn, error) {
	if c.Context == "" {
		return nats.Connect(c.url(), opts...)
	}
	if c.URL != "" {
		// The options come after the context's own, so this one wins.
		opts = append(opts, func(o *nats.Options) error {
			o.Url, o.Servers = c.URL, nil
			return nil
		})
	}
	nc, _, err := natscontext.Connect(c.Context, opts...)
	return nc, err
}

func (c Config) url() string {
	if c.URL == "" {
		return nats.DefaultURL
	}
	return c.URL
}

// where names the target for an error, without credentials.
func (c Config) where() string {
	if c.Context != "" {
		return fmt.Sprintf("nats (context %s)", c.Context)
	}
	return scrub(c.url())
}

func (c Config) options(log *slog.Logger) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, time.Second),
		nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(), // credentials may be rotated while we are cut off
	}
	opts = append(opts, logging(log)...)
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.NKey != "" {
		nk, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey: %w", err)
		}
		opts = append(opts, nk)
	}
	if c.CA != "" {
		opts = append(opts, nats.RootCAs(c.CA))
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("a client certificate needs both the certificate and its key")
	}
	if c.Cert != "" {
		opts = append(opts, nats.ClientCert(c.Cert, c.Key))
	}
	if c.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	return opts, nil
}

// logging reports what an operator wants to know of a connection's life.
func logging(log *slog.Logger) []nats.Option {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("nats connection lost", "err", redact(err))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("nats connected again", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub != nil {
				log.Warn("nats error", "err", redact(err), "subject", sub.Subject)
				return
			}
			log.Warn("nats error", "err", redact(err))
		}),
	}
}

// heals reports whether a failed first attempt is worth another one. A dial or
// handshake that ran into nothing is; what the server or we refused is not.
func heals(err error) bool {
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout)
}

var userinfo = regexp.MustCompile(`//[^/@\s"]*@`)

func scrub(s string) string { return userinfo.ReplaceAllString(s, "//***@") }

// redacted prints like the error it holds, without the user part of URLs.
type redacted struct{ err error }

func (r redacted) Error() string { return scrub(r.err.Error()) }
func (r redacted) Unwrap() error { return r.err }

func redact(err error) error {
	if err == nil {
		return nil
	}
	return redacted{err}
}
