package local

import (
	"io"
	"log/slog"
	"time"
)

// Isolation is how well sandboxes are fenced off from the machine.
type Isolation string

// The levels, and Auto, which takes the best one that the machine allows.
const (
	Auto   Isolation = ""
	Strong Isolation = "strong" // bubblewrap: own root, read-only system, own pids, users, ipc and host name
	Basic  Isolation = "basic"  // own pids, /tmp and /home/user, but the machine's file system around them
	None   Isolation = "none"   // plain processes with a HOME and TMPDIR of their own
)

// Config says how a [Server] runs. The zero value works: a free port on
// loopback, a temporary directory, a key made up at the start.
type Config struct {
	// Addr is where to listen; empty means a free port on 127.0.0.1.
	Addr string
	// DataDir holds the sandboxes. Empty means a temporary directory that
	// Close removes.
	DataDir string
	// APIKey is the one key that the control plane takes; empty means that
	// one is made up, see [Server.APIKey].
	APIKey string
	// Isolation asks for one level; Auto probes. A level the machine does not
	// allow is an error of Start.
	Isolation Isolation
	// MaxRunning bounds the sandboxes that run at once; one more is a 429
	// without Retry-After. 0 means no bound.
	MaxRunning int
	// CreateRate is how many creates a second are let through, CreateBurst how
	// many at once (at least 1); one more is a 429 with Retry-After. 0 means
	// no limit.
	CreateRate  float64
	CreateBurst int
	// Limits bound what one sandbox may use of the machine.
	Limits Limits
	// NoNetwork gives each sandbox a network of its own whose only way out is
	// its egress proxy, where the isolation is strong and the server root; else
	// they have the machine's, its loopback included, and may pass the proxy by.
	NoNetwork bool
	// EgressCA names a file of certificates in PEM that egress proxies and
	// sandboxes trust beside the machine's; empty is none.
	EgressCA string
	// MaxLength is the longest a sandbox may run without a pause; 0 means 24 h.
	MaxLength time.Duration
	// Templates lists the templates that exist; empty means any name does.
	Templates []string
	// Recipes is a directory of templates to build at the start: a directory each,
	// with a Dockerfile. StrictTemplates lets no other name be a template; else
	// any name is. Empty means none.
	Recipes         string
	StrictTemplates bool
	// Insecure lets the server listen beyond loopback although sandboxes are
	// not strongly isolated: who reaches it runs commands on this machine.
	Insecure bool
	// Latency is what every call waits before it is served.
	Latency time.Duration
	// Record takes the traffic as lines of JSON, without secrets; nil means
	// that none is recorded. It is written from one goroutine at a time.
	Record io.Writer
	// Log takes the server's own log; nil means none.
	Log *slog.Logger
	// Faults is the script of failures; nil means an empty one, see
	// [Server.Faults].
	Faults *Faults

	noGroups bool // for tests: as if control groups could not be made
}

// EnvdVersion is the envd version the server announces: SDKs decide by it
// which calls they make.
const EnvdVersion = "0.6.13"

func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.APIKey == "" {
		c.APIKey = "e2b_" + randomHex(20)
	}
	if c.MaxLength <= 0 {
		c.MaxLength = 24 * time.Hour
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Faults == nil {
		c.Faults = NewFaults()
	}
	return c
}
