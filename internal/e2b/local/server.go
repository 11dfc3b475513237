package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
)

// Server is an E2B-compatible sandbox server. All methods may be called
// concurrently.
type Server struct {
	*machine
	cfg       Config
	log       *slog.Logger
	dir       string // of the sandboxes
	temp      string // removed by Close
	isolation Isolation
	sudo      bool
	size      size
	limits    *limits
	shelf     *shelf
	templates map[string]*builtTemplate // by name; not changed after the start
	listener  net.Listener
	http      *http.Server
	closing   chan struct{}
	closeOnce func() error

	mu     sync.Mutex
	boxes  map[string]*sandbox
	closed bool
	tasks  sync.WaitGroup // goroutines of the server and its calls
}

// Start starts a server and returns when it takes calls. ctx bounds the start
// only; end the server with Close.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Log, limits: newLimits(cfg), machine: newMachine(cfg),
		boxes: make(map[string]*sandbox), templates: make(map[string]*builtTemplate), closing: make(chan struct{}),
	}
	s.closeOnce = sync.OnceValue(s.close)
	if err := s.open(ctx); err != nil {
		s.tasks.Wait() // of a template that could not be built
		s.machine.close()
		s.removeTemp()
		return nil, fmt.Errorf("start sandbox server: %w", err)
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) (err error) {
	var why error
	if s.isolation, why, err = s.chooseIsolation(s.cfg.Isolation); err != nil {
		return err
	}
	s.sudo = s.isolation == Strong && s.users.mapped && isDir("/usr/local/sbin")
	switch {
	case s.isolation == None:
		s.log.Warn("SANDBOXES ARE NOT ISOLATED: their commands are plain processes of this machine; "+
			"install bubblewrap or allow user namespaces", "err", why)
	case why != nil:
		s.log.Warn("sandboxes are not isolated as well as they could be", "isolation", s.isolation, "err", why)
	}
	if err := s.checkAddr(); err != nil {
		return err
	}
	if err := s.openDir(); err != nil {
		return err
	}
	s.openDisks()
	s.size = s.sandboxSize()
	s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return err
	}
	s.http = &http.Server{
		Handler:           s.track(s.handler()),
		ConnContext:       withConn,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       620 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if err := s.buildTemplates(ctx); err != nil {
		_ = s.listener.Close()
		return err
	}
	for _, sb := range s.all() {
		s.takeOver(sb)
	}
	s.run(s.keepHistory)
	s.run(func() { _ = s.http.Serve(s.listener) }) // ends at Close
	return nil
}

// handler is all that a call goes through.
func (s *Server) handler() http.Handler {
	h := delayed(s.cfg.Latency, s.cfg.Faults.wrap(s.routes()))
	if s.cfg.Record != nil {
		h = (&recorder{out: s.cfg.Record, key: s.cfg.APIKey}).wrap(h)
	}
	return h
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// checkAddr refuses to let others run commands that nothing holds.
func (s *Server) checkAddr() error {
	if s.isolation == Strong || s.cfg.Insecure || isLoopback(s.cfg.Addr) {
		return nil
	}
	return fmt.Errorf("%s is not loopback, and isolation is %s: who reaches it could do to this machine what you can; "+
		"install bubblewrap, or say --insecure-no-isolation", s.cfg.Addr, s.isolation)
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// openDir finds or makes the directory and takes over what is in it.
func (s *Server) openDir() error {
	dir := s.cfg.DataDir
	if dir == "" {
		temp, err := os.MkdirTemp("", "sandboxes-")
		if err != nil {
			return err
		}
		dir, s.temp = temp, temp
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if s.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if s.shelf, err = openShelf(s.dir); err != nil {
		return err
	}
	if s.trust, err = newTrust(s.dir, s.cfg.EgressCA); err != nil {
		return err
	}
	records, err := loadRecords(s.dir)
	if err != nil {
		return err
	}
	for _, r := range records {
		s.boxes[r.ID] = newSandbox(s, r)
	}
	return nil
}

// takeOver lets a sandbox of an earlier server go on, without its processes.
func (s *Server) takeOver(sb *sandbox) {
	if s.isolation == None { // plain processes outlive a server that was killed
		_ = (&jail{machine: s.machine, id: sb.id()}).signalPlain(syscall.SIGKILL)
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.state != running {
		sb.lost = true
		return
	}
	s.limits.adopt()
	sb.slot = true
	sb.arm() // one whose time is up ends at once
}

// URL is the base address of both planes: E2B_API_URL and E2B_SANDBOX_URL.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Addr is the address the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// APIKey is the key the control plane takes.
func (s *Server) APIKey() string { return s.cfg.APIKey }

// Isolation says how well sandboxes are fenced off: strong, basic or none.
func (s *Server) Isolation() string { return string(s.isolation) }

// Faults is the script of failures and the count of calls.
func (s *Server) Faults() *Faults { return s.cfg.Faults }

// Sandboxes lists the sandboxes there are now, for tests.
func (s *Server) Sandboxes() []e2b.ListedSandbox {
	var list []e2b.ListedSandbox
	for _, sb := range s.all() {
		list = append(list, s.size.listed(sb.snapshot()))
	}
	return list
}

// Peak says how many sandboxes ran at once at most since the server started.
func (s *Server) Peak() int {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	return s.limits.peak
}

// KillSandbox ends a sandbox as if its machine had died: its streams are reset
// and it is not found from then on. It reports whether there was one.
func (s *Server) KillSandbox(id string) bool {
	sb, err := s.find(id)
	return err == nil && sb.kill()
}

// CutStreams resets every call to envd that is being served, in all sandboxes, as
// when the way to them breaks. The processes live on.
func (s *Server) CutStreams() {
	for _, sb := range s.all() {
		sb.calls.cut()
	}
}

// Close ends every process of every sandbox and all goroutines. Sandboxes stay
// in DataDir for the next server. It may be called twice.
func (s *Server) Close() error { return s.closeOnce() }

func (s *Server) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	close(s.closing)
	err := s.http.Close() // closes every connection, so that every call ends
	for _, sb := range s.all() {
		sb.stop()
	}
	s.tasks.Wait()
	s.machine.close()
	s.removeTemp()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// stop ends what runs for the sandbox and leaves its record as it is.
func (s *sandbox) stop() {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.state = gone
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.shut()
}

func (s *Server) removeTemp() {
	if s.temp != "" {
		_ = removeTree(s.temp)
	}
}

// run runs f in a goroutine that Close waits for. On a closed server it does
// nothing.
func (s *Server) run(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.tasks.Go(f)
}

// track counts a call among what Close waits for.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			writeError(w, errClosing)
			return
		}
		s.tasks.Add(1)
		s.mu.Unlock()
		defer s.tasks.Done()
		next.ServeHTTP(w, r)
	})
}

// all is every sandbox there is now.
func (s *Server) all() []*sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*sandbox, 0, len(s.boxes))
	for _, sb := range s.boxes {
		list = append(list, sb)
	}
	return list
}

// find finds a sandbox by its id as callers write it.
func (s *Server) find(name string) (*sandbox, error) {
	id, ok := parseID(name)
	if !ok {
		return nil, failf(http.StatusBadRequest, "Invalid sandbox ID")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sb, ok := s.boxes[id]; ok {
		return sb, nil
	}
	return nil, errNoSandbox(id)
}

func (s *Server) drop(sb *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.boxes, sb.id())
}
