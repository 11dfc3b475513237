package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/stack"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// How fast things go in the sweep. A pause outlasts AckWait, so that a successor
// takes over; AckWait is long enough for a worker on a busy machine to beat.
const (
	crashAckWait = 3 * time.Second
	crashPause   = 2 * crashAckWait
	crashLimit   = 2 * time.Minute // of one workload, whatever happens to it
)

// crashSite is a namespace of the world in which one fault strikes. Many stand in
// one world, side by side.
type crashSite struct {
	w     *world
	ns    wire.Namespace
	dir   string
	facts *events.Log
	jobs  *jobs.Publisher
	view  *store.Store
	load  func(context.Context) error
	// What is there when the workload is over: sessions that sleep, dead letters.
	asleep  []string
	letters int
	frozen  bool // a worker may write after its successor is through
}

func newCrashSite(t *testing.T, w *world, name string) *crashSite {
	t.Helper()
	s := &crashSite{w: w, asleep: asleepAfter, letters: 1, ns: wire.Namespace(name), dir: t.TempDir(), jobs: jobs.NewPublisher(w.pub, wire.Namespace(name))}
	s.load = s.workload
	var err error
	s.facts, err = events.Open(w.nc, w.pub, s.ns, "/sandjet/test")
	require.NoError(t, err)
	s.view, err = store.Open(t.Context(), w.redis.URL(), s.ns)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = s.facts.Close()
		_ = s.view.Close()
		s.sweep()
	})
	return s
}

// sweep takes away what the site leaves, for the sites to come.
func (s *crashSite) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	names := s.w.js.StreamNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(strings.TrimPrefix(name, "OBJ_"), string(s.ns)+"_") {
			_ = s.w.js.DeleteStream(ctx, name)
		}
	}
	for _, id := range s.sandboxes() {
		s.w.e2b.KillSandbox(id)
	}
}

// sandboxes lists what E2B has of this site.
func (s *crashSite) sandboxes() (ids []string) {
	for _, sb := range s.w.e2b.Sandboxes() {
		if sb.Metadata["sandjet-namespace"] == string(s.ns) {
			ids = append(ids, sb.SandboxID)
		}
	}
	return ids
}

// crasher is a worker process with crash points.
type crasher struct {
	name   string
	cmd    *exec.Cmd
	points string // file of the points it passed
	log    string // file of what it said
	done   chan struct{}
}

// start starts a worker with rules for its points.
func (s *crashSite) start(t *testing.T, name, rules string) *crasher {
	t.Helper()
	bin, err := pointsBinary()
	require.NoError(t, err)
	c := &crasher{
		name: name, points: filepath.Join(s.dir, name+".points"), log: filepath.Join(s.dir, name+".log"),
		cmd: exec.Command(bin), done: make(chan struct{}),
	}
	out, err := os.Create(c.log)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.points, nil, 0o600))
	// In a file: another test looks for the token in every process's environment.
	token := filepath.Join(s.dir, name+".token")
	require.NoError(t, os.WriteFile(token, []byte(planted), 0o600))
	c.cmd.Env = []string{
		"WORKER_NAME=" + name, "LOG_FORMAT=text", "LOG_LEVEL=debug", "HOME=" + s.dir,
		"SANDJET_NAMESPACE=" + string(s.ns), "WORKER_ACK_WAIT=" + crashAckWait.String(), "WORKER_IDLE_TIMEOUT=2s",
		"WORKER_SANDBOX_LIMIT=50", "WORKER_CREATE_RATE=100",
		"WORKER_EVENTS_CAP=64MiB", "WORKER_JOBS_CAP=16MiB",
		"GITHUB_TOKEN_FILE=" + token, "GITHUB_API_URL=" + s.w.git.URL,
		"SANDJET_POINTS=" + rules, "SANDJET_POINTS_LOG=" + c.points,
	}
	for k, v := range s.w.env() {
		c.cmd.Env = append(c.cmd.Env, k+"="+v)
	}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, stack.StartTied(c.cmd, func() {
		defer close(c.done)
		_ = c.cmd.Wait()
		_ = out.Close()
	}))
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
	})
	return c
}

// stop ends a worker in good order: what it still has to say is said then.
func (c *crasher) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-c.done:
		return nil
	case <-time.After(eventually):
		return fmt.Errorf("worker %s does not stop", c.name)
	}
}

func (c *crasher) gone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// passed reads the points that the worker has passed, and how often.
func (c *crasher) passed() map[string]int {
	n := map[string]int{}
	text, _ := os.ReadFile(c.points)
	for line := range strings.Lines(string(text)) {
		n[strings.TrimSpace(line)]++
	}
	return n
}

// struck reports whether a fault has struck that asks for a successor, or the
// worker is gone for another reason.
func (c *crasher) struck() bool { return c.gone() || c.says("=crash@") || c.says("=pause:") }

// asleep reports whether the worker is in a pause.
func (c *crasher) asleep() bool { return !c.gone() && c.says("=pause:") && !c.says("woke ") }

// fired reports whether the rule's fault has struck.
func (c *crasher) fired(rule string) bool { return c.says("fired " + rule + "\n") }

func (c *crasher) says(what string) bool {
	text, _ := os.ReadFile(c.points)
	for line := range strings.Lines(string(text)) {
		if (strings.HasPrefix(line, "fired ") || strings.HasPrefix(line, "woke ")) && strings.Contains(line, what) {
			return true
		}
	}
	return false
}

// tail is the end of what the worker said.
func (c *crasher) tail() string {
	text, _ := os.ReadFile(c.log)
	return fmt.Sprintf("---- %s (%v)\n%s", c.name, c.cmd.ProcessState, text[max(0, len(text)-12<<10):])
}

// succession starts the workers one after the other, each once a fault has struck
// the one before it, until ctx ends; rules[i] are of the i-th, or deploy, and the one
// after the last has none.
func (s *crashSite) succession(ctx context.Context, t *testing.T, rules []string) (all []*crasher) {
	for i := 0; ; i++ {
		name, its := fmt.Sprintf("w%d", i), ""
		if i < len(rules) {
			its = rules[i]
		}
		ends := its == deploy
		if ends {
			its = ""
		}
		c := s.start(t, name, its)
		all = append(all, c)
		for !c.struck() {
			if ends && c.passed()["events.stdout"] > 0 {
				_ = c.stop() // if it does not end, the workload does not either, and says so
			}
			select {
			case <-ctx.Done():
				return all
			case <-time.After(tick):
			}
		}
		if ctx.Err() != nil || i > len(rules)+2 {
			return all
		}
	}
}

// bucket is the object bucket, once a worker has made it.
func (s *crashSite) bucket(ctx context.Context) (b jetstream.ObjectStore, err error) {
	err = until(ctx, "object bucket", func() (err error) {
		b, err = s.w.js.ObjectStore(ctx, s.ns.Stream(events.BucketArtifact))
		return err
	})
	return b, err
}

// until asks again and again until there is no error.
func until(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(err, ctx.Err()))
		case <-time.After(tick):
		}
	}
}
