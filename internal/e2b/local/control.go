package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"
)

// maxBody is the largest body the control plane reads.
const maxBody = 16 << 20

// routes puts the two planes behind one address.
func (s *Server) routes() http.Handler {
	control, data := s.control(), s.dataPlane(s.envd())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isDataPlane(r) {
			withCORS(data).ServeHTTP(w, r)
			return
		}
		control.ServeHTTP(w, r)
	})
}

// control is the control plane.
func (s *Server) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "Health check successful, isolation "+string(s.isolation)+"\n")
		for _, h := range s.InForce()[1:] {
			_, _ = fmt.Fprintf(w, "%s: %s\n", h.Name, h.How)
		}
	})
	handle := func(pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
		mux.Handle(pattern, s.authenticated(h))
	}
	handle("POST /sandboxes", func(w http.ResponseWriter, r *http.Request) error { return s.create(w, r, false) })
	handle("POST /v2/sandboxes", func(w http.ResponseWriter, r *http.Request) error { return s.create(w, r, true) })
	handle("GET /sandboxes", s.listRunning)
	handle("GET /v2/sandboxes", s.list)
	handle("GET /sandboxes/metrics", s.manyMetrics)
	handle("GET /sandboxes/{id}", s.on(s.detail))
	handle("DELETE /sandboxes/{id}", s.on(s.delete))
	handle("POST /sandboxes/{id}/pause", s.on(s.pause))
	handle("POST /sandboxes/{id}/resume", s.on(s.resume))
	handle("POST /sandboxes/{id}/connect", s.on(s.connectV1))
	handle("POST /v2/sandboxes/{id}/connect", s.on(s.connectV2))
	handle("POST /sandboxes/{id}/timeout", s.on(s.timeout))
	handle("POST /sandboxes/{id}/refreshes", s.on(s.refresh))
	handle("PUT /sandboxes/{id}/network", s.on(s.network))
	handle("GET /sandboxes/{id}/metrics", s.on(s.metrics))
	handle("GET /sandboxes/{id}/logs", s.on(s.logs))
	handle("GET /v2/sandboxes/{id}/logs", s.on(s.logs))
	handle("POST /sandboxes/{id}/snapshots", s.on(s.takeSnapshot))
	handle("POST /sandboxes/{id}/fork", s.on(s.fork))
	handle("GET /snapshots", s.listSnapshots)
	handle("DELETE /templates/{id}", s.dropTemplate)
	handle("GET /templates/{id}/{part}", s.ofTemplate)
	handle("GET /volumes", none)
	handle("GET /secrets", none)
	for pattern, err := range absent {
		handle(pattern, func(http.ResponseWriter, *http.Request) error { return err })
	}
	handle("/", func(_ http.ResponseWriter, r *http.Request) error {
		return failf(http.StatusNotFound, "no matching operation was found: %s %s", r.Method, r.URL.Path)
	})
	return mux
}

// authenticated lets a call with the right key through and writes what its
// handler returns.
func (s *Server) authenticated(h func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-API-KEY")
		if key == "" {
			writeError(w, failf(http.StatusUnauthorized, "authorization header is missing"))
			return
		}
		if !sameSecret(key, s.cfg.APIKey) {
			writeError(w, failf(http.StatusUnauthorized, "Cannot get the team for the given API key: invalid API key"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := h(w, r); err != nil {
			writeError(w, err)
		}
	})
}

type boxHandler func(sb *sandbox, w http.ResponseWriter, r *http.Request) error

// on finds the sandbox that the path names.
func (s *Server) on(h boxHandler) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		sb, err := s.find(r.PathValue("id"))
		if err != nil {
			return err
		}
		return h(sb, w, r)
	}
}

// decode reads a JSON body; an empty one leaves v as it is.
func decode(r *http.Request, v any) error {
	err := json.NewDecoder(r.Body).Decode(v)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return failf(http.StatusRequestEntityTooLarge, "request body is too large")
	}
	return failf(http.StatusBadRequest, "Error when parsing request: %v", err)
}

// seconds makes a duration of a client's number; what would not
// fit is the most that does.
func seconds(n int) time.Duration {
	const most = math.MaxInt32 // what the wire's int32 holds
	return time.Duration(min(max(n, -most), most)) * time.Second
}

func (s *Server) delete(sb *sandbox, w http.ResponseWriter, _ *http.Request) error {
	if !sb.kill() {
		return errNoSandbox(sb.id())
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) pause(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	q := struct {
		Memory *bool `json:"memory"`
	}{}
	if err := decode(r, &q); err != nil {
		return err
	}
	if err := sb.pause(r.Context(), q.Memory == nil || *q.Memory); err != nil {
		return err
	}
	if err := sb.forget(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// connectRequest is the body of connect and of resume.
type connectRequest struct {
	Timeout *int  `json:"timeout"`
	Memory  *bool `json:"memory"`
}

func (s *Server) connectV1(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	return s.connect(sb, w, r, nil)
}

func (s *Server) connectV2(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	life := int(timeoutV2 / time.Second)
	return s.connect(sb, w, r, &life)
}

func (s *Server) connect(sb *sandbox, w http.ResponseWriter, r *http.Request, life *int) error {
	resumed, err := s.wake(sb, r, life)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if resumed {
		status = http.StatusCreated
	}
	writeJSON(w, status, answer(sb.snapshot()))
	return nil
}

// wake does what connect and resume ask for; a request may leave life to its default.
func (s *Server) wake(sb *sandbox, r *http.Request, life *int) (resumed bool, err error) {
	q := connectRequest{Timeout: life}
	if err := decode(r, &q); err != nil {
		return false, err
	}
	if q.Timeout == nil {
		return false, failf(http.StatusBadRequest, "timeout is required")
	}
	d := seconds(*q.Timeout)
	if err := s.checkLife(d); err != nil {
		return false, err
	}
	what := resumeKept
	if q.Memory != nil && !*q.Memory {
		what = resumeFiles
	}
	if resumed, err = sb.connect(r.Context(), d, what); err != nil {
		return false, err
	}
	return resumed, sb.forget(r.Context())
}

func (s *Server) checkLife(d time.Duration) error {
	if d <= 0 {
		return failf(http.StatusBadRequest, "Timeout must be greater than 0")
	}
	if d > s.cfg.MaxLength {
		return failf(http.StatusBadRequest, "Timeout cannot be greater than %d hours", int(s.cfg.MaxLength.Hours()))
	}
	return nil
}

// resume is the deprecated call that only wakes.
func (s *Server) resume(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	awake := failf(http.StatusConflict, "sandbox %q is already running", sb.id())
	if sb.is(running) {
		return awake
	}
	life := int(timeoutV1 / time.Second)
	resumed, err := s.wake(sb, r, &life)
	if err == nil && !resumed { // somebody else was first
		err = awake
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, answer(sb.snapshot()))
	return nil
}

func (s *Server) timeout(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Timeout *int `json:"timeout"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Timeout == nil {
		return failf(http.StatusBadRequest, "timeout is required")
	}
	if err := sb.setTimeout(seconds(*q.Timeout)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) refresh(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	q := struct {
		Duration int `json:"duration"`
	}{Duration: 15}
	if err := decode(r, &q); err != nil {
		return err
	}
	if err := sb.refresh(seconds(min(max(q.Duration, 15), 3600))); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
