package local

import (
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"regexp"
	"strings"

	"connectrpc.com/connect"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem/filesystemconnect"
	"github.com/sandjet/sandjet/internal/e2b/envd/process/processconnect"
)

const envdPort = "49983"

// maxMessage is the largest message that envd's services read, unpacked: envd
// takes 16 MiB of input in one, which is a third more in JSON.
const maxMessage = 32 << 20

// hostForm is a sandbox's own host name: "<port>-<id>.<domain>".
var hostForm = regexp.MustCompile(`^(\d+)-([a-z0-9]+)\.`)

// isDataPlane tells the two planes apart, since they share one address: by the
// routing headers, by the host name, and by paths that only envd has.
func isDataPlane(r *http.Request) bool {
	if r.Header.Get(headerSandbox) != "" || r.Header.Get(headerPort) != "" || hostForm.MatchString(r.Host) {
		return true
	}
	p := r.URL.Path
	return p == "/files" || strings.HasPrefix(p, "/files/") || p == "/envs" || p == "/metrics" ||
		strings.HasPrefix(p, "/process.Process/") || strings.HasPrefix(p, "/filesystem.Filesystem/")
}

// envd is the handler of everything inside sandboxes. Calls reach it with
// their sandbox in the context.
func (s *Server) envd() http.Handler {
	mux := http.NewServeMux()
	// Frames are far below the threshold: both ends are on one machine, and
	// compressing would cost more than it saves.
	opts := []connect.HandlerOption{connect.WithCompressMinBytes(1 << 20), connect.WithReadMaxBytes(maxMessage)}
	mux.Handle(processconnect.NewProcessHandler(processService{}, opts...))
	mux.Handle(filesystemconnect.NewFilesystemHandler(filesystemService{}, opts...))
	mux.HandleFunc("GET /files", getFile)
	mux.HandleFunc("HEAD /files", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) })
	mux.HandleFunc("POST /files", postFiles)
	mux.HandleFunc("POST /files/compose", composeFiles)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /metrics", envdMetrics)
	mux.HandleFunc("GET /envs", envdEnv)
	return mux
}

type callKey struct{}

// box is the sandbox that a call on the data plane is for.
func box(ctx context.Context) *sandbox { return ctx.Value(callKey{}).(*sandbox) }

// dataPlane plays E2B's proxy: it finds the sandbox, turns calls to one that
// does not run away, checks the token and keeps the call where pause and kill
// find it.
func (s *Server) dataPlane(envd http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, port, err := s.route(r)
		if err != nil {
			writeText(w, err)
			return
		}
		sb, err := s.find(id)
		if err != nil {
			writeGone(w, r, id)
			return
		}
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), callKey{}, sb))
		defer cancel()
		// First join, then look: a pause in between finds the call or stops it.
		leave := sb.calls.add(r, cancel)
		defer func() { leave() }()
		if !sb.is(running) {
			leave() // the pause that still goes on must not cut who wakes the sandbox
			if !sb.autoResume(w, r, port) {
				return
			}
			if leave = sb.calls.add(r, cancel); !sb.is(running) {
				writeGone(w, r, id)
				return
			}
		}
		r = r.WithContext(ctx)
		if port != envdPort {
			sb.proxy(w, r, port)
			return
		}
		if err := sb.authorize(r); err != nil {
			writeError(w, err)
			return
		}
		envd.ServeHTTP(w, r)
	})
}

// route finds the sandbox's id and the port that a call is for: by a host name of
// the sandbox's own, else by the headers.
func (s *Server) route(r *http.Request) (id, port string, err error) {
	if m := hostForm.FindStringSubmatch(r.Host); m != nil {
		return m[2], m[1], nil
	}
	id, port = r.Header.Get(headerSandbox), r.Header.Get(headerPort)
	switch {
	case id != "" && port != "":
		id, ok := parseID(id)
		if !ok {
			return "", "", failf(http.StatusBadRequest, "Invalid sandbox ID")
		}
		return id, port, nil
	case id != "" || port != "":
		return "", "", failf(http.StatusBadRequest, "missing header")
	}
	if id := s.bySignature(r); id != "" {
		return id, envdPort, nil
	}
	if r.URL.Path == "/files" {
		return "", "", failf(http.StatusUnauthorized, "invalid signature")
	}
	return "", "", failf(http.StatusBadRequest, "Invalid host")
}

// writeText answers as the proxy does before it knows a sandbox.
func writeText(w http.ResponseWriter, err error) {
	var e *apiError
	if errors.As(err, &e) && e.status != http.StatusUnauthorized {
		http.Error(w, e.message, e.status)
		return
	}
	writeError(w, err)
}

// internalPaths are envd's, for its host only.
var internalPaths = map[string]bool{
	"/init": true, "/freeze": true, "/unfreeze": true, "/fsfreeze": true, "/fsthaw": true, "/collapse": true, "/upgrade": true,
}

// authorize checks the sandbox's access token or, for file transfers, the
// signature in its place.
func (s *sandbox) authorize(r *http.Request) error {
	if internalPaths[r.URL.Path] {
		return failf(http.StatusNotFound, "not found")
	}
	if r.URL.Path == "/health" || s.rec.Token == "" {
		return nil
	}
	given := r.Header.Get("X-Access-Token")
	if r.URL.Path == "/files" {
		return s.authorizeFile(r, given)
	}
	if !sameSecret(given, s.rec.Token) {
		return failf(http.StatusUnauthorized, "unauthorized access, please provide a valid access token or method signing if supported")
	}
	return nil
}

func sameSecret(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// loopback is where a sandbox's own ports are, in its network.
func loopback(port string) string { return net.JoinHostPort("127.0.0.1", port) }
