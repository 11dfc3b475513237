package store

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// timeout is how long a dial, a read or a write may take unless the URL says
// otherwise: a frozen Redis must not hang jobs.
const timeout = 2 * time.Second

// newClient makes a client for one of the forms that Open takes, without
// connecting. No error shows the URL: it may hold a password.
func newClient(raw string) (redis.UniversalClient, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, badURL("it cannot be read; is the password escaped?")
	}
	scheme, form, _ := strings.Cut(u.Scheme, "+")
	q := u.Query()
	switch {
	case form != "":
	case q.Has("master_name"):
		form = "sentinel"
	case q.Has("addr"):
		form = "cluster"
	}
	u.Scheme = scheme
	switch form {
	case "":
		return single(u)
	case "sentinel":
		return sentinel(u)
	case "cluster":
		return cluster(u)
	}
	return nil, badURL("its scheme is not known")
}

func single(u *url.URL) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, badURL("an option, the port or the database in it is not known")
	}
	defaults(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	o.MaxRetries, o.DialerRetries = -1, 1 // the flusher tries again where it helps
	o.Protocol, o.PipelinePoolSize = 2, -1
	o.DisableIdentity, o.MaintNotificationsConfig = true, quiet()
	return redis.NewClient(o), nil
}

func sentinel(u *url.URL) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, badURL("an option, the port or the database in it is not known")
	}
	if o.MasterName == "" {
		return nil, badURL("a sentinel URL wants ?master_name=…")
	}
	// One set of credentials serves both: sentinels without a password ignore it.
	o.Username, o.Password = o.SentinelUsername, o.SentinelPassword
	defaults(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	o.MaxRetries, o.DialerRetries = -1, 1
	o.Protocol, o.PipelinePoolSize = 2, -1
	o.DisableIdentity = true
	return redis.NewFailoverClient(o), nil
}

func cluster(u *url.URL) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, badURL("an option, the port or the database in it is not known")
	}
	defaults(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	// Redirects are followed (max_redirects); nothing else is tried again.
	o.MaxRetries, o.DialerRetries = -1, 1
	o.Protocol, o.PipelinePoolSize = 2, -1
	o.DisableIdentity, o.MaintNotificationsConfig = true, quiet()
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false // a replica may be behind
	return redis.NewClusterClient(o), nil
}

// silent takes what the client would print on its own to standard error: the
// errors reach the callers anyway.
type silent struct{}

// Printf prints nothing.
func (silent) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(silent{}) }

// defaults sets those durations that the URL left out.
func defaults(ds ...*time.Duration) {
	for _, d := range ds {
		if *d == 0 {
			*d = timeout
		}
	}
}

func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// badURL says why in words of its own: what a parser finds fault with may be a
// part of a password that was not escaped.
func badURL(why string) error {
	return fmt.Errorf("redis URL: %s: want redis://host:port, rediss://, redis+sentinel://…?master_name=… or redis+cluster://", why)
}
