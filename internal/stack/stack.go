package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sandjet/sandjet/internal/e2b/local"
)

// patience is how long a part may take to start or to stop, on a busy machine too.
const patience = 30 * time.Second

// Options says where a Stack listens and what it keeps. The zero value is a
// stack on free ports of 127.0.0.1 whose data is gone when it stops.
type Options struct {
	DataDir   string // keeps everything across restarts; empty is a temporary folder
	NATSAddr  string // "127.0.0.1:4222"; empty picks a free port, as below
	RedisAddr string
	E2BAddr   string
	Log       *slog.Logger // what the parts have to say; nil is nothing
	E2B       E2BOptions   // of StartE2B only
}

// E2BOptions are what the sandbox server can do when it stands alone.
type E2BOptions struct {
	Insecure bool          // take an address beyond loopback without strong isolation
	Faults   *local.Faults // a script of failures; nil is none
	Latency  time.Duration // what every call waits
	Record   io.Writer     // takes the traffic, without secrets; nil is nowhere
	Limits   local.Limits  // of one sandbox
	// NoNetwork leaves sandboxes no way out but their egress proxies, see [local.Config].
	NoNetwork bool
	EgressCA  string // a file of certificates that these trust too; empty is none
	// Templates is a directory of recipes; StrictTemplates lets no other name be one.
	Templates       string
	StrictTemplates bool
}

// Stack is the outside systems in one process, all on loopback.
type Stack struct {
	NATS  *server.Server // nil after StartE2B
	Redis *Redis         // nil after StartE2B
	E2B   *local.Server

	DataDir   string
	Temporary bool // DataDir goes when the stack stops

	opts   Options
	apiKey string
	stops  []func(context.Context) error // in the order of the start
}

// Start starts all parts and waits until each takes requests. It fails if an
// address is taken or not loopback, or if another stack uses the data folder;
// then nothing is left running.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{opts: o}
	return s.start(ctx, s.openData, s.startNATS, s.startRedis, s.startE2B)
}

// StartE2B starts the sandbox server alone.
func StartE2B(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{opts: o}
	return s.start(ctx, s.openData, s.startLoneE2B)
}

func (s *Stack) start(ctx context.Context, parts ...func(context.Context) error) (*Stack, error) {
	for _, part := range parts {
		if err := part(ctx); err != nil {
			return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}
	return s, nil
}

// Stop stops the parts in the reverse order of their start, each waited for,
// and removes a temporary data folder. It may be called again.
func (s *Stack) Stop(ctx context.Context) error {
	var errs []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		errs = append(errs, s.stops[i](ctx))
	}
	s.stops = nil
	return errors.Join(errs...)
}

// NATSURL is where NATS listens.
func (s *Stack) NATSURL() string { return s.NATS.ClientURL() }

// RedisURL is where Redis listens.
func (s *Stack) RedisURL() string { return s.Redis.URL() }

// E2BURL is where the sandbox server listens, with both of its planes.
func (s *Stack) E2BURL() string { return s.E2B.URL() }

// Env lists what a worker, a publisher or an E2B SDK needs to use this stack.
func (s *Stack) Env() []Var {
	return append([]Var{
		{"NATS_URL", s.NATSURL()},
		{"REDIS_URL", s.RedisURL()},
	}, s.E2BEnv()...)
}

// E2BEnv lists what an E2B SDK needs to use the sandbox server.
func (s *Stack) E2BEnv() []Var {
	return []Var{
		{"E2B_API_URL", s.E2BURL()},
		{"E2B_SANDBOX_URL", s.E2BURL()},
		{"E2B_API_KEY", s.apiKey},
	}
}

// openData makes or takes the data folder.
func (s *Stack) openData(context.Context) error {
	s.DataDir = s.opts.DataDir
	if s.DataDir == "" {
		dir, err := os.MkdirTemp("", "sandjet-")
		if err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		s.DataDir, s.Temporary = dir, true
		s.stops = append(s.stops, func(context.Context) error { return os.RemoveAll(dir) })
	}
	dir, err := filepath.Abs(s.DataDir)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	s.DataDir = dir
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, unlock)
	s.apiKey, err = apiKey(dir)
	return err
}

func (s *Stack) startNATS(context.Context) (err error) {
	s.NATS, err = StartNATS(NATSOptions{Addr: s.opts.NATSAddr, StoreDir: filepath.Join(s.DataDir, "nats")})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, func(context.Context) error {
		s.NATS.Shutdown()
		s.NATS.WaitForShutdown()
		return nil
	})
	return nil
}

func (s *Stack) startRedis(context.Context) (err error) {
	s.Redis, err = StartRedis(RedisOptions{Addr: s.opts.RedisAddr, Dir: filepath.Join(s.DataDir, "redis")})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, func(context.Context) error { return s.Redis.Stop() })
	return nil
}

func (s *Stack) startE2B(ctx context.Context) error {
	if _, _, err := splitAddr(s.opts.E2BAddr); err != nil {
		return fmt.Errorf("sandbox server address: %w", err)
	}
	return s.runE2B(ctx, local.Config{Addr: s.opts.E2BAddr})
}

// startLoneE2B leaves it to the server which addresses are safe: it knows how
// well its sandboxes are fenced off.
func (s *Stack) startLoneE2B(ctx context.Context) error {
	o := s.opts.E2B
	return s.runE2B(ctx, local.Config{
		Addr: s.opts.E2BAddr, Insecure: o.Insecure, Faults: o.Faults, Latency: o.Latency, Record: o.Record,
		Limits: o.Limits, NoNetwork: o.NoNetwork, EgressCA: o.EgressCA,
		Recipes: o.Templates, StrictTemplates: o.StrictTemplates,
	})
}

func (s *Stack) runE2B(ctx context.Context, cfg local.Config) error {
	cfg.APIKey, cfg.Log = s.apiKey, s.opts.Log
	if !s.Temporary { // else it knows best how to remove what commands leave
		cfg.DataDir = filepath.Join(s.DataDir, "e2b")
	}
	srv, err := local.Start(ctx, cfg)
	if err != nil {
		return err
	}
	s.E2B = srv
	s.stops = append(s.stops, func(context.Context) error { return srv.Close() })
	return nil
}

// apiKey returns the key that the sandbox server of a data folder asks for, in
// the form of E2B's own: made on first use and kept.
func apiKey(dir string) (string, error) {
	path := filepath.Join(dir, "e2b-api-key")
	b, err := os.ReadFile(path)
	if err == nil && len(b) > 0 {
		return string(b), nil
	}
	raw := make([]byte, 20)
	_, _ = rand.Read(raw) // never fails
	key := "e2b_" + hex.EncodeToString(raw)
	if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
		return "", fmt.Errorf("keep the API key: %w", err)
	}
	return key, nil
}
