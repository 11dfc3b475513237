package local

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Faults is a script of failures and a count of what was called. It is safe
// for concurrent use.
//
// Operations of the control plane: create, connect, resume, get, list, pause,
// kill, timeout, refresh, network, metrics, logs, snapshot, snapshot.list,
// template.delete, fork, health. Of envd: start, process.connect, process.list,
// input, input.stream, stdin.close, signal, update, stat, mkdir, move, listdir,
// remove, watch, watcher.create, watcher.events, watcher.remove, read, write, compose,
// envd.health, envd.metrics, envd.envs. "*" is any of them.
type Faults struct {
	mu      sync.Mutex
	armed   []*armed
	counts  map[string]int
	started []string
	dice    *rand.Rand
}

// Fault is one scripted failure.
type Fault struct {
	Op      string  // which operation it meets; "*" is any
	Sandbox string  // only calls for this sandbox; empty means any
	Skip    int     // how many calls to let pass first
	Count   int     // how many calls to meet; 0 means one, below 0 all
	Chance  float64 // how likely a call that could be met is; 0 means that every one is
	Action  Action  // what happens
	Met     func()  // called for each call that it meets, if set; must not block
}

// Action is what a [Fault] does: [Status], [Hang], [Delay], [CutAfter],
// [LostAnswer] or [LateEffect].
type Action interface{ action() }

// Status answers without doing anything. The body is E2B's error with Code and
// Message unless Body is set.
type Status struct {
	Code       int
	Message    string
	ErrorCode  string
	Body       string
	RetryAfter time.Duration // 0 leaves the header out
}

// Hang does nothing until the client goes, the fault is removed or the server
// closes. A removed hang goes on with the call.
type Hang struct{}

// Delay waits, then goes on with the call.
type Delay time.Duration

// CutAfter resets the connection in the middle of the answer: once Bytes of
// the body are sent or, when After is set, that long after the call began.
type CutAfter struct {
	Bytes int64
	After time.Duration
}

// LostAnswer does what was asked and then resets the connection without an
// answer. A stream is reset at its first message: the command has started.
type LostAnswer struct{}

// LateEffect resets the connection at once and does what was asked so long
// after, when who asked has given up. It is for calls of the control plane.
type LateEffect time.Duration

func (Status) action()     {}
func (Hang) action()       {}
func (Delay) action()      {}
func (CutAfter) action()   {}
func (LostAnswer) action() {}
func (LateEffect) action() {}

type armed struct {
	Fault
	skip, left int
	removed    chan struct{}
}

// NewFaults returns an empty script.
func NewFaults() *Faults { return SeededFaults(rand.Uint64()) }

// SeededFaults is NewFaults with the seed that chances are thrown from: the same
// calls in the same order meet the same faults.
func SeededFaults(seed uint64) *Faults {
	return &Faults{counts: make(map[string]int), dice: rand.New(rand.NewPCG(seed, 0))}
}

// Add arms a fault. The returned func takes it out and releases what hangs on
// it; it may be called twice.
func (f *Faults) Add(ft Fault) (remove func()) {
	a := &armed{Fault: ft, skip: ft.Skip, left: ft.Count, removed: make(chan struct{})}
	if a.left == 0 {
		a.left = 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = append(f.armed, a)
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.armed = slices.DeleteFunc(f.armed, func(b *armed) bool { return a == b })
		close(a.removed)
	})
}

// Count says how often an operation was called so far, met by a fault or not.
// "*" sums them all.
func (f *Faults) Count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op != "*" {
		return f.counts[op]
	}
	n := 0
	for _, c := range f.counts {
		n += c
	}
	return n
}

// Started says how many processes were started whose command line, program and
// arguments with a blank between them, contains part. It remembers the last
// thousands only.
func (f *Faults) Started(part string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.started {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// What is remembered of the commands that were started, so that a server may
// run for weeks: the last so many, each cut at so many bytes.
const (
	maxStarted = 10_000
	maxLine    = 4 << 10
)

func (f *Faults) noteStart(argv []string) {
	line := strings.Join(argv, " ")
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.started) == maxStarted {
		f.started = slices.Delete(f.started, 0, maxStarted/2)
	}
	f.started = append(f.started, strings.Clone(line[:min(len(line), maxLine)]))
}

// take counts a call and returns the fault that meets it, or nil. The first
// armed fault that fits counts the call, whether it lets it pass or not.
func (f *Faults) take(op, sandbox string) *armed {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op]++
	for _, a := range f.armed {
		if a.left == 0 || (a.Op != "*" && a.Op != op) || (a.Sandbox != "" && a.Sandbox != sandbox) {
			continue
		}
		if a.skip > 0 {
			a.skip--
			continue
		}
		if a.Chance > 0 && f.dice.Float64() >= a.Chance {
			continue
		}
		if a.left > 0 {
			a.left--
		}
		if a.Met != nil {
			a.Met()
		}
		return a
	}
	return nil
}

func (s Status) write(w http.ResponseWriter) {
	if s.RetryAfter > 0 {
		setRetryAfter(w.Header(), s.RetryAfter, 1)
	}
	if s.Body != "" {
		w.WriteHeader(s.Code)
		_, _ = w.Write([]byte(s.Body))
		return
	}
	msg := s.Message
	if msg == "" {
		msg = http.StatusText(s.Code)
	}
	writeError(w, &apiError{status: s.Code, message: msg, semantic: s.ErrorCode})
}
